"""The seam between the pool and what holds a worker: start one, get its streams, kill it.

A backend is a `Launcher`: how to start `worker.py` somewhere isolated. The pool does everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from .jobs import Limits


@dataclass(frozen=True, slots=True)
class Slot:
    """A started worker: one job at a time.

    `reader` is the worker's stdout, `writer` its stdin, both raw. `kill` ends it and everything in it at once, whatever
    state it is in, and returns when nothing of it runs any more (or raises nothing where it is gone already).
    `name` is for logs and tests.
    """

    name: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    kill: Callable[[], Awaitable[None]]
    #: What the backend knows of how it died, once it has: "out of memory", "exit status 137"; "" when nothing.
    autopsy: Callable[[], Awaitable[str]] = field(default=lambda: _nothing())


async def _nothing() -> str:
    return ""


class Launcher(Protocol):
    """A backend: how to start a worker."""

    #: "docker", "bubblewrap" or "subprocess".
    name: str
    #: The most that one job may ask for; also how large its slots are made.
    ceiling: Limits

    async def open(self) -> None:
        """Look whether workers can be started here (engine, image, program). Raises `SandboxUnavailable`, in one
        sentence that names the fix; it is what a server says when it does not start."""
        ...

    async def start(self) -> Slot:
        """Start a worker and return once its streams are there. Raises `SandboxUnavailable`."""
        ...

    async def close(self) -> None:
        """Let go of what `open` took. Every slot has been killed before."""
        ...
