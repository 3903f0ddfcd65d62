"""One episode, from its prompt to its reward: the policy's tokens, the tools' answers, and how it ended.

An episode is a coroutine; the engine batches whatever is ready, so tools overlap decoding. Token ids are only ever
appended. A failed session is recovered by replay, else the episode begins anew, else it comes back failed: without
a reward, and so without a vote.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import groupby
from time import perf_counter
from typing import Protocol

from ..adapters.calls import ParsedCall, ParsedTurn, result_for_history
from ..adapters.connect import Connection
from ..adapters.session import Session, SessionFailed, WrongRequest
from ..servers.answers import unknown_tool
from ..servers.types import Ending, EpisodeId, Json, Message, Outcome, Tool, ToolResult
from .config import Failures, Rollout
from .resilient import ResilientSession, Step, first_of, seed_patiently
from .rows import Episode

__all__ = ["Dialogue", "Episode", "Player", "Policy", "Sampled", "Times", "Trace", "Turn", "digest_of", "seed_of"]


@dataclass(slots=True)
class Times:
    """Where an episode's seconds went; `wait_s` is for a session slot."""

    decode_s: float = 0.0
    tools_s: float = 0.0
    wait_s: float = 0.0
    verify_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as the engine was asked for it: how many ids stood before it, their digest, how many were sampled."""

    context: int
    digest: str
    sampled: int
    finish_reason: str
    seconds: float


def digest_of(ids: Sequence[int]) -> str:
    """Names a sequence of token ids."""
    return sha256(array("q", ids).tobytes()).hexdigest()[:16]


@dataclass(slots=True)
class Trace:
    """An episode that was played. Exactly one of `outcome` and `failure` is set.

    `completion_ids`, `sampled` and `logprobs` have one entry a token after the prompt. `steps` is what the session
    was asked and answered, before anything was cut for the policy.
    """

    episode: Episode
    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    prompt: list[Message] = field(default_factory=list)
    tools: list[Json] = field(default_factory=list)
    outcome: Outcome | None = None
    failure: SessionFailed | None = None
    turns: int = 0
    calls: int = 0
    tool_errors: int = 0
    recovered: int = 0
    retried: int = 0
    times: Times = field(default_factory=Times)
    sampled_turns: list[Turn] = field(default_factory=list)
    steps: Sequence[Step] = ()

    @property
    def reward(self) -> float | None:
        return None if self.outcome is None else self.outcome.reward


class Sampled(Protocol):
    """One turn as it was sampled, the token that ended it included."""

    @property
    def ids(self) -> list[int]: ...
    @property
    def logprobs(self) -> list[float]: ...
    @property
    def finish_reason(self) -> str: ...


class Policy(Protocol):
    """Samples one turn: the engine, or a script of token ids in tests."""

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Sampled: ...


class Dialogue(Protocol):
    """A dialogue as token ids that are only appended (`tokens.Dialogue`)."""

    prompt_ids: list[int]
    completion_ids: list[int]
    sampled: list[int]
    logprobs: list[float]

    @property
    def ids(self) -> list[int]: ...
    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> str: ...
    def parse(self, text: str) -> ParsedTurn: ...
    def append_messages(self, messages: Sequence[Message], *, room: int | None = None) -> list[int]: ...


#: Told of every failure as it happens: the episode, what failed, and the tool that was called.
OnFailure = Callable[[Episode, SessionFailed, str], None]


def seed_of(episode: EpisodeId, turn: int) -> int:
    """A request's sampling seed. A recovered or replayed turn draws what the undisturbed one drew."""
    name = f"{episode.row}:{episode.seed}:{episode.sample}:{turn}"
    return int.from_bytes(sha256(name.encode()).digest()[:4], "big") & 0x7FFF_FFFF


@dataclass(frozen=True, slots=True)
class Seat:
    """What every episode of a run plays with. `context` is what the engine can hold; `limit` fits a tool's answer."""

    connection: Connection
    dialogue: Callable[[Sequence[Message], Sequence[Tool]], Dialogue]
    limits: Rollout
    failures: Failures
    limit: Callable[[str], str] = lambda text: text
    allowed_tools: Sequence[str] | None = None
    context: int | None = None
    on_failure: OnFailure = lambda episode, failure, tool: None


class Player:
    """Plays episodes on one connection, as many at once as `max_concurrent` allows."""

    def __init__(self, seat: Seat, policy: Policy, max_concurrent: int) -> None:
        self.seat, self.policy = seat, policy
        self._slots = asyncio.Semaphore(max_concurrent)

    async def play_all(self, episodes: Sequence[Episode]) -> list[Trace]:
        """Play many at once. An error that is no session's (the engine's) ends all of them and is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.play(episode)) for episode in episodes]
        except BaseExceptionGroup as several:
            raise first_of(several) from None
        return [task.result() for task in tasks]

    async def play(self, episode: Episode) -> Trace:
        waited = perf_counter()
        async with self._slots:
            waited = perf_counter() - waited
            trace = Trace(episode)
            for attempt in range(self.seat.failures.max_retries + 1):
                trace = Trace(replace(episode, id=replace(episode.id, attempt=attempt)), retried=attempt)
                trace.times.wait_s = waited
                await _Attempt(self, trace).run()
                if trace.failure is None:
                    break
            return trace


class _Attempt:
    """One try at an episode, recorded in its trace."""

    def __init__(self, player: Player, trace: Trace) -> None:
        self.seat, self.policy, self.trace, self.limits = player.seat, player.policy, trace, player.seat.limits
        recover, timeout_s = player.seat.failures.recover, player.seat.limits.tool_timeout_s
        self.session = ResilientSession(self._seed, recover, timeout_s, self._report)
        self.dialogue: Dialogue | None = None
        self.tools: list[Tool] = []

    async def run(self) -> None:
        trace = self.trace
        try:
            await self._begin()
            ending = await self._turns()
            started = perf_counter()
            trace.outcome = await self.session.verify(trace.messages, ending)
            trace.times.verify_s = perf_counter() - started
        except SessionFailed as failure:
            trace.failure = failure
        finally:
            trace.recovered, trace.steps = self.session.recovered, self.session.steps
            await self.session.close()
            self._keep_tokens()

    async def _seed(self) -> Session:
        """A session of its own name: a server that outlives the run has seen this episode's before."""
        source, seed = self.trace.episode.source, self.trace.episode.id.seed
        started = perf_counter()
        try:
            return await seed_patiently(
                lambda: self.seat.connection.session(
                    row=source.row, split=source.split, index=source.index, seed=seed
                ).start(),
                self.seat.failures.patience_s,
                lambda failure: self._report(failure, ""),
            )
        finally:
            self.trace.times.wait_s += perf_counter() - started

    def _report(self, failure: SessionFailed, tool: str) -> None:
        self.seat.on_failure(self.trace.episode, failure, tool)

    async def _begin(self) -> None:
        try:
            await self.session.begin()
        except SessionFailed as failure:
            self._report(failure, "")
            raise
        trace, patterns = self.trace, self.seat.allowed_tools
        trace.prompt = list(self.session.prompt)
        if not trace.prompt:
            raise WrongRequest(f"the row {trace.episode.id.row} has no prompt: {NO_PROMPT}")
        self.tools = [tool for tool in self.session.tools if is_allowed(tool.name, patterns)]
        trace.tools = [tool.as_chat() for tool in self.tools]
        self.dialogue = self.seat.dialogue(trace.prompt, self.tools)

    # ---- turns

    async def _turns(self) -> Ending:
        """Play until the policy stops or a budget is spent."""
        own = self.session.max_turns
        limit = min((turns for turns in (self.limits.max_turns, own) if turns is not None), default=None)
        while limit is None or self.trace.turns < limit:
            parsed = await self._sample()
            if parsed is None:
                return Ending.CUT
            if parsed.calls:
                answers = await self._answer(parsed)
                if self.session.done:
                    return Ending.FINISHED
            else:
                prompt = await self.session.end_turn(parsed.content)
                if prompt is None:
                    return Ending.FINISHED
                answers = [{"role": "user", "content": self.seat.limit(prompt)}]
                self.trace.messages.extend(answers)
            if not self._extend(answers):
                return Ending.CUT
        return Ending.CUT

    async def _sample(self) -> ParsedTurn | None:
        """One turn of the policy; None when a token budget cut it: what is half said is not acted upon."""
        assert self.dialogue is not None
        budget = min(self.limits.max_turn_tokens, self._room())
        if budget <= 0:
            return None
        started = perf_counter()
        context = self.dialogue.ids
        sampled = await self.policy.turn(self.trace.episode, self.trace.turns, context, budget)
        seconds = perf_counter() - started
        self.trace.times.decode_s += seconds
        self.trace.sampled_turns.append(
            Turn(len(context), digest_of(context), len(sampled.ids), sampled.finish_reason, seconds)
        )
        self.trace.turns += 1
        text = self.dialogue.append_sampled(sampled.ids, sampled.logprobs)
        if sampled.finish_reason == "length":
            self.trace.messages.append({"role": "assistant", "content": text})
            return None
        parsed = self.dialogue.parse(text)
        ids = [f"call_{self.trace.turns}_{number}" for number in range(len(parsed.calls))]
        self.trace.messages.append(parsed.as_message(ids))
        return parsed

    async def _answer(self, parsed: ParsedTurn) -> list[Message]:
        """Every attempted call's answer, in order."""
        started = perf_counter()
        answers: list[Message] = []
        for calls in self._runs(parsed.calls):
            for result in await self._make(calls):
                answers.append(self._shown(result, len(answers)))
        self.trace.times.tools_s += perf_counter() - started
        self.trace.messages.extend(answers)
        return answers

    def _runs(self, calls: Sequence[ParsedCall]) -> Iterator[Sequence[ParsedCall]]:
        """A turn's calls in order: those that only read and follow each other together, any other alone."""
        for overlap, run in groupby(calls, self._may_overlap):
            together = list(run)
            yield from [together] if overlap else ([call] for call in together)

    def _may_overlap(self, call: ParsedCall) -> bool:
        return not call.error and is_allowed(call.name, self.seat.allowed_tools) and self.session.may_overlap(call.name)

    async def _make(self, calls: Sequence[ParsedCall]) -> Sequence[ToolResult]:
        if len(calls) == 1:
            return [await self._call(calls[0])]
        return await self.session.call_together([(call.name, call.arguments) for call in calls])

    def _shown(self, result: ToolResult, number: int) -> Message:
        self.trace.calls += 1
        self.trace.tool_errors += result.is_error
        result = replace(result, text=self.seat.limit(result.plain()), media=())
        return result_for_history(result, f"call_{self.trace.turns}_{number}")

    async def _call(self, call: ParsedCall) -> ToolResult:
        """A call that could not be read, or to a tool that was not offered, is answered here."""
        if call.error:
            return ToolResult(call.error, is_error=True)
        if not is_allowed(call.name, self.seat.allowed_tools):
            return unknown_tool(call.name, [tool.name for tool in self.tools]).result
        return await self.session.call(call.name, call.arguments)

    def _extend(self, answers: list[Message]) -> bool:
        """Append what the environment said; False when it does not fit the conversation's budget."""
        assert self.dialogue is not None
        return bool(self.dialogue.append_messages(answers, room=self._room()))

    def _room(self) -> int:
        assert self.dialogue is not None
        room = self.limits.max_tokens - len(self.dialogue.completion_ids)
        return room if self.seat.context is None else min(room, self.seat.context - len(self.dialogue.ids))

    def _keep_tokens(self) -> None:
        if self.dialogue is None:
            return
        trace, dialogue = self.trace, self.dialogue
        trace.prompt_ids, trace.completion_ids = list(dialogue.prompt_ids), list(dialogue.completion_ids)
        trace.sampled, trace.logprobs = list(dialogue.sampled), list(dialogue.logprobs)


#: What to do about a row without a prompt.
NO_PROMPT = "give it responses_create_params.input, or return the prompt's last message from the environment's reset"


def is_allowed(name: str, patterns: Iterable[str] | None) -> bool:
    """Whether a tool is offered to the policy: all are, or those that a pattern names."""
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)
