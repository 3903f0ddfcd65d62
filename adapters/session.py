"""`Session`: one episode, the same on every wire, and `SessionFailed`, the one way in which it breaks.

Two kinds of error, as everywhere in gymwire. What the policy did is a `ToolResult` with `is_error`: unknown
tools, bad arguments, a tool's refusal, a call after the end. What broke on our side raises `SessionFailed`, for
good: every later call and verify of the session raises it again. **A masked verify raises it too**, on every
wire: an `Outcome` that verify returns always has a reward.

Names that were not listed, and arguments that are no object, are answered here and never leave the client, so
no text of a policy can reach a control call.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import ClassVar, Self

from ..servers.answers import Code, invalid_arguments, sanitize, unknown_tool
from ..servers.order import Order
from ..servers.types import Ending, FailureKind, Message, Outcome, Row, Stage, Tool, ToolResult
from .calls import BadToolCall, Keep, encode_arguments, limit_result, read_arguments

logger = logging.getLogger("gymwire.adapters")

#: Control calls of the wires: never tools, whoever lists them.
CONTROL_NAMES = frozenset({"seed_session", "verify", "close_session", "end_turn", "aggregate_metrics", "reverify_mode"})
CLOSE_TIMEOUT_S = 5.0


class SessionFailed(Exception):
    """Our side broke this session: mask it. `kind` is a `FailureKind` or `<environment>:<kind>`."""

    def __init__(self, kind: str, reason: str, stage: str) -> None:
        super().__init__(f"{kind} at {stage}: {reason}")
        self.kind, self.reason, self.stage = str(kind), reason, str(stage)

    def again(self) -> SessionFailed:
        """The same failure, to raise anew."""
        return type(self)(self.kind, self.reason, self.stage)

    def __reduce__(self) -> tuple[type[SessionFailed], tuple[str, str, str]]:
        return type(self), (self.kind, self.reason, self.stage)


class WrongRequest(ValueError):
    """The caller asked for what cannot be: a wrong URL, token, environment, split or row. One clear sentence.

    Raised by connect and seed only; no session exists then.
    """


@dataclass(frozen=True, slots=True)
class Task:
    """What to seed: a whole row, or a place in a split, or a choice by seed; `session_id` is the caller's own."""

    row: Row | None = None
    split: str | None = None
    index: int | None = None
    seed: int | None = None
    session_id: str = ""


@dataclass(frozen=True, slots=True)
class ResultLimit:
    """Tool results longer than `max_chars` are cut, keeping the end or ends named."""

    max_chars: int
    keep: Keep = "both"


class Session(ABC):
    """One episode. Use it as an async context manager, or call `close` yourself.

    `prompt` is the messages the policy starts from, `tools` what it may call, `max_turns` how many turns a
    rollout may take (the caller enforces it), `done` whether a tool ended the episode.

    Several tasks may call at once: calls of read-only tools go out beside each other where the wire carries several
    (`may_overlap`), any other one waits for those before it, and those after it wait.
    """

    wire: ClassVar[str] = ""
    #: Whether the wire can carry several calls of one session at once.
    carries_several: ClassVar[bool] = True

    def __init__(
        self,
        *,
        prompt: Sequence[Message],
        tools: Iterable[Tool],
        max_turns: int | None = None,
        limit: ResultLimit | None = None,
    ) -> None:
        self.prompt: list[Message] = list(prompt)
        self.tools: tuple[Tool, ...] = tuple(tool for tool in tools if tool.name not in CONTROL_NAMES)
        self.max_turns = max_turns
        self.done = False
        self.failure: SessionFailed | None = None
        self._names = {tool.name: tool for tool in self.tools}
        self._limit = limit
        self._calls = 0
        self._key = secrets.token_hex(4)  # a second client of the same session has keys of its own
        self._closed = False
        self._order = Order()

    # ---- what each wire does

    @abstractmethod
    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        """Call a listed tool with the JSON text of an object. `key` names this call within the session."""

    @abstractmethod
    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        """Score the episode; raises `SessionFailed` when it is masked."""

    async def _end_turn(self) -> str | None:
        """The next prompt, or None where the environment has but one."""
        return None

    @abstractmethod
    async def _close(self) -> None:
        """Tell the server, and let go of whatever this session holds. Never waits long."""

    # ---- what callers use

    def may_overlap(self, name: str) -> bool:
        """Whether calls of this tool, made at once, run beside each other."""
        tool = self._names.get(name)
        return tool is not None and tool.read_only and self.carries_several

    async def call(self, name: str, arguments: object = None) -> ToolResult:
        """Call a tool. `arguments` is an object, or its JSON text as a model wrote it. Raises `SessionFailed`."""
        self._check(Stage.CALL)
        if name not in self._names:
            return unknown_tool(str(name), self._names).result
        try:
            text = encode_arguments(read_arguments(arguments))
        except BadToolCall as error:
            return invalid_arguments(name, str(error)).result
        await self._order.enter(
            self.may_overlap(name)
        )  # servers keep this order anyway; so a time limit is a call's own
        try:
            return self._shown(await self._ask(name, text))
        finally:
            self._order.leave()

    async def _ask(self, name: str, arguments: bytes) -> ToolResult:
        self._check(Stage.CALL)
        try:
            result = await self._call(name, arguments, self._next_key())
        except SessionFailed as failure:
            self.failure = self.failure or failure
            raise
        if self.failure is not None:  # a call beside this one broke the session: what comes now is dropped
            raise self.failure.again()
        if result.done:
            self.done = True
        return result

    def _next_key(self) -> str:
        """An idempotency key of this session."""
        self._calls += 1
        return f"{self._key}-{self._calls}"

    async def end_turn(self, text: str = "") -> str | None:
        """The policy ended its turn with `text`: the next prompt, or None when there is none.

        No wire carries the text here; it reaches the grader with verify's messages.
        """
        self._check(Stage.END_TURN)
        if self.done:
            return None
        try:
            prompt = await self._end_turn()
        except SessionFailed as failure:
            self.failure = failure
            raise
        return None if prompt is None else sanitize(prompt)

    async def verify(self, messages: Sequence[Message] = (), *, ending: Ending = Ending.FINISHED) -> Outcome:
        """Score the episode. Raises `SessionFailed` when it is masked; a repeat answers the same.

        `messages` are the chat messages of the episode; the prompt in front of them may be left out.
        """
        self._check(Stage.VERIFY)
        try:
            return await self._verify(after_prompt(messages, self.prompt), ending)
        except SessionFailed as failure:
            self.failure = failure
            raise

    async def close(self) -> None:
        """Let go of the session here and on the server; closing twice is fine. Never raises for the server's sake."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._close()
        except (SessionFailed, TimeoutError) as error:
            logger.info("closing a %s session: %s", self.wire, error or "no answer in time")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ---- details

    def _check(self, stage: Stage) -> None:
        if self.failure is not None:
            raise self.failure.again()
        if self._closed:
            raise SessionFailed(FailureKind.SESSION_LOST, "this session was closed by its own client", stage)

    def _shown(self, result: ToolResult) -> ToolResult:
        text = result.text
        shown = sanitize(text) if self._limit is None else limit_result(text, self._limit.max_chars, self._limit.keep)
        return result if shown is text else replace(result, text=shown)


def after_prompt(messages: Sequence[Message], prompt: Sequence[Message]) -> list[Message]:
    """The messages without the prompt in front, where they begin with it."""
    messages = list(messages)
    return messages[len(prompt) :] if prompt and messages[: len(prompt)] == list(prompt) else messages


#: What a policy did; every other code means that no session can answer.
POLICY_CODES = frozenset(
    code.value for code in (Code.TOOL_ERROR, Code.UNKNOWN_TOOL, Code.INVALID_ARGUMENTS, Code.SESSION_VERIFIED)
)
_GONE_KINDS = {
    Code.SESSION_LOST.value: FailureKind.SESSION_LOST,
    Code.SESSION_CLOSED.value: FailureKind.SESSION_LOST,
    Code.SESSION_EXPIRED.value: FailureKind.SESSION_EXPIRED,
}


def failure_of(code: str, text: str, stage: Stage, *, kind: str = "", reason: str = "") -> SessionFailed:
    """The failure that one of our servers' codes means; `kind` and `reason` are what it said itself."""
    kind = kind or _GONE_KINDS.get(code, FailureKind.PROVIDER_UNAVAILABLE)
    return SessionFailed(kind, reason or text or code, stage)


def read_outcome(reward: object, ending: object, components: object = None, disagreements: object = None) -> Outcome:
    """An outcome from a wire's fields. Raises `SessionFailed` for what is no reward, or no part of one."""
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        raise SessionFailed(FailureKind.VERIFIER_ERROR, f"verify answered reward {reward!r:.80}", Stage.VERIFY)
    parts = components if isinstance(components, Mapping) else {}
    said = disagreements if isinstance(disagreements, Sequence) and not isinstance(disagreements, str) else ()
    try:
        return Outcome(
            Ending(ending) if isinstance(ending, str) else Ending.FINISHED,
            float(reward),
            {str(key): float(value) for key, value in parts.items()},
            disagreements=tuple(map(str, said)),
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise SessionFailed(FailureKind.VERIFIER_ERROR, f"verify answered no outcome: {error}", Stage.VERIFY) from None
