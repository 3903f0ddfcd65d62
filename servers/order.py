"""The order of one session's calls: one at a time, as they arrive; those that share run beside each other."""

from __future__ import annotations

import asyncio
from collections import deque

#: In place of how many share: one that shares with nobody.
ALONE = -1


class Order:
    """Lets in who arrives. Who shares waits for those before who do not; who does not waits for all before.

    Nobody overtakes, so that whoever shares also starts in the order of arrival.
    """

    __slots__ = ("_inside", "_waiting", "_waking")

    def __init__(self) -> None:
        self._inside = 0  # while it is 0, nobody waits
        self._waking = 0  # of those inside, the ones that waited and have not gone on yet
        self._waiting: deque[tuple[asyncio.Future[None], bool]] | None = None  # most sessions never need it

    def try_enter(self, shared: bool = False) -> bool:
        """Enter if that needs no waiting; `leave` afterwards."""
        if not self._inside:
            self._inside = 1 if shared else ALONE
            return True
        if not shared or self._inside == ALONE or self._waiting or self._waking:
            return False
        self._inside += 1
        return True

    async def enter(self, shared: bool = False) -> None:
        """Wait until it is one's turn; `leave` afterwards. Whoever is cancelled leaves the line."""
        if self.try_enter(shared):
            return
        if self._waiting is None:
            self._waiting = deque()
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place := (admitted, shared))
        try:
            await admitted
        except BaseException:
            if admitted.done() and not admitted.cancelled():  # let in, in the very moment it gave up
                self._waking -= 1
                self.leave()
            else:
                if place in self._waiting:
                    self._waiting.remove(place)
                self._admit()  # those behind may share with those inside
            raise
        self._waking -= 1
        self._admit()  # who came while others woke

    def leave(self) -> None:
        self._inside = 0 if self._inside == ALONE else self._inside - 1
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        """Let in from the front of the line, as far as those inside allow."""
        waiting = self._waiting
        while waiting:
            admitted, shared = waiting[0]
            if not admitted.done():
                if self._inside and (not shared or self._inside == ALONE):
                    return
                self._inside = self._inside + 1 if shared else ALONE
                self._waking += 1
                admitted.set_result(None)
            waiting.popleft()
