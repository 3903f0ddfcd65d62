"""The slots sessions occupy, and the fair queue in front of them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple


class StoreSlots(NamedTuple):
    """The slots of a store, which all of its replicas share, by the store's own name: how many, and how many free."""

    store: str
    size: int
    free: int


class QueueTimeout(Exception):
    """No slot came free in time."""


class Slots:
    """Counts slots; whoever waits is served in order of arrival and leaves the queue when cancelled."""

    def __init__(self, size: int, queue_timeout_s: float) -> None:
        self.size, self.queue_timeout_s = size, queue_timeout_s
        self.free = size
        self._waiters: deque[asyncio.Future[None]] = deque()

    @property
    def queued(self) -> int:
        return len(self._waiters)

    def try_take(self) -> bool:
        if self.free <= 0:
            return False
        self.free -= 1
        return True

    async def take(self) -> None:
        """Wait for a slot. Raises `QueueTimeout` after `queue_timeout_s`."""
        if self.try_take():
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        timer = loop.call_later(self.queue_timeout_s, _time_out, waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give()  # a slot was handed over in the very moment the client left
            else:
                self._leave(waiter)
            raise
        finally:
            timer.cancel()

    def give(self) -> None:
        """Free a slot: the first who still waits has it."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1

    def refuse_all(self) -> None:
        """Turn every waiter away (the server drains)."""
        while self._waiters:
            _time_out(self._waiters.popleft())

    def _leave(self, waiter: asyncio.Future[None]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)


def _time_out(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_exception(QueueTimeout())


class PerOwner:
    """Slots of each owner of a token, in front of those of all: one tenant cannot take every session.

    Without a limit, or an owner, there is nothing to wait for. Owners without a session take no memory.
    """

    def __init__(self, size: int, queue_timeout_s: float) -> None:
        self.size, self.queue_timeout_s = size, queue_timeout_s
        self._slots: dict[str, Slots] = {}

    async def take(self, owner: str) -> None:
        """Wait for a slot of the owner's own. Raises `QueueTimeout`."""
        if self.size > 0 and owner:
            slots = self._slots.get(owner)
            if slots is None:
                slots = self._slots[owner] = Slots(self.size, self.queue_timeout_s)
            await slots.take()

    @property
    def queued(self) -> int:
        return sum(slots.queued for slots in self._slots.values())

    def give(self, owner: str) -> None:
        slots = self._slots.get(owner)
        if slots is not None:
            slots.give()
            if slots.free == slots.size:
                del self._slots[owner]

    def refuse_all(self) -> None:
        for slots in self._slots.values():
            slots.refuse_all()
