"""What the sandbox runs and what it says about it: jobs, limits, verdicts, and the interface of every backend.

A job is files, a command and limits; it starts in an empty folder of its own that holds its files, with no network,
and nothing of it is left for the next job. What the program did is a `Verdict`; what our side did is
`SandboxUnavailable`, which is a failed session and never a score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

PYTHON = "python"  # argv[0] of a Python program: backends that fork a warm interpreter need not start one


class Verdict(StrEnum):
    COMPLETED = "completed"  # exit status 0
    FAILED = "failed"  # another exit status
    TIMEOUT = "timeout"  # the wall or the CPU limit
    CRASHED = "crashed"  # ended by a signal: its own, its caller's, or for more processes than the limit
    OUT_OF_MEMORY = "out_of_memory"
    OUTPUT_LIMIT = "output_limit"  # more output, or more in its files, than the limit


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may use. Backends refuse limits above their own ceiling."""

    wall_s: float = 10.0
    cpu_s: float = 10.0
    memory_mb: int = 256
    processes: int = 32
    output_bytes: int = 65_536  # of each of stdout and stderr; more ends the job, and the end of it is kept
    files_bytes: int = 8_388_608  # of what a job's folder may hold, and of what is collected from it


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run. `files` are paths inside the job's folder; `argv` runs there."""

    argv: Sequence[str]
    files: Mapping[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    collect: bool = False  # whether the result carries the folder's files as the job left them


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a job. Exactly what the program did: never our side's failures."""

    verdict: Verdict
    exit_code: int | None = None  # None unless the program exited by itself
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False  # of stdout or stderr the end is kept; or not every file that was asked for
    wall_s: float = 0.0
    cpu_s: float = 0.0
    files: Mapping[str, bytes] = field(default_factory=dict)


class JobRefused(ValueError):
    """A job that this sandbox never runs: limits above its ceiling, files outside the folder. The caller's mistake."""


class SandboxUnavailable(Exception):
    """Our side cannot run the job: no free slot in time, a dead container, a stopped engine, a full disk.

    A session that meets it has failed with `provider_unavailable`.
    """


class Talk(Protocol):
    """A running job whose stdin and stdout are a conversation (`Sandbox.talk`)."""

    async def send(self, data: bytes) -> None:
        """Write to the job's stdin; what a job that has ended never read is dropped."""
        ...

    async def receive(self) -> bytes:
        """The next piece of the job's stdout; b"" once it has ended. Raises `SandboxUnavailable`."""
        ...

    async def finish(self) -> Result:
        """Close stdin, wait for the end (the limits hold), and say what became of it."""
        ...


class Sandbox(Protocol):
    """A pool of places to run jobs in. Every backend is one; so is the client of `gymwire sandbox serve`."""

    async def run(self, job: Job) -> Result:
        """Run a job in the next free slot. Raises `SandboxUnavailable`, and `JobRefused` for what it never runs."""
        ...

    def talk(self, job: Job) -> AbstractAsyncContextManager[Talk]:
        """Run a job and talk with it; leaving the context ends the job."""
        ...
