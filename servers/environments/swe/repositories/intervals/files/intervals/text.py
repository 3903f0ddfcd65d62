"""Ranges as people write them: 1-4, 7, 9-12."""

from .ranges import merge


def parse(text):
    """The ranges of a text, merged. A minus sign before a number belongs to it: "-3--1" is (-3, -1)."""
    ranges = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            continue
        cut = part.find("-", 1)
        if cut == -1:
            ranges.append((int(part), int(part)))
        else:
            ranges.append((int(part[:cut]), int(part[cut + 1 :])))
    return merge(ranges)


def show(ranges):
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in merge(ranges))
