"""The in-process client: the session engine without a wire in between."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ..servers.answers import Code, Refused
from ..servers.catalog import Served, find
from ..servers.environment import DefinitionError, Environment
from ..servers.seeding import SeedRequest
from ..servers.session import Session as Episode
from ..servers.sessions import Sessions
from ..servers.types import Ending, FailureKind, Message, Outcome, Stage, ToolResult
from .backend import Backend
from .endpoint import EnvironmentInfo
from .patience import Busy
from .session import POLICY_CODES, ResultLimit, Session, SessionFailed, Task, WrongRequest, failure_of


class LocalSession(Session):
    """An episode in this process."""

    wire = "local"

    def __init__(self, sessions: Sessions, episode: Episode, limit: ResultLimit | None) -> None:
        environment = episode.served.environment
        super().__init__(prompt=episode.prompt, tools=episode.tools, max_turns=environment.max_turns, limit=limit)
        self._sessions, self._episode = sessions, episode

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        call = asyncio.ensure_future(self._episode.call(name, arguments))
        try:
            answer = await asyncio.shield(call)  # as over a wire: a caller that gives up does not stop the tool
        except Refused as refused:
            raise from_refused(refused, Stage.CALL) from None
        if answer.code is Code.OK or answer.code in POLICY_CODES:
            return answer.result
        raise self._failed(Stage.CALL)

    async def _end_turn(self) -> str | None:
        try:
            prompt = await self._episode.end_turn()
        except Refused as refused:
            raise from_refused(refused, Stage.END_TURN) from None
        if self._episode.outcome is not None and self._episode.outcome.masked:
            raise self._failed(Stage.END_TURN)
        return prompt

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        try:
            outcome = await self._episode.verify(messages, ending)
        except Refused as refused:
            raise from_refused(refused, Stage.VERIFY) from None
        if outcome.masked:
            raise self._failed(Stage.VERIFY)
        return outcome

    async def _close(self) -> None:
        await self._sessions.close(self._episode)

    def _failed(self, stage: Stage) -> SessionFailed:
        outcome = self._episode.outcome
        if outcome is None:
            return SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, "the session failed", stage)
        return SessionFailed(outcome.failure_kind, outcome.failure_reason, stage)


class InProcess(Backend):
    """An environment in this process, with a session engine of its own or a shared one."""

    wire = "local"

    def __init__(
        self, served: Served, sessions: Sessions | None, limit: ResultLimit | None, *, made_here: bool = False
    ) -> None:
        self._served, self._limit = served, limit
        self._owned = sessions is None
        self._lets_go = self._owned or made_here  # of what the environment opened
        self._sessions = sessions or Sessions()
        self.info = _info(served)

    @classmethod
    def of(
        cls,
        target: str | type[Environment] | Served,
        settings: Mapping[str, Any] | None,
        sessions: Sessions | None,
        limit: ResultLimit | None,
    ) -> Self:
        """Find the environment. Raises `WrongRequest`."""
        if isinstance(target, Served):
            return cls(target, sessions, limit)
        try:
            environment = find(target) if isinstance(target, str) else target
            return cls(Served(environment, settings), sessions, limit, made_here=True)
        except DefinitionError as error:
            raise WrongRequest(str(error)) from None

    async def seed(self, task: Task) -> LocalSession:
        request = SeedRequest(task.row, task.split, task.index, task.seed, task.session_id or None)
        try:
            episode = await self._sessions.seed(self._served, request, wire="local")
        except Refused as refused:
            if refused.code in (Code.AT_CAPACITY, Code.DRAINING):
                raise Busy(refused.text, refused.retry_after_s) from None
            raise from_refused(refused, Stage.SEED) from None
        return LocalSession(self._sessions, episode, self._limit)

    async def close(self) -> None:
        if self._owned:
            await self._sessions.drain(0.0)
        if self._lets_go:
            await self._served.close()


def _info(served: Served) -> EnvironmentInfo:
    environment = served.environment
    return EnvironmentInfo(
        name=served.name,
        description=(environment.__doc__ or "").strip(),
        splits={split: served.rows.count(split) for split in served.rows.splits},
        tools=served.tools,
        max_turns=environment.max_turns,
        tool_timeout_s=environment.tool_timeout_s,
        verify_timeout_s=environment.verify_timeout_s,
        has_end_turn=served.has_end_turn,
        replayable=environment.replayable,
    )


def from_refused(refused: Refused, stage: Stage) -> Exception:
    """What the engine refused: the caller's mistake at seed, else a failed session."""
    if refused.failure is not None:
        return SessionFailed(refused.failure.kind, refused.failure.reason, stage)
    if stage is Stage.SEED and refused.status < 500:
        return WrongRequest(refused.text)
    return failure_of(refused.code, refused.text, stage)
