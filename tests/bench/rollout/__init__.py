"""Runs in the trainer's stack, as a process of its own: `python -m tests.bench.rollout SESSIONS PAIRS [URL]`."""
