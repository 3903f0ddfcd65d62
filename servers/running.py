"""Running an environment's code under a time limit: coroutines in place, plain functions in threads.

Neither kind can make its caller wait past the limit. What is given up goes on by itself where Python cannot
stop it (a thread, a coroutine that swallows its cancellation); its result is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from queue import SimpleQueue
from typing import Any

from .failures import ToolTimeout


async def call(threads: Threads, function: Callable[[], Any], *, is_async: bool, timeout_s: float) -> Any:
    """Call a function of either kind. Raises `ToolTimeout`, or whatever the function raised."""
    if is_async:
        return await within(function(), timeout_s)
    value = await threads.run(function, timeout_s)
    return await within(value, timeout_s) if inspect.iscoroutine(value) else value


async def within(coroutine: Coroutine[Any, Any, Any], timeout_s: float) -> Any:
    """Await a coroutine; a timer is armed only if it suspends (most tools never do)."""
    try:
        waiting = coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    return await _Rest(coroutine, waiting, timeout_s)


class _Rest(Awaitable[Any]):
    """The rest of a coroutine that suspended, driven by the same task until its time is up.

    At the limit the coroutine is handed to a task of its own to be cancelled there, and the caller goes on
    at once: a tool that swallows its cancellation cannot hold a session's lock.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waiting: Any, timeout_s: float) -> None:
        self.coroutine, self.waiting, self.timeout_s = coroutine, waiting, timeout_s
        self.expired = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        timer = task.get_loop().call_later(self.timeout_s, self._expire, task)
        try:
            return (yield from self._drive(task))
        finally:
            timer.cancel()

    def _expire(self, task: asyncio.Task[Any]) -> None:
        self.expired = True
        task.cancel()

    def _drive(self, task: asyncio.Task[Any]) -> Generator[Any, Any, Any]:
        waiting = self.waiting
        while True:
            try:
                sent = yield waiting
            except asyncio.CancelledError as error:
                if self.expired:
                    _abandon(self.coroutine)
                    if task.uncancel() == 0:
                        raise ToolTimeout(f"no answer within {self.timeout_s:g} s") from None
                    raise
                step = lambda error=error: self.coroutine.throw(error)  # noqa: E731
            except BaseException as error:
                step = lambda error=error: self.coroutine.throw(error)  # noqa: E731
            else:
                step = lambda sent=sent: self.coroutine.send(sent)  # noqa: E731
            try:
                waiting = step()
            except StopIteration as stop:
                return stop.value


_abandoned: set[asyncio.Task[None]] = set()


def _abandon(coroutine: Coroutine[Any, Any, Any]) -> None:
    task = asyncio.get_running_loop().create_task(_cancelled(coroutine))
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


async def _cancelled(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Let a given-up coroutine run its cleanup; nobody waits for it, nobody reads its result."""
    try:
        waiting = coroutine.throw(asyncio.CancelledError())
        await _Rest(coroutine, waiting, timeout_s=60.0)
    except (StopIteration, asyncio.CancelledError, ToolTimeout):
        return
    except Exception:
        return  # an error in the cleanup of a call that already counts as timed out


class Threads:
    """A bounded pool of daemon threads. A thread whose job was given up is replaced, so that hung tools of
    one session never starve the others; being daemons, hung ones do not hold up the process's exit."""

    def __init__(self, size: int = 32) -> None:
        self._size = size
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0  # alive, without those whose job was given up
        self._outstanding = 0  # jobs queued or running, without those given up

    async def run(self, function: Callable[[], Any], timeout_s: float) -> Any:
        loop = asyncio.get_running_loop()
        job = _Job(function, loop, timeout_s)
        self._submit(job)
        timer = loop.call_later(timeout_s, self._check, job)
        job.timer = timer
        try:
            return await job.future
        finally:
            job.timer.cancel()
            self._give_up(job)  # does nothing where the job has finished

    def close(self) -> None:
        """Let idle threads end."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _submit(self, job: _Job) -> None:
        with self._lock:
            self._outstanding += 1
            self._start_if_short()
        self._jobs.put(job)

    def _start_if_short(self) -> None:
        if self._threads < min(self._size, self._outstanding):
            self._threads += 1
            threading.Thread(target=self._work, name="gymwire-tool", daemon=True).start()

    def _check(self, job: _Job) -> None:
        """The limit counts from the job's start, not from its wait for a thread."""
        left = job.timeout_s if job.started is None else job.started + job.timeout_s - time.monotonic()
        if left > 0:
            job.timer = job.loop.call_later(left, self._check, job)
        elif not job.future.done():
            job.future.set_exception(ToolTimeout(f"no answer within {job.timeout_s:g} s"))
            self._give_up(job)

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job.finished or job.given_up:
                return
            job.given_up = True
            if job.started is not None:  # its thread is stuck: it no longer counts, and leaves when it returns
                self._outstanding -= 1
                self._threads -= 1
                self._start_if_short()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                skip = job.given_up
                job.started = time.monotonic()
                self._outstanding -= skip
            if skip:
                continue
            outcome = job.run()
            with self._lock:
                job.finished = True
                if job.given_up:
                    return
                self._outstanding -= 1
            job.deliver(*outcome)
        with self._lock:
            self._threads -= 1


class _Job:
    __slots__ = ("_call", "finished", "future", "given_up", "loop", "started", "timeout_s", "timer")

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._call = partial(contextvars.copy_context().run, function)
        self.loop, self.timeout_s = loop, timeout_s
        self.future: asyncio.Future[Any] = loop.create_future()
        self.timer: asyncio.TimerHandle
        self.started: float | None = None
        self.finished = self.given_up = False

    def run(self) -> tuple[Any, BaseException | None]:
        try:
            return self._call(), None
        except StopIteration as error:  # a future may not carry it
            return None, RuntimeError(f"StopIteration: {error}")
        except BaseException as error:
            return None, error

    def deliver(self, value: Any, error: BaseException | None) -> None:
        try:
            self.loop.call_soon_threadsafe(self._settle, value, error)
        except RuntimeError:
            return  # the loop has closed: nobody waits any more

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        else:
            self.future.set_exception(error)
