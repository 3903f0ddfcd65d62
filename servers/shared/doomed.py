"""Sessions that failed while the store could not be told: each is written off as soon as it is back.

Until then this replica knows it alone, and another one would go on with the session. So nobody waits for a beat, and
a store that has just come back is for failures first.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from ..answers import Refused
from ..types import Failure
from .line import PAUSE_S, Line, StoreAway

if TYPE_CHECKING:
    from .session import SharedSession

logger = logging.getLogger("gymwire.shared")
#: Seconds until the next try where a session cannot be written off: its record is another version's.
AGAIN_S = 2.0
#: Seconds after an outage that belong to those who have failures to write: reaching the store again takes a moment.
FIRST_S = 1.0
#: Seconds that a replica which goes still tries.
LAST_S = 1.0


class Doomed:
    """Failures by session, each of which brings its own into the store, and says `settled` then."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._failures: dict[SharedSession, Failure] = {}
        self._writer: asyncio.Task[None] | None = None

    def __contains__(self, session: SharedSession) -> bool:
        return session in self._failures

    def get(self, session: SharedSession) -> Failure | None:
        return self._failures.get(session)

    def others_first_s(self, session: SharedSession) -> float:
        """Seconds for which another replica may have to write first that this session has failed."""
        return 0.0 if session in self._failures else FIRST_S - asyncio.get_running_loop().time() + self._line.back_at

    def add(self, session: SharedSession, failure: Failure) -> None:
        self._failures.setdefault(session, failure)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    def settled(self, session: SharedSession) -> None:
        self._failures.pop(session, None)

    async def _write(self) -> None:
        while self._failures:
            try:
                await self._line.ask(("PING",), self._line.patience_s)
            except StoreAway:
                await asyncio.sleep(PAUSE_S)
                continue
            tried = await asyncio.gather(*map(_write_off, list(self._failures)), return_exceptions=True)
            for error in tried:  # the boundary of a task nobody awaits
                if isinstance(error, Exception):
                    logger.error("a failure could not be written", exc_info=error)
            if self._failures:
                await asyncio.sleep(AGAIN_S)

    async def close(self) -> None:
        """A last try."""
        if self._writer is not None and not self._writer.done():
            await asyncio.wait({self._writer}, timeout=LAST_S)
            self._writer.cancel()


async def _write_off(session: SharedSession) -> None:
    with suppress(Refused):
        await session.refresh()
