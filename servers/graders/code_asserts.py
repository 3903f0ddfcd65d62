"""A row's own test code, in a job that never holds the program: this process carries plain values between the two.

What ends a test is blamed by what came first: tests that break before the program has answered anything are the row's
fault, and fail the session; afterwards it is a value of the program's that broke them, and the test is not passed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import random
from typing import Any
from weakref import WeakKeyDictionary

from ..sandbox.jobs import Sandbox, SandboxUnavailable
from ..types import RowError
from .code_cases import AssertTest, Tests
from .code_jobs import TestJob, loaded
from .code_talk import JOB_OUTPUT_BYTES, Conversation, PolicyFault, Settings, Status, conversation

#: One of these pairs waits for its second place at a time, and not longer than this while it holds its first.
PAIR_WAIT_S = 5.0
PAIR_TRIES = 6
_choosing: WeakKeyDictionary[Sandbox, asyncio.Lock] = WeakKeyDictionary()


@asynccontextmanager
async def asserting(sandbox: Sandbox, program: str, tests: Tests, settings: Settings) -> AsyncIterator[TestJob]:
    """A pair of jobs for `AssertTest`s. Raises `SandboxUnavailable` where two places cannot be had."""
    async with AsyncExitStack() as stack:
        async with _choosing.setdefault(sandbox, asyncio.Lock()):
            solution, judge = await _pair(sandbox, program, settings, stack)
        yield _Asserting(solution, judge, tests, settings)


async def _pair(
    sandbox: Sandbox, program: str, settings: Settings, stack: AsyncExitStack
) -> tuple[Conversation, Conversation]:
    """Both places, or none: those who each hold one and wait for another would wait for ever."""
    for _ in range(PAIR_TRIES):
        async with AsyncExitStack() as held:
            first = await held.enter_async_context(conversation(sandbox, "calls", {"solution.py": program}, settings))
            try:
                async with asyncio.timeout(PAIR_WAIT_S):
                    second = await held.enter_async_context(conversation(sandbox, "asserts", {}, settings))
            except TimeoutError:
                continue
            stack.push_async_exit(held.pop_all())
            return first, second
        await asyncio.sleep(random())
    raise SandboxUnavailable("tests of this kind need two places at the same time, and only one could be had")


class _Asserting:
    def __init__(self, solution: Conversation, judge: Conversation, tests: Tests, settings: Settings) -> None:
        self._solution, self._judge, self._tests, self._settings = solution, judge, tests, settings
        self._begun = False

    async def take(self, test: AssertTest) -> None:
        if not self._begun:
            await self._begin()
            self._begun = True
        await self._judge.send(b"run %d\n" % self._tests.tests.index(test))
        await self._relay()

    async def _begin(self) -> None:
        """Load the program, learn which of the tests' names it has, and tell the tests."""
        await loaded(self._solution, self._settings)
        names = list(self._tests.names)
        answer = await self._ask(["describe", names], self._settings.timeout_s)
        kinds = answer[1] if len(answer) > 1 and isinstance(answer[1], dict) else {}
        task = {
            "given": self._tests.given,
            "setup": self._tests.setup,
            "modules": self._tests.modules,
            "names": {name: str(kinds.get(name, "missing")) for name in names},
            "tests": [test.source for test in self._tests.tests if isinstance(test, AssertTest)],
        }
        await self._judge.send(json.dumps(task).encode() + b"\n")

    async def _relay(self) -> None:
        """Carry requests and answers until the test ends."""
        deadline = time.monotonic() + 2 * self._settings.timeout_s
        left_s, answered = self._settings.timeout_s, False
        while True:
            message = await self._heard(deadline - time.monotonic(), answered)
            match message:
                case ["passed"]:
                    return
                case ["failed", text]:
                    raise PolicyFault(Status.WRONG, text, spent=False)
                case ["unsupported", text]:
                    raise RowError(f"the row's tests cannot be run: {text}")
            started = time.monotonic()
            answer = await self._ask(message, left_s)
            left_s -= time.monotonic() - started
            answered = True
            await self._judge.send(json.dumps(answer).encode() + b"\n")

    async def _heard(self, timeout_s: float, answered: bool) -> Any:
        """The tests' next line. Raises `PolicyFault` where a value of the program's kept it from coming."""
        try:
            line = await self._judge.within(self._judge.line(JOB_OUTPUT_BYTES), timeout_s)
        except PolicyFault as fault:
            if answered:
                raise PolicyFault(fault.status, f"a value of the program's broke a test: {fault.detail}") from fault
            raise RowError(f"the row's tests cannot be run: {fault}") from fault
        return json.loads(line)

    async def _ask(self, request: Any, timeout_s: float) -> Sequence[Any]:
        answer = await self._solution.ask(request, timeout_s=max(timeout_s, 0.0), most=self._settings.output_bytes)
        match answer:
            case ["value", _] | ["value", None, _] | ["raised", str(), str()] | ["callable"]:
                return answer
            case ["not plain", text]:
                raise PolicyFault(Status.WRONG, f"{text}")
            case _:
                raise PolicyFault(Status.ERROR, "the program broke its conversation")
