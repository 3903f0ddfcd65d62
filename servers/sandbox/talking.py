"""A conversation with a job that runs on a worker."""

from __future__ import annotations

import asyncio
from collections import deque

from . import frames, worker
from .jobs import Job, Result, SandboxUnavailable, Verdict
from .line import GRACE_S, Line, WorkerLost


class LineTalk:
    """A `Talk`. What the job says is taken from the worker at once, so that a slow caller holds up no limit of it."""

    def __init__(self, line: Line, job: Job) -> None:
        self.lost: WorkerLost | None = None
        self._line = line
        self._result: Result | None = None
        self._said: deque[bytes] = deque()
        self._files: dict[str, bytes] = {}
        self._news = asyncio.Event()
        line.begin(job, talk=True)
        self._task = asyncio.get_running_loop().create_task(self._listen(job.limits.wall_s + GRACE_S))

    @property
    def ended(self) -> bool:
        return self._result is not None

    @property
    def verdict(self) -> Verdict | None:
        """None where the job has not ended."""
        return None if self._result is None else self._result.verdict

    async def send(self, data: bytes) -> None:
        if not self.ended and not self.lost:
            self._write(data)
            await self._line.drain()

    def _write(self, data: bytes) -> None:
        for start in range(0, len(data), frames.STDIN_PIECE):
            self._line.send(worker.STDIN, data[start : start + frames.STDIN_PIECE])

    async def receive(self) -> bytes:
        while not self._said:
            if self._over():
                return b""
            self._news.clear()
            await self._news.wait()
        return self._said.popleft()

    async def finish(self) -> Result:
        if not self._over():
            self._line.send(worker.END)
        while not self._over():
            self._news.clear()
            await self._news.wait()
        assert self._result is not None
        return self._result

    async def stop(self) -> None:
        """Leave the worker's stream to somebody else."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def _over(self) -> bool:
        if self.lost:
            raise SandboxUnavailable(f"the sandbox lost its worker during a conversation: {self.lost}")
        return self.ended

    async def _listen(self, limit_s: float) -> None:
        try:
            async with asyncio.timeout(limit_s):
                while not self.ended:
                    self._hear(*await self._line.read())
                    self._news.set()
        except WorkerLost as lost:
            self.lost = lost
        except TimeoutError:
            self.lost = WorkerLost("it did not answer within the job's limit")
            await self._line.kill()
        self._news.set()

    def _hear(self, kind: int, body: bytes) -> None:
        if kind == worker.OUT:
            self._said.append(body)
        elif kind == worker.FILE:
            name, content = frames.collected(body)
            self._files[name] = content
        elif kind == worker.RESULT:
            self._result = self._line.finish(body, self._files)
