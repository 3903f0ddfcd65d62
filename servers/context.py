"""Which session a piece of code works for: what logs made inside an environment's code are marked with.

A context variable, so tasks and threads that a tool starts know it too. It holds names alone: no handle, no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class About:
    """The names of a session. `episode_id` is what its caller calls it, or empty."""

    session_id: str
    environment: str
    wire: str = ""
    episode_id: str = ""


#: The session, and the tool where one runs. Whoever sets it puts back what was there before: a token could not be
#: used by a coroutine that is closed elsewhere.
CURRENT: ContextVar[tuple[About, str] | None] = ContextVar("gymwire_current", default=None)


@contextmanager
def working_for(about: About) -> Iterator[None]:
    """Mark what runs inside. The hot path of a tool call does the same by hand."""
    before = CURRENT.get()
    CURRENT.set((about, ""))
    try:
        yield
    finally:
        CURRENT.set(before)
