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


class _Gate(asyncio.Future[None]):
    """Opens when `inner` is done, or earlier when the time is up. Cancelling it cancels `inner`, as if the task
    waited for that itself; so a task that awaits one which swallows its cancellation can still be woken."""

    def __init__(self, inner: asyncio.Future[Any]) -> None:
        super().__init__(loop=inner.get_loop())
        self.inner = inner
        inner._asyncio_future_blocking = False
        inner.add_done_callback(self.open)

    def cancel(self, msg: Any | None = None) -> bool:
        return self.inner.cancel(msg)

    def open(self, _: object = None) -> None:
        if not self.done():
            self.set_result(None)


class _Rest(Awaitable[Any]):
    """The rest of a coroutine that suspended, driven by the same task until its time is up.

    At the limit the coroutine is handed to a task of its own to be cancelled there, and the caller goes on
    at once: a tool that swallows its cancellation cannot hold a session's lock.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waiting: Any, timeout_s: float) -> None:
        self.coroutine, self.waiting, self.timeout_s = coroutine, waiting, timeout_s
        self.gate: _Gate | None = None
        self.expired = self.spared = False

    def __await__(self) -> Generator[Any, Any, Any]:
        task = asyncio.current_task()
        assert task is not None
        timer = task.get_loop().call_later(self.timeout_s, self._expire, task.get_loop())
        cancelled_before = task.cancelling()
        try:
            return (yield from self._drive(task, cancelled_before))
        except asyncio.CancelledError:
            cancelled_before = task.cancelling()
            raise
        finally:
            timer.cancel()
            self.gate = None
            while task.cancelling() > cancelled_before:  # a TaskGroup that failed inside, before Python 3.13
                task.uncancel()

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self.spared and self.gate is not None and self.gate.inner.done():
            self.spared = True  # the answer came in time, and the loop was busy with somebody else: one more turn
            loop.call_soon(self._expire, loop)
            return
        self.expired = True
        if self.gate is not None:
            self.gate.open()

    def _drive(self, task: asyncio.Task[Any], cancelled_before: int) -> Generator[Any, Any, Any]:
        waiting = self.waiting
        while True:
            failed: BaseException | None = None
            try:
                yield from self._until_done(waiting)
            except BaseException as error:
                failed = error
            if self.expired:
                _abandon(self.coroutine, waiting)
                if task.cancelling() > cancelled_before:
                    raise asyncio.CancelledError
                raise ToolTimeout(f"no answer within {self.timeout_s:g} s")
            try:
                waiting = self.coroutine.send(None) if failed is None else self.coroutine.throw(failed)
            except StopIteration as stop:
                return stop.value

    def _until_done(self, waiting: Any) -> Generator[Any, Any, None]:
        """Wait for what the coroutine waits for: a future, or (None) the loop's next turn."""
        if waiting is None:
            yield
            return
        self.gate = _Gate(waiting)
        yield from self.gate


def ends_task(error: BaseException) -> bool:
    """Whether an exception that came out of an environment's code is not the environment's: somebody cancels
    this task, or ends the process. All else is, a `SystemExit` or a `CancelledError` of its own included."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


_abandoned: set[asyncio.Task[None]] = set()


def _abandon(coroutine: Coroutine[Any, Any, Any], waiting: asyncio.Future[Any] | None) -> None:
    task = asyncio.get_running_loop().create_task(_cancelled(coroutine, waiting))
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


async def _cancelled(coroutine: Coroutine[Any, Any, Any], waiting: asyncio.Future[Any] | None) -> None:
    """Let a given-up coroutine run its cleanup; nobody waits for it, nobody reads its result."""
    if waiting is not None:
        waiting.cancel()
    try:
        waiting = coroutine.throw(asyncio.CancelledError())
        await _Rest(coroutine, waiting, timeout_s=60.0)
    except BaseException as error:  # whatever ends a call that already counts as timed out, a SystemExit too
        if ends_task(error):
            raise


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
        if job.finished:
            return  # in time; the loop was too busy to hear of it
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
        while self._work_once():
            pass

    def _work_once(self) -> bool:
        """Take one job; a function of its own, so that an idle thread keeps nothing of the last one alive."""
        job = self._jobs.get()
        with self._lock:
            if job is None:
                self._threads -= 1
                return False
            job.started = time.monotonic()
            if job.given_up:
                self._outstanding -= 1
                return True
        outcome = job.run()
        with self._lock:
            job.finished = True
            if job.given_up:
                return False
            self._outstanding -= 1
        job.deliver(*outcome)
        return True


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
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:  # they mean something else to a task
            return None, RuntimeError(f"{type(error).__name__}: {error}")
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
