"""One evaluation from its first connection to its last word: what is played, where it is kept, how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from yarl import URL

from ...servers.catalog import Served
from ...servers.cli import INTERRUPTED_EXIT
from ...servers.commands.options import errors
from ..connect import Connection
from ..resolve import is_url
from ..session import WrongRequest
from .episode import Seat
from .plan import Plan, Wanted, plan_of
from .results import Folder, StorageFull
from .run import Run, State, Stopped, begin, mark, settings_of
from .terminal import Terminal

INTERRUPTED = "interrupted"


@dataclass
class Work:
    """One call of the command, inside its event loop. `scored`: a stranger's MCP server has who scores an episode.

    The folder is left open, so that its last words are this call's, too.
    """

    target: str
    served: Served | None
    seat: Seat
    wanted: Wanted
    concurrency: int
    folder: Folder | None
    retry_failed: bool
    solved: float
    quiet: bool
    scored: bool

    async def run(self) -> tuple[Run, State]:
        """Play; answers the run and how it ended. Raises `WrongRequest`, `Stopped` and `StorageFull`."""
        async with self.seat.connection as connection, self.seat.model:
            run = Run(self.seat, self._plan(connection), self.concurrency, self.folder, self.solved)
            if self.folder is None:
                return run, await self._play(run)
            self.folder.open()
            self._begin(self.folder, run, connection)
            with _said_in(self.folder, run):
                return run, await self._play(run)

    def _plan(self, connection: Connection) -> Plan:
        info = connection.info
        if self.served is None and not info.wires and connection.wire == "mcp" and not self.scored:
            raise WrongRequest(
                "who scores an episode? Name the server's --reward-tool; where it has none, serve it with "
                f"`gymwire bridge {self.target} --from mcp --grader …`, and evaluate that."
            )
        return plan_of(self.wanted, info, self.served, connection.wire)

    def _begin(self, folder: Folder, run: Run, connection: Connection) -> None:
        settings = settings_of(run, connection.info)
        url = str(URL(self.target).with_user(None)) if is_url(self.target) else self.target
        done = begin(folder, run, settings, url, retry_failed=self.retry_failed)
        if done:
            errors.print(f"{done} of {len(run.plan)} episodes are done already", markup=False)

    async def _play(self, run: Run) -> State:
        with Terminal(len(run.plan), run.results(), quiet=self.quiet) as terminal:
            run.on_result = terminal.add
            playing = asyncio.ensure_future(run.play())
            _on_signals(playing, lambda: self._stopping(run, terminal))
            try:
                await playing
            except asyncio.CancelledError:
                return State.STOPPED
        return State.FINISHED

    def _stopping(self, run: Run, terminal: Terminal) -> None:
        """Said at once: a second signal leaves no time for it."""
        terminal.say("stopping: sessions are closed; once more ends at once")
        if self.folder is not None:
            with suppress(StorageFull):  # the end tries again, and tells
                mark(self.folder, run, State.STOPPED, INTERRUPTED)


@contextmanager
def _said_in(folder: Folder, run: Run) -> Iterator[None]:
    """A run that ends before its end says so in its manifest, where that can still be written."""
    try:
        yield
    except BaseException as error:
        state = State.STOPPED if isinstance(error, Stopped) else State.FAILED
        with suppress(StorageFull):
            mark(folder, run, state, str(error) or type(error).__name__)
        raise


def _on_signals(playing: asyncio.Future[None], stopping: Callable[[], None]) -> None:
    """The first signal stops playing, so that what is there is written; the second ends the process at once."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, os._exit, INTERRUPTED_EXIT)
        playing.cancel()
        stopping()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, first)
