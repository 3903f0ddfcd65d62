"""A soak: servers under a long, unkind load, and whether they hold afterwards what they held before."""
