"""One event loop for a whole run, and the signals that end one: the connection pool and the engine live on it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType, TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class Interrupted(Exception):
    """The run was asked to save and exit."""


class Interruption:
    """Remembers that SIGTERM, SIGUSR1 or Ctrl-C asked the run to save and exit; a second one acts as it would have."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before: dict[int, Any] = {}
        self._loop: Loop | None = None

    def watch(self, loop: Loop | None) -> None:
        """Whose work to interrupt: episodes that are being played are given up."""
        self._loop = loop

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.asked = signal.Signals(number).name
        if self._loop is not None:
            self._loop.interrupt()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class Loop:
    """Runs one piece of work after another on the same event loop."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._working: asyncio.Task[Any] | None = None
        self._interrupted = False

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises `Interrupted` where `interrupt` was called meanwhile."""
        try:
            return self._runner.run(self._tracked(work))
        except asyncio.CancelledError:
            if self._interrupted:
                raise Interrupted from None
            raise

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        self._working = asyncio.current_task()
        try:
            return await work
        finally:
            self._working = None

    def interrupt(self) -> None:
        """Cancel what is being done, also from a signal handler; nothing happens between two pieces of work."""
        working = self._working
        if working is not None:
            self._interrupted = True
            self._runner.get_loop().call_soon_threadsafe(working.cancel)

    def close(self) -> None:
        self._runner.close()
