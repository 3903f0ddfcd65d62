"""One episode, from its prompt to its reward: the policy's tokens, the tools' answers, and how it ended.

An episode is a coroutine; the engine batches whatever is ready, so tools overlap decoding. Token ids are only ever
appended. A failed session is recovered by replay, else the episode begins anew, else it comes back failed: without
a reward, and so without a vote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from time import perf_counter
from typing import Protocol

from ..adapters.calls import ParsedTurn, result_for_history
from ..adapters.connect import Connection
from ..adapters.session import Session, SessionFailed
from ..servers.types import Ending, EpisodeId, Json, Message, Outcome, Row, ToolResult
from .config import Failures, Rollout
from .engine import Engine, Sampled
from .resilient import ResilientSession
from .tokens import Dialogue


@dataclass(frozen=True, slots=True)
class Episode:
    """What is to be played: a row, under a name that makes its sampling reproducible."""

    id: EpisodeId
    row: Row
    greedy: bool = False


@dataclass(slots=True)
class Times:
    """Where an episode's seconds went; `wait_s` is for a session slot."""

    decode_s: float = 0.0
    tools_s: float = 0.0
    wait_s: float = 0.0
    verify_s: float = 0.0


@dataclass(slots=True)
class Trace:
    """An episode that was played. Exactly one of `outcome` and `failure` is set.

    `completion_ids`, `sampled` and `logprobs` have one entry a token after the prompt.
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

    @property
    def reward(self) -> float | None:
        return None if self.outcome is None else self.outcome.reward


class Policy(Protocol):
    """Samples one turn: the engine, or a script of token ids in tests."""

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Sampled: ...


#: Reads a turn's text into what was said and which calls were attempted.
ParseTurn = Callable[[str], ParsedTurn]
#: Told of every failure as it happens: the episode, what failed, and the tool that was called.
OnFailure = Callable[[Episode, SessionFailed, str], None]


class EnginePolicy:
    """The colocated engine as a policy. Sampling is seeded per request, from the episode's name and the turn."""

    def __init__(
        self,
        engine: Engine,
        stop_token_ids: Sequence[int],
        *,
        temperature: float,
        top_p: float,
        top_k: int,
        min_p: float,
    ):
        self.engine, self.stop_token_ids = engine, list(stop_token_ids)
        self.temperature, self.top_p, self.top_k, self.min_p = temperature, top_p, top_k, min_p

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Sampled:
        return await self.engine.sample(
            ids,
            max_tokens=max_tokens,
            seed=seed_of(episode.id, turn),
            temperature=0.0 if episode.greedy else self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            stop_token_ids=self.stop_token_ids,
        )


def seed_of(episode: EpisodeId, turn: int) -> int:
    """A request's sampling seed. A recovered or replayed turn draws what the undisturbed one drew."""
    name = f"{episode.row}:{episode.seed}:{episode.sample}:{turn}"
    return int.from_bytes(sha256(name.encode()).digest()[:4], "big") & 0x7FFF_FFFF


class Player:
    """Plays episodes on one connection, as many at once as `max_concurrent` allows."""

    def __init__(
        self,
        connection: Connection,
        policy: Policy,
        dialogue: Callable[[Sequence[Message], Sequence[Json]], Dialogue],
        parse: ParseTurn,
        limits: Rollout,
        failures: Failures,
        max_concurrent: int,
        on_failure: OnFailure = lambda episode, failure, tool: None,
    ) -> None:
        self.connection, self.policy, self.dialogue, self.parse = connection, policy, dialogue, parse
        self.limits, self.failures, self.on_failure = limits, failures, on_failure
        self._slots = asyncio.Semaphore(max_concurrent)

    async def play_all(self, episodes: Sequence[Episode]) -> list[Trace]:
        """Play many at once. An error that is no session's (the engine's) ends all of them and is raised."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.play(episode)) for episode in episodes]
        return [task.result() for task in tasks]

    async def play(self, episode: Episode) -> Trace:
        waited = perf_counter()
        async with self._slots:
            waited = perf_counter() - waited
            trace = Trace(episode)
            for attempt in range(self.failures.max_retries + 1):
                trace = Trace(replace(episode, id=replace(episode.id, attempt=attempt)), retried=attempt)
                trace.times.wait_s = waited
                await _Attempt(self, trace).run()
                if trace.failure is None:
                    break
            return trace


class _Attempt:
    """One try at an episode, recorded in its trace."""

    def __init__(self, player: Player, trace: Trace) -> None:
        self.player, self.trace, self.limits = player, trace, player.limits
        self.session = ResilientSession(self._seed, player.failures.recover, player.limits.tool_timeout_s, self._report)
        self.dialogue: Dialogue | None = None

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
            trace.recovered = self.session.recovered
            await self.session.close()
            self._keep_tokens()

    async def _seed(self) -> Session:
        """A session of its own name: a server that outlives the run has seen this episode's before."""
        episode = self.trace.episode
        return await self.player.connection.session(row=episode.row, seed=episode.id.seed)

    def _report(self, failure: SessionFailed, tool: str) -> None:
        self.player.on_failure(self.trace.episode, failure, tool)

    async def _begin(self) -> None:
        try:
            await self.session.begin()
        except SessionFailed as failure:
            self._report(failure, "")
            raise
        trace = self.trace
        trace.prompt = list(self.session.prompt)
        trace.tools = [tool.as_chat() for tool in self.session.tools]
        self.dialogue = self.player.dialogue(trace.prompt, trace.tools)

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
                answers = [{"role": "user", "content": prompt}]
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
        sampled = await self.player.policy.turn(self.trace.episode, self.trace.turns, self.dialogue.ids, budget)
        self.trace.times.decode_s += perf_counter() - started
        self.trace.turns += 1
        text = self.dialogue.append_sampled(sampled.ids, sampled.logprobs)
        if sampled.finish_reason == "length":
            self.trace.messages.append({"role": "assistant", "content": text})
            return None
        parsed = self.player.parse(text)
        ids = [f"call_{self.trace.turns}_{number}" for number in range(len(parsed.calls))]
        self.trace.messages.append(parsed.as_message(ids))
        return parsed

    async def _answer(self, parsed: ParsedTurn) -> list[Message]:
        """Every attempted call's answer, in order. A call that could not be read is answered here."""
        started = perf_counter()
        answers = []
        for number, call in enumerate(parsed.calls):
            if call.error:
                result = ToolResult(call.error, is_error=True)
            else:
                result = await self.session.call(call.name, call.arguments)
            self.trace.calls += 1
            self.trace.tool_errors += result.is_error
            answers.append(result_for_history(result, f"call_{self.trace.turns}_{number}"))
        self.trace.times.tools_s += perf_counter() - started
        self.trace.messages.extend(answers)
        return answers

    def _extend(self, answers: list[Message]) -> bool:
        """Append what the environment said; False when it does not fit the conversation's budget."""
        assert self.dialogue is not None
        if self.trace.messages[-1] is not answers[-1]:
            self.trace.messages.extend(answers)
        return self.dialogue.append_messages(answers, room=self._room())

    def _room(self) -> int:
        assert self.dialogue is not None
        return self.limits.max_tokens - len(self.dialogue.completion_ids)

    def _keep_tokens(self) -> None:
        if self.dialogue is None:
            return
        trace, dialogue = self.trace, self.dialogue
        trace.prompt_ids, trace.completion_ids = list(dialogue.prompt_ids), list(dialogue.completion_ids)
        trace.sampled, trace.logprobs = list(dialogue.sampled), list(dialogue.logprobs)
