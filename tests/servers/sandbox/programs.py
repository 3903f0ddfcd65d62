"""Jobs that tests run."""

from __future__ import annotations

from typing import Any

from gymwire.servers.sandbox.jobs import PYTHON, Job, Limits


def program(source: str, *words: str, stdin: bytes = b"", files: dict[str, bytes] | None = None, **limits: Any) -> Job:
    """A Python program in a job's main.py."""
    everything = {"main.py": source.encode(), **(files or {})}
    return Job((PYTHON, "main.py", *words), everything, stdin, Limits(**limits))


def executed(job: Job) -> Job:
    """The same program, run by an interpreter of its own."""
    return Job(("python3", *job.argv[1:]), job.files, job.stdin, job.limits)


HELLO = program("print('hello')")
