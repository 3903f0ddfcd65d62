"""A session that is recovered by replay when our side breaks it.

The same row is seeded again with the same seed, the recorded calls are made again and their results compared, then
the failing call is repeated and the episode goes on with the very tokens it had. Any disagreement ends it: an
environment that does not repeat itself cannot be recovered, and the failure stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import uniform
from time import monotonic
from typing import Any, TypeVar

from ..adapters.session import Session, SessionFailed
from ..servers.types import Ending, FailureKind, Message, Outcome, Stage, Tool, ToolResult

T = TypeVar("T")
#: Seeds the episode's row.
Seed = Callable[[], Awaitable[Session]]
#: Told of every failure as it happens, with the tool that was called, if any.
Report = Callable[[SessionFailed, str], None]


#: A seed that failed so made no session, and may find the server back in a moment.
AWAY = frozenset({FailureKind.TRANSPORT_UNREACHABLE, FailureKind.TRANSPORT_PEER_DROP})
PAUSES_S = (0.5, 1.0, 2.0, 5.0)
#: How many calls of one session are out at once, however many its turn made.
MAX_TOGETHER = 16


async def seed_patiently(seed: Seed, patience_s: float, report: Callable[[SessionFailed], None]) -> Session:
    """Seed, again and again while nobody can reach the server, at most `patience_s`. Raises `SessionFailed` then.

    Only the first of these failures is reported: a server that restarts is one event.
    """
    deadline, tries = monotonic() + patience_s, 0
    while True:
        try:
            return await seed()
        except SessionFailed as failure:
            pause_s = PAUSES_S[min(tries, len(PAUSES_S) - 1)] * uniform(0.5, 1.0)
            if failure.kind not in AWAY or monotonic() + pause_s > deadline:
                raise
            if not tries:
                report(failure)
        tries += 1
        await asyncio.sleep(pause_s)


def first_of(several: BaseExceptionGroup) -> BaseException:
    """One cause, the first that is an error of its own."""
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(frozen=True, slots=True)
class Step:
    """What was asked of the session, and what it answered; `tool` is empty for the end of a turn."""

    tool: str
    argument: Any
    answer: ToolResult | str | None


class ResilientSession:
    """`Session` as a rollout uses it, recovered up to `max_recoveries` times. Raises `SessionFailed` beyond."""

    def __init__(self, seed: Seed, max_recoveries: int, timeout_s: float, report: Report) -> None:
        self._seed, self._left, self._timeout_s, self._report = seed, max_recoveries, timeout_s, report
        self._steps: list[Step] = []
        self._session: Session | None = None
        self._reported: Session | None = None  # calls made together may fail together: a session fails once
        self.recovered = 0

    async def begin(self) -> None:
        """Seed the row. Raises `SessionFailed`; a failed seed has nothing to replay and is the caller's to retry."""
        self._session = await self._seed()

    @property
    def steps(self) -> Sequence[Step]:
        """What was answered so far."""
        return self._steps

    @property
    def prompt(self) -> Sequence[Message]:
        return self._open.prompt

    @property
    def tools(self) -> Sequence[Tool]:
        return self._open.tools

    @property
    def max_turns(self) -> int | None:
        return self._open.max_turns

    @property
    def done(self) -> bool:
        return self._open.done

    def may_overlap(self, name: str) -> bool:
        return self._open.may_overlap(name)

    async def call(self, name: str, arguments: Any) -> ToolResult:
        result = await self._recovering(lambda: self._call(name, arguments))
        self._steps.append(Step(name, arguments, result))
        return result

    async def call_together(self, calls: Sequence[tuple[str, Any]]) -> list[ToolResult]:
        """Calls that may overlap, at once; answered in their order. Each has a time limit of its own.

        Where one fails the others are given up, and after a recovery all are made again: they change nothing, and
        nobody has seen their answers.
        """
        results = await self._recovering(lambda: self._call_all(calls))
        self._steps += [Step(*call, result) for call, result in zip(calls, results, strict=True)]
        return results

    async def end_turn(self, text: str) -> str | None:
        prompt = await self._recovering(lambda: self._try(lambda: self._open.end_turn(text), Stage.END_TURN))
        self._steps.append(Step("", text, prompt))
        return prompt

    async def verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        return await self._recovering(
            lambda: self._try(lambda: self._open.verify(messages, ending=ending), Stage.VERIFY)
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # ---- recovery

    @property
    def _open(self) -> Session:
        if self._session is None:
            raise RuntimeError("the session was not begun")
        return self._session

    async def _recovering(self, attempt: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await attempt()
            except SessionFailed as failure:
                await self._recover(failure)

    async def _call_all(self, calls: Sequence[tuple[str, Any]]) -> list[ToolResult]:
        slots = asyncio.Semaphore(MAX_TOGETHER)

        async def one(name: str, arguments: Any) -> ToolResult:
            async with slots:
                return await self._call(name, arguments)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(*call)) for call in calls]
        except BaseExceptionGroup as several:
            raise first_of(several) from None
        return [task.result() for task in tasks]

    async def _call(self, name: str, arguments: Any) -> ToolResult:
        return await self._try(lambda: self._open.call(name, arguments), Stage.CALL, name)

    async def _try(self, action: Callable[[], Awaitable[T]], stage: Stage, tool: str = "") -> T:
        """One attempt; the session's failure is reported with the tool that met it first."""
        try:
            return await self._in_time(action, stage)
        except SessionFailed as failure:
            if self._reported is not self._open:
                self._reported = self._open
                self._report(failure, tool)
            raise

    async def _in_time(self, action: Callable[[], Awaitable[T]], stage: Stage) -> T:
        """Past the limit the session counts as failed, whatever the wire's own limits are."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await action()
        except TimeoutError:
            reason = f"no answer within {self._timeout_s:g} s"
            raise SessionFailed(FailureKind.TRANSPORT_TIMEOUT, reason, stage) from None

    async def _recover(self, failure: SessionFailed) -> None:
        """Bring a fresh session to where the broken one was. Raises the last failure where that cannot be."""
        while self._left > 0:
            self._left -= 1
            before = self._open
            await before.close()
            try:
                repeated = await self._replay(before)
            except SessionFailed as again:
                self._report(again, "")
                failure = again
                continue
            if not repeated:
                raise SessionFailed(failure.kind, f"not replayable after: {failure.reason}", failure.stage)
            self.recovered += 1
            return
        raise failure

    async def _replay(self, before: Session) -> bool:
        """Seed anew and repeat every recorded step; False where one answers otherwise than it did."""
        session = self._session = await self._seed()
        if session.prompt != before.prompt or session.tools != before.tools:
            return False
        for step in self._steps:
            if step.tool:
                repeat = self._in_time(lambda step=step: session.call(step.tool, step.argument), Stage.CALL)
            else:
                repeat = self._in_time(lambda step=step: session.end_turn(step.argument), Stage.END_TURN)
            answer: ToolResult | str | None = await repeat
            if answer != step.answer:
                return False
        return True
