"""Progress of a running tool call, for the wires that carry it (MCP, when its client asked); elsewhere a no-op."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is: `progress` grows towards `total`, where that is known."""

    progress: float
    total: float | None = None
    message: str | None = None


#: Set by a wire around a call whose client wants progress; called from the tool's own thread.
listener: ContextVar[Callable[[Progress], None] | None] = ContextVar("gymwire_progress", default=None)


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Tell the client how far this call is. For use inside a tool, async or not; never waits, never fails."""
    listen = listener.get()
    if listen is not None:
        listen(Progress(progress, total, message))
