"""Conversations with a program's jobs: what is shipped into a job, how lines and bytes are read back, who is late.

Every limit of a test is kept here, outside the program's reach: the time between a question and the end of its answer,
and the length of the answer. A job that ends before its first word, `ready`, never touched the program: that is ours.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from ..sandbox.jobs import PYTHON, Job, Limits, Result, Sandbox, SandboxUnavailable, Talk, Verdict

INSIDE = Path(__file__).parent / "inside"
#: Of a whole job beside its tests: starting, compiling.
START_S = 10.0
#: An answer that took its time may still have to reach us.
GRACE_S = 0.5
MAX_HEADER_BYTES = 256
#: Of all that a job says in its conversation; no backend's ceiling is below it.
JOB_OUTPUT_BYTES = 4_194_304


class Status(StrEnum):
    """What became of one test. Only `passed` counts."""

    PASSED = "passed"
    WRONG = "wrong answer"
    ERROR = "runtime error"
    TIMEOUT = "timeout"
    MEMORY = "out of memory"
    OUTPUT = "too much output"


class PolicyFault(Exception):
    """What the program did instead of passing. `spent`: its job can take no other test."""

    def __init__(self, status: Status, detail: str = "", *, spent: bool = True) -> None:
        super().__init__(f"{status}: {detail}" if detail else str(status))
        self.status = status
        self.detail = detail
        self.spent = spent


@dataclass(frozen=True, slots=True)
class Settings:
    """What a program may use.

    timeout_s: wall time (and CPU time) of one test. total_s: of all tests of a program together, not counting the
    waits for a free place. memory_mb: of a job. output_bytes: of one test's answer.
    """

    timeout_s: float = 6.0
    total_s: float = 30.0
    memory_mb: int = 256
    output_bytes: int = 65_536


class Conversation:
    """Lines and bytes of one job's stdout, and its stdin."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._buffer = bytearray()

    async def send(self, data: bytes) -> None:
        await self._talk.send(data)

    async def ask(self, request: Any, *, timeout_s: float, most: int) -> Any:
        """Send a JSON line, and answer the JSON line that comes back. Raises `PolicyFault`."""
        await self.send(json.dumps(request, separators=(",", ":")).encode() + b"\n")
        line = await self.within(self.line(most), timeout_s)
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise PolicyFault(Status.ERROR, "the program broke its conversation") from error

    async def within(self, answer: Any, timeout_s: float) -> Any:
        """Raises `PolicyFault` where the answer does not come in time, or the job ends instead."""
        try:
            async with asyncio.timeout(timeout_s + GRACE_S):
                return await answer
        except TimeoutError:
            raise PolicyFault(Status.TIMEOUT, f"no answer within {timeout_s:g} s") from None

    async def line(self, most: int) -> bytes:
        """Up to the next line feed, which is left out."""
        start = 0
        while (end := self._buffer.find(b"\n", start)) < 0:
            start = len(self._buffer)
            if start > most:
                raise PolicyFault(Status.OUTPUT, f"an answer of more than {most} bytes")
            await self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    async def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def _more(self) -> None:
        piece = await self._talk.receive()
        if not piece:
            raise fault_of(await self._talk.finish())
        self._buffer += piece


def fault_of(result: Result) -> PolicyFault:
    """Why a program's job ended before all was answered."""
    detail = result.stderr.decode("utf-8", "replace").strip()[-300:]
    status = {
        Verdict.TIMEOUT: Status.TIMEOUT,
        Verdict.OUT_OF_MEMORY: Status.MEMORY,
        Verdict.OUTPUT_LIMIT: Status.OUTPUT,
    }.get(result.verdict, Status.ERROR)
    return PolicyFault(status, detail or f"the program ended: {result.verdict}, exit status {result.exit_code}")


@asynccontextmanager
async def conversation(
    sandbox: Sandbox, module: str, files: Mapping[str, str], settings: Settings
) -> AsyncIterator[Conversation]:
    """A job that runs `inside.<module>` with these files beside it. Raises `SandboxUnavailable`."""
    seconds = settings.total_s + settings.timeout_s + START_S
    limits = Limits(
        wall_s=seconds,
        cpu_s=seconds,
        memory_mb=settings.memory_mb,
        output_bytes=JOB_OUTPUT_BYTES,
    )
    content = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    async with sandbox.talk(Job([PYTHON, "main.py"], _shipped(module) | content, limits=limits)) as talk:
        opened = Conversation(talk)
        try:
            first = await opened.within(opened.line(MAX_HEADER_BYTES), START_S)
        except PolicyFault as fault:
            raise SandboxUnavailable(f"a job did not start: {fault}") from fault
        if first != b"ready":
            raise SandboxUnavailable(f"a job began with {first!r:.60}")
        yield opened


@cache
def _shipped(module: str) -> dict[str, bytes]:
    main = f"from inside.{module} import run\n\nrun()\n".encode()
    files = {f"inside/{name}.py": (INSIDE / f"{name}.py").read_bytes() for name in ("plain", module)}
    return {"main.py": main, "inside/__init__.py": b"", **files}
