"""Jobs that take one test after another: programs that read and print, and programs whose function is called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, Protocol

from ..sandbox.jobs import Sandbox
from .code_cases import CallTest, InputTest
from .code_compare import same_output, same_value
from .code_talk import MAX_HEADER_BYTES, Conversation, PolicyFault, Settings, Status, conversation
from .inside.plain import encode

#: Exits by the signals of a limit, as negative exit statuses: SIGXCPU, SIGXFSZ.
LIMIT_SIGNALS = {-24: Status.TIMEOUT, -25: Status.OUTPUT}
#: What sites that call a function have imported already; answers written for them leave it out.
PRELUDE = """\
import bisect, collections, copy, functools, heapq, itertools, math, operator, random, re, string, sys, typing
from bisect import *
from collections import *
from copy import *
from functools import *
from heapq import *
from itertools import *
from math import *
from typing import *
del pow
"""


class TestJob(Protocol):
    """A job of one program."""

    async def take(self, test: Any) -> None:
        """Return when the program passes the test; else raise `PolicyFault`."""
        ...


@asynccontextmanager
async def printing(sandbox: Sandbox, program: str, settings: Settings, tolerance: float) -> AsyncIterator[TestJob]:
    """A job for `InputTest`s."""
    async with conversation(sandbox, "stdio", {"solution.py": program}, settings) as talk:
        yield _Printing(talk, settings, tolerance)


class _Printing:
    def __init__(self, talk: Conversation, settings: Settings, tolerance: float) -> None:
        self._talk, self._settings, self._tolerance = talk, settings, tolerance

    async def take(self, test: InputTest) -> None:
        status, output, complaint = await self._talk.within(self._exchange(test), self._settings.timeout_s)
        if status != 0:
            raise PolicyFault(LIMIT_SIGNALS.get(status, Status.ERROR), complaint or f"exit {status}", spent=False)
        if not same_output(output, test.expected, self._tolerance):
            raise PolicyFault(Status.WRONG, _short(output), spent=False)

    async def _exchange(self, test: InputTest) -> tuple[int, bytes, str]:
        limits = self._settings
        header = f"{len(test.stdin)} {ceil(limits.timeout_s)} {limits.output_bytes}\n"
        await self._talk.send(header.encode() + test.stdin)
        status, length, rest = self._sizes(await self._talk.line(MAX_HEADER_BYTES))
        output = await self._talk.exactly(length)
        return status, output, (await self._talk.exactly(rest)).decode("utf-8", "replace").strip()

    def _sizes(self, header: bytes) -> tuple[int, int, int]:
        most = self._settings.output_bytes
        try:
            status, length, rest = (int(word) for word in header.split())
        except ValueError:
            raise PolicyFault(Status.ERROR, "the program broke its conversation") from None
        if not 0 <= length <= most or not 0 <= rest <= most:
            raise PolicyFault(Status.OUTPUT, f"more than {most} bytes")
        return status, length, rest


@asynccontextmanager
async def calling(
    sandbox: Sandbox, program: str, function: str, settings: Settings, tolerance: float
) -> AsyncIterator[TestJob]:
    """A job for `CallTest`s."""
    files = {"solution.py": program, "prelude.py": PRELUDE}
    async with conversation(sandbox, "calls", files, settings) as talk:
        yield _Calling(talk, function, settings, tolerance)


class _Calling:
    def __init__(self, talk: Conversation, function: str, settings: Settings, tolerance: float) -> None:
        self._talk, self._settings, self._tolerance = talk, settings, tolerance
        self._function = function
        self._loaded = False

    async def take(self, test: CallTest) -> None:
        if not self._loaded:
            await loaded(self._talk, self._settings)
            self._loaded = True
        request = ["call", self._function, encode(list(test.arguments)), encode({})]
        limits = self._settings
        answer = await self._talk.ask(request, timeout_s=limits.timeout_s, most=limits.output_bytes)
        raw = value_in(answer)
        if not any(same_value(raw, expected, self._tolerance) for expected in test.expected):
            raise PolicyFault(Status.WRONG, _short(repr(raw).encode()), spent=False)


async def loaded(talk: Conversation, settings: Settings) -> None:
    """Wait until the program is loaded. Raises `PolicyFault` where it cannot be."""
    line = await talk.within(talk.line(4096), settings.timeout_s)
    if line != b"loaded":
        raise PolicyFault(Status.ERROR, f"the program cannot be loaded: {_short(line)}")


def value_in(answer: Any) -> Any:
    """The value that a program answered, as it was encoded. Raises `PolicyFault`."""
    match answer:
        case ["value", raw]:
            return raw
        case ["raised", kind, text]:
            raise PolicyFault(Status.ERROR, f"{kind}: {text}", spent=False)
        case ["not plain", text]:
            raise PolicyFault(Status.WRONG, f"{text}", spent=False)
        case _:
            raise PolicyFault(Status.ERROR, "the program broke its conversation")


def _short(text: bytes) -> str:
    return text[:200].decode("utf-8", "replace")
