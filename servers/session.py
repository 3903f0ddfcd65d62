"""One episode of one row, and its rules: calls in order, alone unless they only read; verify once; failure for good."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from . import running
from .answers import (
    ENDED,
    KEY_REUSED,
    UNAVAILABLE,
    Answer,
    Code,
    Refused,
    gone,
    invalid_arguments,
    policy_error,
    unknown_tool,
)
from .closing import close_soon
from .context import CURRENT, About, working_for
from .environment import Environment, ToolError, ToolSpec, snapshot
from .failures import SessionFailure, ToolTimeout, assign, message_of
from .order import Order
from .results import clean_text, outcome_of, tool_result
from .schema import BadArguments
from .transcripts import chat_messages, disagreements
from .types import (
    CallRecord,
    Ending,
    Failure,
    FailureKind,
    Message,
    Outcome,
    Row,
    SessionState,
    Stage,
    Tool,
    ToolResult,
    Transcript,
)

if TYPE_CHECKING:
    from .catalog import Served
    from .store import CallerKey
    from .tracing import Tracing


NO_ROW = Row()
#: What an ended session keeps of its answers to keyed calls: the newest, up to this many characters of results.
KEPT_ANSWER_CHARACTERS = 65_536
#: Of a caller's own ids and keys, and of a tool's name.
MAX_ID_CHARACTERS = 512
#: Longer arguments reach no tool, and are not kept in the log.
MAX_ARGUMENT_BYTES = 1_000_000
#: The tool's name, the arguments as sent, and what was answered.
KeyedAnswer = tuple[str, bytes, Answer]
#: Stands for a tool's name where the answer to a key is a prompt; no tool may be called so.
END_TURN = "end_turn"
#: Stands in the log for a call that runs.
RUNNING = CallRecord("", b"", ToolResult(""))
LIVE = (SessionState.SEEDED, SessionState.ACTIVE)
GONE_CODES = {SessionState.CLOSED: Code.SESSION_CLOSED, SessionState.EXPIRED: Code.SESSION_EXPIRED}


class Host(Protocol):
    """What a session needs from the process it lives in (`sessions.Sessions`)."""

    threads: running.Threads

    @property
    def tracing(self) -> Tracing | None: ...

    def now(self) -> float: ...
    def called(self, session: Session, code: Code, seconds: float) -> None: ...
    def verified(self, session: Session, seconds: float) -> None: ...
    def failed(self, session: Session, failure: Failure, error: BaseException | None) -> None: ...
    def settled(self, session: Session) -> None:
        """The session needs its slot no longer: it was verified, failed, expired or closed."""
        ...


class Session:
    """A live or ended episode. The faces hold one only for the length of a request."""

    __slots__ = (
        "_answers",
        "_order",
        "about",
        "caller",
        "calls",
        "created",
        "data_fingerprint",
        "environment",
        "failure",
        "handle",
        "host",
        "id",
        "in_flight",
        "last_used",
        "offered",
        "outcome",
        "owner",
        "prompt",
        "row",
        "served",
        "sockets",
        "state",
        "tools",
        "wire",
    )

    def __init__(
        self,
        host: Host,
        served: Served,
        handle: str,
        session_id: str,
        row: Row,
        owner: str,
        wire: str,
        episode_id: str = "",
    ) -> None:
        self.host, self.served, self.handle, self.id = host, served, handle, session_id
        self.row, self.owner, self.wire = row, owner, wire
        self.about = About(session_id, served.name, wire, episode_id)
        self.state = SessionState.SEEDED
        self.environment: Environment | None = None
        self.offered: Mapping[str, tuple[ToolSpec, Tool]] = {}
        self.tools: tuple[Tool, ...] = ()
        self.prompt: Sequence[Message] = row.prompt
        self.calls: list[CallRecord] = []
        self.outcome: Outcome | None = None
        self.failure: Failure | None = None
        self.caller: CallerKey | None = None
        self.data_fingerprint = b""
        self.in_flight = self.sockets = 0
        self.created = self.last_used = host.now()
        self._order = Order()
        self._answers: dict[str, KeyedAnswer | None] | None = None

    # ---- calls

    async def call(self, name: str, arguments: bytes, key: str | None = None) -> Answer:
        """Call a tool with the JSON text of its arguments. `key` makes a repeat answer what the first did.

        Raises `Refused` only when the session is closed or expired, and for an endless key.
        """
        _check_key(key)
        self.in_flight += 1
        started = perf_counter()
        tracing = self.host.tracing
        span = None if tracing is None else tracing.begin("call", self.served.name, self.wire)
        try:
            shared = name in self.served.read_only and self._is_new(key)
            if not self._order.try_enter(shared):
                await self._order.enter(shared)
            try:
                answer = await self._call_once(name, arguments, key)
            finally:
                self._order.leave()
            if span is not None:
                span.answered(name if name in self.served.specs else "", answer)
        finally:
            if span is not None:
                span.end_of(self)
            self.in_flight -= 1
            self.last_used = self.host.now()
        self.host.called(self, answer.code, perf_counter() - started)
        return answer

    def _is_new(self, key: str | None) -> bool:
        """Whether no call came with this key yet; it is taken then. A repeat runs alone, so it finds the answer."""
        if key is None:
            return True
        if self._answers is None:
            self._answers = {}
        new = key not in self._answers
        self._answers.setdefault(key, None)
        return new

    async def _call_once(self, name: str, arguments: bytes, key: str | None) -> Answer:
        if key is None:
            return await self._call(name, arguments)
        if self._answers is None:
            self._answers = {}
        if (known := self._answers.get(key)) is not None:
            return known[2] if known[:2] == (name, arguments) else KEY_REUSED
        answer = await self._call(name, arguments)
        self._answers[key] = (name, arguments, answer)
        return answer

    async def _call(self, name: str, arguments: bytes) -> Answer:
        if self.state not in LIVE:
            return self._ended()
        self.state = SessionState.ACTIVE
        log, place = self.calls, len(self.calls)
        log.append(RUNNING)
        if len(arguments) > MAX_ARGUMENT_BYTES:
            name, arguments = name[:MAX_ID_CHARACTERS], b""
            answer = invalid_arguments(name[:80], f"they are longer than {MAX_ARGUMENT_BYTES} bytes")
        elif (pair := self.offered.get(name)) is None:
            answer = unknown_tool(name, self.offered)
            name = name[:MAX_ID_CHARACTERS]
        else:
            answer = await self._run(pair[0], arguments)
        if self.state is not SessionState.ACTIVE:  # it failed in this call, or under it
            return self._ended()
        log[place] = CallRecord(name, arguments, answer.result)
        if answer.result.done:
            await self._verify_now(Transcript(calls=tuple(log)))
            if self.state is not SessionState.VERIFIED:
                return self._ended()
            self.calls = log  # to be compared with the transcript that verify will bring
        return answer

    def _ended(self) -> Answer:
        if self.state is SessionState.FAILED:
            return UNAVAILABLE
        if self.state is SessionState.VERIFIED:
            return ENDED
        raise gone(GONE_CODES[self.state])

    async def _run(self, spec: ToolSpec, arguments: bytes) -> Answer:
        environment = self.environment
        assert environment is not None
        limit_s = spec.timeout_s or environment.tool_timeout_s
        before: Environment | None = None
        around = CURRENT.get()
        CURRENT.set((self.about, spec.tool.name))
        try:
            keywords = spec.check.read(arguments)
            if spec.timeout_blame == "policy" and not spec.tool.read_only:
                before = snapshot(environment)
            tool = partial(spec.function, environment) if spec.bound else spec.function
            call = partial(tool, **keywords)
            value = await running.call(self.host.threads, call, is_async=spec.is_async, timeout_s=limit_s)
            result = tool_result(value)
            done = (spec.ends or result.done) and not result.is_error
            if done and spec.tool.read_only:
                raise TypeError("a read-only tool cannot end the episode")
            if done is not result.done:
                result = replace(result, done=done)
            return Answer(Code.TOOL_ERROR if result.is_error else Code.OK, result)
        except BadArguments as error:
            return invalid_arguments(spec.tool.name, clean_text(str(error)))
        except ToolError as error:
            return policy_error(Code.TOOL_ERROR, clean_text(message_of(error)))
        except ToolTimeout as error:
            if spec.timeout_blame == "session":
                return self._fail(error, Stage.CALL, spec.tool.name)
            if before is not None and self.state is SessionState.ACTIVE:
                self.environment = before  # what the late call still does happens to an object nobody reads
            return policy_error(Code.TOOL_ERROR, f"{spec.tool.name} gave {error} and was stopped.")
        except BaseException as error:
            return self._fail(error, Stage.CALL, spec.tool.name)
        finally:
            CURRENT.set(around)

    # ---- several prompts

    async def end_turn(self, key: str | None = None) -> str | None:
        """The policy ended its turn: the next prompt, or None when there is none. `key` makes a repeat answer what
        the first did. Raises `Refused` when gone."""
        _check_key(key)
        async with _Busy(self):
            if key is not None and (known := (self._answers or {}).get(key)) is not None:
                if known[0] != END_TURN:
                    raise Refused(Code.KEY_REUSED, KEY_REUSED.result.text)
                return None if known[2].result.done else known[2].result.text
            if self.state not in LIVE:
                self._ended()
                return None
            if not self.served.has_end_turn:
                return None
            return await self._end_turn(key)

    async def _end_turn(self, key: str | None) -> str | None:
        try:
            with working_for(self.about):
                prompt = await self._next_prompt()
        except BaseException as error:
            self._fail(error, Stage.END_TURN)
            return None
        if key is not None:
            self._answers = {} if self._answers is None else self._answers
            self._answers[key] = END_TURN, b"", Answer(Code.OK, ToolResult(prompt or "", done=prompt is None))
        return prompt

    async def _next_prompt(self) -> str | None:
        environment = self.environment
        assert environment is not None
        value = await running.call(
            self.host.threads,
            environment.end_turn,
            is_async=inspect.iscoroutinefunction(environment.end_turn),
            timeout_s=environment.tool_timeout_s,
        )
        if value is not None and not isinstance(value, str):
            raise TypeError(f"end_turn returned {type(value).__name__}, not a string or None")
        return None if value is None else clean_text(value)

    # ---- verify

    async def verify(self, items: Sequence[Any] = (), ending: Ending = Ending.FINISHED) -> Outcome:
        """Score the episode, once; a repeat answers the same outcome.

        `items` are the client's messages (chat messages or Responses items), read only if the session is live.
        """
        async with _Busy(self):
            if self.outcome is None:
                if self.state not in LIVE:
                    raise gone(GONE_CODES[self.state])
                await self._verify_now(Transcript(chat_messages(items), tuple(self.calls), ending))
            elif self.calls:  # a call ended the episode: its log was kept for the transcript that comes now
                log, self.calls = self.calls, []
                self._compare(chat_messages(items), log)
            assert self.outcome is not None
            return self.outcome

    def _compare(self, messages: Sequence[Message], log: Sequence[CallRecord]) -> None:
        """Say in the outcome where the client's messages and the server's log differ."""
        said = disagreements(messages, log, self.served.read_only)
        if said and self.outcome is not None and not self.outcome.masked:
            self.outcome = replace(self.outcome, disagreements=said)

    async def _verify_now(self, transcript: Transcript) -> None:
        tracing = self.host.tracing
        span = None if tracing is None else tracing.begin("verify", self.served.name, self.wire)
        try:
            await self._score(transcript)
        finally:
            if span is not None:
                span.scored(self)
                span.end_of(self)

    async def _score(self, transcript: Transcript) -> None:
        started = perf_counter()
        environment = self.environment
        assert environment is not None
        try:
            with working_for(self.about):
                value = await running.call(
                    self.host.threads,
                    partial(environment.verify, transcript),
                    is_async=self.served.verify_is_async,
                    timeout_s=environment.verify_timeout_s,
                )
            outcome = outcome_of(value, transcript.ending)
            if outcome.masked:
                reason = outcome.failure_reason or "verify said so"
                raise SessionFailure(reason, outcome.failure_kind or "exception")
        except BaseException as error:
            self._fail(error, Stage.VERIFY)
            return
        if self.state not in LIVE:  # it failed while verify ran
            return
        self.outcome = outcome
        self._compare(transcript.messages, transcript.calls)
        self.state = SessionState.VERIFIED
        self.host.verified(self, perf_counter() - started)
        self._release()

    # ---- endings

    def fail(self, failure: Failure, error: BaseException | None = None) -> Answer:
        """Our side broke: for good. Recorded once; later calls and verify answer it."""
        if self.outcome is None and self.state in LIVE:
            self.state = SessionState.FAILED
            self.outcome, self.failure = Outcome.failed(failure), failure
            self.host.failed(self, failure, error)
            self._release()
        return UNAVAILABLE

    def _fail(self, error: BaseException, stage: Stage, tool: str = "") -> Answer:
        """What escaped an environment's code. A caller that gave up half way leaves a state nobody knows."""
        if isinstance(error, GeneratorExit):
            raise error
        if running.ends_task(error):
            self.fail(Failure(FailureKind.CANCELLED, "the caller gave up while it ran", stage, tool))
            raise error
        return self.fail(assign(error, self.served.name, stage, tool, self.row.data), error)

    def expire(self, reason: str) -> None:
        """The idle or the lifetime limit: whoever still asks hears `session_expired`."""
        if self.state in LIVE:
            self.state = SessionState.EXPIRED
            self.failure = Failure(FailureKind.SESSION_EXPIRED, reason, Stage.IDLE)
            self.outcome = Outcome.failed(self.failure)
            self.host.failed(self, self.failure, None)
            self._release()

    async def close(self) -> None:
        """Close after the call in flight; closing twice is fine."""
        async with _Busy(self):
            if self.state is not SessionState.CLOSED:
                was_live = self.state in LIVE
                self.state = SessionState.CLOSED
                if was_live:
                    self._release()

    def _release(self) -> None:
        """Let go of everything but the outcome and the latest answers, and free the slot."""
        environment, self.environment = self.environment, None
        self.calls, self.offered, self.row, self.prompt = [], {}, NO_ROW, ()
        if self._answers:
            self._answers = newest(self._answers)
        self.host.settled(self)
        close_soon(self.host.threads, environment, self.about)


class _Busy:
    """Alone at the session, and counted as in flight."""

    __slots__ = ("session",)

    def __init__(self, session: Session) -> None:
        self.session = session

    async def __aenter__(self) -> None:
        self.session.in_flight += 1
        try:
            await self.session._order.enter()
        except BaseException:
            self.session.in_flight -= 1
            raise

    async def __aexit__(self, *_: object) -> None:
        self.session._order.leave()
        self.session.in_flight -= 1
        self.session.last_used = self.session.host.now()


def _check_key(key: str | None) -> None:
    if key is not None and len(key) > MAX_ID_CHARACTERS:
        raise Refused(Code.INVALID_REQUEST, f"An idempotency key has at most {MAX_ID_CHARACTERS} characters.")


def newest(answers: dict[str, KeyedAnswer | None]) -> dict[str, KeyedAnswer | None]:
    """The latest answers to keyed calls, within `KEPT_ANSWER_CHARACTERS`; in the order they were given."""
    kept: list[tuple[str, KeyedAnswer]] = []
    size = 0
    for key, known in reversed(answers.items()):
        if known is None:  # its call failed with the session
            continue
        size += len(known[1]) + len(known[2].result.text)
        if size > KEPT_ANSWER_CHARACTERS:
            break
        kept.append((key, known))
    return dict(reversed(kept))
