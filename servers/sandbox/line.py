"""One worker as the pool talks with it: jobs in, results out, and a deadline of the host's own."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from . import frames, worker
from .jobs import Job, Result, SandboxUnavailable
from .slots import Slot

START_TIMEOUT_S = 20.0
#: A worker ends its jobs by itself at their wall limit; past that and this many seconds it is killed.
GRACE_S = 0.5


class WorkerLost(Exception):
    """The worker of a job is gone, or does not answer."""


class Line:
    """A worker that is ready. One job at a time; after `WorkerLost` it is good for nothing but `kill`."""

    def __init__(self, slot: Slot) -> None:
        self.slot, self.jobs, self.born = slot, 0, time.monotonic()
        self.spent = self.replacing = self.retiring = self.killed = False
        self._header: tuple[int, int] | None = None  # of a frame whose body is still to be read

    @classmethod
    async def open(cls, slot: Slot) -> Line:
        """Wait until the worker is ready. Raises `SandboxUnavailable`, and kills the slot then."""
        line = cls(slot)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await line.read()
        except (WorkerLost, TimeoutError) as error:
            said = await slot.autopsy()
            await line.kill()
            reason = said or str(error) or f"no word within {START_TIMEOUT_S:g} s"
            raise SandboxUnavailable(f"a worker did not start: {reason}") from None
        except asyncio.CancelledError:
            await line.kill()
            raise
        return line

    @property
    def gone(self) -> bool:
        """Whether the worker is known to have ended."""
        return self.killed or self.slot.reader.at_eof() or self.slot.writer.is_closing()

    async def run(self, job: Job) -> Result:
        """Raises `WorkerLost`. Where it is cancelled, `abandon` must follow."""
        self.begin(job, talk=False)
        try:
            async with asyncio.timeout(job.limits.wall_s + GRACE_S):
                await self.drain()
                return await self._result()
        except TimeoutError:
            await self.kill()
            raise WorkerLost("it did not answer within the job's limit") from None

    def begin(self, job: Job, *, talk: bool) -> None:
        self.jobs += 1
        self.slot.writer.write(frames.job_frame(job, talk=talk))

    def send(self, kind: int, data: bytes = b"") -> None:
        self.slot.writer.write(frames.frame(kind, data))

    async def drain(self) -> None:
        """Wait until the worker has taken what was sent; one that has gone is found out by reading."""
        with suppress(ConnectionError):
            await self.slot.writer.drain()

    async def read(self) -> tuple[int, bytes]:
        """The next frame, whole also where an earlier read was cancelled. Raises `WorkerLost`."""
        reader = self.slot.reader
        try:
            if self._header is None:
                self._header = worker.HEADER.unpack(await reader.readexactly(worker.HEADER.size))
            kind, length = self._header
            body = await reader.readexactly(length) if length else b""
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerLost("it ended") from None
        self._header = None
        if kind == worker.BROKEN:
            raise WorkerLost(body.decode(errors="replace"))
        return kind, body

    async def _result(self) -> Result:
        files: dict[str, bytes] = {}
        while True:
            kind, body = await self.read()
            if kind == worker.FILE:
                name, content = frames.collected(body)
                files[name] = content
            elif kind == worker.RESULT:
                return self.finish(body, files)

    def finish(self, body: bytes, files: dict[str, bytes]) -> Result:
        result, self.spent = frames.result(body, files)
        return result

    async def abandon(self) -> bool:
        """End a job nobody waits for any more; whether the worker is ready again."""
        self.send(worker.KILL)
        try:
            async with asyncio.timeout(GRACE_S):
                await self._result()
        except (WorkerLost, TimeoutError):
            return False
        return True

    async def kill(self) -> None:
        """End the worker and all in it; does nothing the second time."""
        if self.killed:
            return
        self.killed = True
        self.slot.writer.close()
        await self.slot.kill()
