"""A process that answers one JSON object a line with one JSON object a line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from ...servers.failures import SessionFailure
from ...servers.types import FailureKind, Json

MAX_LINE_BYTES = 16 << 20
STOP_S = 2.0


class Silent(Exception):
    """No answer in time; the process has been killed."""


class LineProcess:
    """One process, in a group of its own. Its stderr is this process's."""

    def __init__(self, process: asyncio.subprocess.Process, name: str) -> None:
        self._process, self._name = process, name

    @classmethod
    async def start(cls, command: Sequence[str]) -> Self:
        """Raises `SessionFailure` where there is no such program."""
        pipe = asyncio.subprocess.PIPE
        try:
            made = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, start_new_session=True, limit=MAX_LINE_BYTES
            )
        except OSError as error:
            reason = f"{command[0]} cannot be started: {error.strerror or error}"
            raise SessionFailure(reason, FailureKind.PROVIDER_UNAVAILABLE) from None
        return cls(made, command[0])

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, message: Json, timeout_s: float) -> Json:
        """One question, one answer. Raises `Silent`, or `SessionFailure` where the process ends or babbles."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        if await _has_more(stdout):  # it would be taken for the answer to this question, a reward included
            await self.kill()
            raise self._babbled()
        if stdin.is_closing():  # its end was seen between two questions
            raise await self._ended()
        try:
            async with asyncio.timeout(timeout_s):
                stdin.write(json.dumps(message).encode() + b"\n")
                await stdin.drain()
                line = await stdout.readline()
        except TimeoutError:
            await self.kill()
            raise Silent(f"{self._name} gave no answer within {timeout_s:g} s") from None
        except (OSError, ValueError) as error:  # ValueError: the line is too long
            await self.kill()
            raise self._gone(str(error) or type(error).__name__) from None
        except asyncio.CancelledError:  # what it answers now would be taken for the next answer
            await self.kill()
            raise
        if not line:
            raise await self._ended()
        return await self._read(line)

    async def finish(self) -> None:
        """Close it after its last answer. Raises `SessionFailure` where more comes: a line that came late for one
        question was taken for the answer to the next, so that the last one's is still on its way."""
        stdout = self._process.stdout
        assert stdout is not None
        await self.close()
        with suppress(TimeoutError):  # who has left its group may hold its output for longer
            async with asyncio.timeout(STOP_S):
                if await stdout.read(1):
                    raise self._babbled()

    async def _read(self, line: bytes) -> Json:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if isinstance(answer, dict):
            return answer
        await self.kill()
        shown = line[:80].decode("utf-8", "replace").strip()
        raise SessionFailure(f"{self._name} answered no JSON object: {shown!r}", FailureKind.PROVIDER_UNAVAILABLE)

    async def _ended(self) -> SessionFailure:
        await self.close()  # it may live on without its output
        return self._gone(f"it ended with status {self._process.returncode}")

    def _babbled(self) -> SessionFailure:
        reason = f"{self._name} wrote more than one line for one question"
        return SessionFailure(reason, FailureKind.PROVIDER_UNAVAILABLE)

    def _gone(self, why: str) -> SessionFailure:
        return SessionFailure(f"{self._name} is gone: {why}", FailureKind.PROVIDER_UNAVAILABLE)

    async def close(self) -> None:
        """Close its stdin, and end it where it does not end by itself."""
        stdin = self._process.stdin
        if stdin is not None:
            stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


async def _has_more(stream: asyncio.StreamReader) -> bool:
    """Whether something is there that nobody asked for; nothing is waited for, and its end is no more."""
    reading = asyncio.ensure_future(stream.read(1))
    await asyncio.sleep(0)
    reading.cancel()  # nothing was taken yet, where it still waits
    await asyncio.wait({reading})
    return not reading.cancelled() and bool(reading.result())
