"""A pool of warm workers: every job goes to a slot that is free, in the order of arrival.

A slot that breaks is replaced beside the work and its job runs once more on another; if that breaks as well, or no
worker can be started, the caller gets `SandboxUnavailable`. A slot that has served for long is replaced by one that is
started before it leaves. Nothing here knows what a slot is made of: a `Launcher` does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from . import watching
from .frames import check
from .jobs import Job, Result, SandboxUnavailable, Talk
from .line import Line, WorkerLost
from .slots import Launcher
from .talking import LineTalk
from .watching import ABANDONED, LOST, RECYCLED

logger = logging.getLogger("gymwire.sandbox")
SWEEP_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0  # between two tries to start a worker


class Pool:
    """A `Sandbox` of `slots` workers. `open` before use, `close` after; both on the loop that uses it."""

    def __init__(
        self,
        launcher: Launcher,
        slots: int = 2,
        *,
        recycle_jobs: int = 5_000,
        recycle_age_s: float = 3_600.0,
        queue_timeout_s: float = 45.0,
    ) -> None:
        self.launcher, self.slots = launcher, slots
        self.recycle_jobs, self.recycle_age_s, self.queue_timeout_s = recycle_jobs, recycle_age_s, queue_timeout_s
        self.lines: set[Line] = set()  # workers that are idle or busy
        self.idle: deque[Line] = deque()
        self._waiters: deque[asyncio.Future[Line]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending: set[asyncio.Task[None]] = set()  # workers that are killed: not even `close` interrupts that
        self._wanted = asyncio.Event()  # somebody waits, and no worker is there
        self.closed = False
        watching.watcher.watch(self)

    @property
    def waiting(self) -> int:
        """Jobs that wait for a slot."""
        return len(self._waiters)

    async def open(self) -> None:
        """Start every worker. Raises `SandboxUnavailable` in one sentence, with nothing left running."""
        try:
            await self.launcher.open()
            for line in await _all(self._start() for _ in range(self.slots)):
                self.idle.append(line)
        except BaseException:
            await self.close()
            raise
        logger.info("sandbox: %d slots of %s", self.slots, self.launcher.name)
        self._spawn(self._sweep())

    async def close(self) -> None:
        """End every job and every worker. Whoever waits gets `SandboxUnavailable`."""
        self.closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._refuse("the sandbox has been closed", self._waiters)
        self.idle.clear()
        for line in list(self.lines):
            self._end(line)
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self.launcher.close()

    async def run(self, job: Job) -> Result:
        """Raises `SandboxUnavailable`, and `JobRefused` for a job that no slot can run."""
        check(job, self.launcher.ceiling)
        with watching.watcher.counting_unavailable():
            return await self._run(job)

    async def _run(self, job: Job) -> Result:
        lost = WorkerLost()
        for again in (False, True):
            line = await self._take(first=again)
            started = time.perf_counter()
            try:
                result = await line.run(job)
            except WorkerLost as error:
                lost = error
                self._lose(line, str(error))
                continue
            except BaseException:  # the caller leaves: the job ends, and its slot is free again
                self._spawn(self._abandon(line))
                watching.watcher.ended(ABANDONED, started)
                raise
            self._give(line)
            watching.watcher.ended(result.verdict, started)
            return result
        raise SandboxUnavailable(f"the sandbox lost its worker twice while the job ran: {lost}")

    @asynccontextmanager
    async def talk(self, job: Job) -> AsyncIterator[Talk]:
        """Raises `SandboxUnavailable`, and `JobRefused`; a conversation is not begun again where its slot breaks."""
        check(job, self.launcher.ceiling)
        with watching.watcher.counting_unavailable():
            line = await self._take()
            talk, started = LineTalk(line, job), time.perf_counter()
            try:
                yield talk
            finally:
                await talk.stop()
                self._talked(line, talk, started)

    def _talked(self, line: Line, talk: LineTalk, started: float) -> None:
        if talk.lost:
            self._lose(line, str(talk.lost))
            return
        watching.watcher.ended(talk.verdict or ABANDONED, started)
        if talk.ended:
            self._give(line)
        else:
            self._spawn(self._abandon(line))

    # ---- free slots, and who waits for one

    async def _take(self, *, first: bool = False) -> Line:
        started = time.perf_counter()
        line = await self._free(first)
        watching.watcher.waited(time.perf_counter() - started)
        return line

    async def _free(self, first: bool) -> Line:
        while self.idle and not self._waiters:
            line = self.idle.popleft()
            if not line.gone:
                return line
            self._lose(line, "it ended while it was idle")
        if self.closed:
            raise SandboxUnavailable("the sandbox has been closed")
        return await self._queue(first)

    async def _queue(self, first: bool) -> Line:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Line] = loop.create_future()
        (self._waiters.appendleft if first else self._waiters.append)(waiter)
        if not self.lines:
            self._wanted.set()
        late = SandboxUnavailable(f"no slot of the sandbox came free within {self.queue_timeout_s:g} s")
        timer = loop.call_later(self.queue_timeout_s, _fail, waiter, late)
        try:
            return await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._give(waiter.result())  # handed over in the very moment its caller left
            with suppress(ValueError):
                self._waiters.remove(waiter)
            raise
        finally:
            timer.cancel()

    def _give(self, line: Line) -> None:
        """A worker is ready: for the first who still waits, else for the next who comes."""
        if self.closed or line not in self.lines:
            return
        if line.gone or line.spent:
            self._lose(line, "it could not clean up after a job" if line.spent else "it ended")
            return
        if line.retiring:
            self._end(line)
            return
        if not line.replacing and self._old(line):
            line.replacing = True
            self._spawn(self._renew(line))
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(line)
                return
        self.idle.append(line)

    def _refuse(self, reason: str, whom: Iterable[asyncio.Future[Line]]) -> None:
        for waiter in whom:
            _fail(waiter, SandboxUnavailable(reason))

    # ---- workers come and go

    async def _start(self) -> Line:
        line = await Line.open(await self.launcher.start())
        self.lines.add(line)
        return line

    def _old(self, line: Line) -> bool:
        return line.jobs >= self.recycle_jobs or time.monotonic() - line.born >= self.recycle_age_s

    def _lose(self, line: Line, reason: str) -> None:
        """Put another worker in the place of a broken one."""
        if line not in self.lines:
            return
        logger.warning("%s is replaced after %d jobs: %s", line.slot.name, line.jobs, reason)
        watching.watcher.replaced_slot(LOST)
        self._end(line)
        if not line.replacing:
            self._spawn(self._revive())

    def _end(self, line: Line) -> None:
        self.lines.discard(line)
        task = asyncio.get_running_loop().create_task(line.kill())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        task.add_done_callback(self._done)

    async def _revive(self) -> None:
        """Start a worker, however long that takes; whoever waited for a try that failed is refused, if there is none
        at all. Who came during it waits for the next: the engine may be back by then."""
        pause_s = FIRST_PAUSE_S
        while True:
            self._wanted.clear()
            waited = tuple(self._waiters)
            try:
                self._give(await self._start())
                return
            except SandboxUnavailable as error:
                logger.error("no worker can be started: %s", error)
                if not self.lines:
                    self._refuse(str(error), waited)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _renew(self, line: Line) -> None:
        """The replacement is ready before the old worker leaves."""
        await self._revive()
        line.retiring = True
        watching.watcher.replaced_slot(RECYCLED)
        if line in self.idle:
            self.idle.remove(line)
            self._give(line)

    async def _abandon(self, line: Line) -> None:
        if await line.abandon():
            self._give(line)
        else:
            self._lose(line, "it did not end a job whose caller had left")

    async def _sweep(self) -> None:
        """Find idle workers that have died or grown old before a job does."""
        while True:
            await asyncio.sleep(SWEEP_S)
            for line in [line for line in self.idle if line.gone or self._old(line)]:
                self.idle.remove(line)
                self._give(line)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the sandbox's pool made a mistake", exc_info=error)


def _fail(waiter: asyncio.Future[Line], error: SandboxUnavailable) -> None:
    if not waiter.done():
        waiter.set_exception(error)


async def _all(starts: Any) -> list[Line]:
    """Every start to its end, so that a failing one leaves nothing half started behind."""
    done = await asyncio.gather(*starts, return_exceptions=True)
    for item in done:
        if isinstance(item, BaseException):
            raise item
    return [item for item in done if isinstance(item, Line)]
