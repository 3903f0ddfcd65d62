"""One episode: the model's turns, the session's answers, the verdict; and the line that says how it went."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from time import perf_counter, time
from typing import Any

from ...servers.types import Ending, FailureKind, Json, Outcome, Stage, ToolResult
from ..calls import ParsedCall, ParsedTurn
from ..connect import Connection
from ..session import Session, SessionFailed, WrongRequest
from .answer import Answer, Usage
from .dialogue import NATIVE, Dialogue
from .model import ChatModel, ContextFull, ModelFailed
from .plan import Job, content_hash

#: A stage of ours that no session knows: the model's endpoint did not answer.
MODEL_STAGE = "model"
#: Turns of an episode where neither the environment nor the command line has a limit.
MOST_TURNS = 100
#: Calls of one turn that are out at once, however many the turn made.
MAX_TOGETHER = 16
NO_PROMPT = "give it responses_create_params.input, or return the prompt's last message from the environment's reset"


@dataclass(frozen=True, slots=True)
class Seat:
    """What every episode of a run plays with."""

    connection: Connection
    model: ChatModel
    parser: str = NATIVE
    max_turns: int | None = None
    seed: int | None = None
    keep_messages: bool = True


@dataclass(slots=True)
class Tokens:
    """As the endpoint counts them, summed over turns; None where it never said."""

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None

    def add(self, usage: Usage) -> None:
        self.prompt = _sum(self.prompt, usage.prompt)
        self.completion = _sum(self.completion, usage.completion)
        self.reasoning = _sum(self.reasoning, usage.reasoning)


def _sum(known: int | None, more: int | None) -> int | None:
    return known if more is None else (known or 0) + more


@dataclass(slots=True)
class Played:
    """An episode as it goes; exactly one of `outcome` and `failure` is set at its end."""

    job: Job
    hash: str = ""
    outcome: Outcome | None = None
    failure: Json | None = None
    cut_by: str = ""
    calls: int = 0
    tool_errors: int = 0
    calls_as_text: bool = False
    refused: bool = False
    tokens: Tokens = field(default_factory=Tokens)
    model_s: float = 0.0
    seconds: float = 0.0
    dialogue: Dialogue | None = None
    prompt: list[Json] = field(default_factory=list)

    def line(self, *, messages: bool) -> Json:
        """The episode as a line of `results.jsonl`."""
        outcome, dialogue = self.outcome, self.dialogue
        said = dialogue is not None and messages
        return {
            "row": self.job.row,
            "repeat": self.job.repeat,
            "name": self.job.source.name,
            "hash": self.hash,
            "group": self.job.group,
            "reward": None if outcome is None else outcome.reward,
            "components": {} if outcome is None else dict(outcome.components),
            "ending": "failed" if outcome is None else outcome.ending.value,
            "cut_by": self.cut_by,
            "failure": self.failure,
            "turns": 0 if dialogue is None else dialogue.turns,
            "calls": self.calls,
            "tool_errors": self.tool_errors,
            "calls_as_text": self.calls_as_text,
            "refused": self.refused,
            "tokens": {
                "prompt": self.tokens.prompt,
                "completion": self.tokens.completion,
                "reasoning": self.tokens.reasoning,
            },
            "seconds": round(self.seconds, 3),
            "model_s": round(self.model_s, 3),
            "at": round(time(), 3),
            "disagreements": [] if outcome is None else list(outcome.disagreements),
            **({"prompt": self.prompt, "messages": dialogue.record()} if said and dialogue else {}),
        }


async def play(seat: Seat, job: Job) -> Played:
    """Play one episode. What breaks on our side is in `failure`. Raises `ModelRefused`, and nothing else of its own."""
    played = Played(job)
    started = perf_counter()
    try:
        await _Attempt(seat, played).run()
    except SessionFailed as failure:
        played.failure = _failure(failure.kind, failure.reason, failure.stage)
    except ModelFailed as failure:
        played.failure = _failure(failure.kind, failure.reason, MODEL_STAGE, refused=failure.rejected)
    except WrongRequest as error:
        played.failure = _failure(FailureKind.AGENT_RUN_ERROR, str(error), Stage.SEED, refused=True)
    played.seconds = perf_counter() - started
    return played


def _failure(kind: str, reason: str, stage: str, *, refused: bool = False) -> Json:
    """`refused`: a request that will not do better when it is made again."""
    return {"kind": str(kind), "reason": reason, "stage": str(stage), "refused": refused}


class _Attempt:
    def __init__(self, seat: Seat, played: Played) -> None:
        self.seat, self.played, self.job = seat, played, played.job

    async def run(self) -> None:
        source = self.job.source
        seed = self.seat.seed if self.job.seed is None else self.job.seed
        seeding = self.seat.connection.session(row=source.row, split=source.split, index=source.index, seed=seed)
        async with seeding as session:
            dialogue = self._begin(session)
            ending = await self._turns(session, dialogue)
            self.played.outcome = await session.verify(dialogue.messages, ending=ending)

    def _begin(self, session: Session) -> Dialogue:
        played = self.played
        played.prompt = list(session.prompt)
        played.hash = content_hash(self.job.source, session.prompt, session.tools)
        if not session.prompt:
            raise WrongRequest(f"row {self.job.row} has no prompt: {NO_PROMPT}")
        played.dialogue = Dialogue(session.prompt, session.tools, self.seat.parser)
        return played.dialogue

    async def _turns(self, session: Session, dialogue: Dialogue) -> Ending:
        """Play until the policy stops or a budget is spent."""
        limit = min(filter(None, (self.seat.max_turns, session.max_turns)), default=MOST_TURNS)
        while dialogue.turns < limit:
            parsed = await self._sample(dialogue)
            if parsed is None:
                return Ending.CUT
            if parsed.calls:
                dialogue.tell(await self._make(session, parsed.calls))
                if session.done:
                    return Ending.FINISHED
            else:
                prompt = await session.end_turn(parsed.content)
                if prompt is None:
                    return Ending.FINISHED
                dialogue.ask(prompt)
        self.played.cut_by = "turns"
        return Ending.CUT

    async def _sample(self, dialogue: Dialogue) -> ParsedTurn | None:
        """The model's next turn; None where a budget of tokens cut it."""
        started = perf_counter()
        try:
            answer = await self.seat.model.turn(dialogue.sent, dialogue.offered, self._seed(dialogue.turns))
        except ContextFull as full:
            if not dialogue.turns and not self.seat.model.answered:  # nothing fits yet: a setting, not a long episode
                raise ModelFailed(FailureKind.AGENT_REQUEST_FAILED, str(full), rejected=True) from None
            self.played.cut_by = "context"
            return None
        finally:
            self.played.model_s += perf_counter() - started
        self.played.tokens.add(answer.usage)
        if answer.finish_reason == "length":
            dialogue.take_cut(answer)
            self.played.cut_by = "tokens"
            return None
        parsed = dialogue.take(answer)
        self._note(answer, parsed)
        return parsed

    def _note(self, answer: Answer, parsed: ParsedTurn) -> None:
        self.played.refused = answer.refusal or answer.finish_reason == "content_filter"
        as_text = self.seat.parser == NATIVE and not parsed.calls and "<tool_call>" in parsed.content
        self.played.calls_as_text = self.played.calls_as_text or as_text

    def _seed(self, turn: int) -> int | None:
        """A request's sampling seed: repeats of a row differ, and the same episode draws the same again."""
        if self.seat.seed is None:
            return None
        name = f"{self.job.source.name}:{self.seat.seed}:{self.job.repeat}:{turn}"
        return int.from_bytes(sha256(name.encode()).digest()[:4], "big") & 0x7FFF_FFFF

    # ---- calls

    async def _make(self, session: Session, calls: Sequence[ParsedCall]) -> list[ToolResult]:
        """Every attempted call's result, in order. The session itself lets calls that only read overlap."""
        slots = asyncio.Semaphore(MAX_TOGETHER)

        async def one(call: ParsedCall) -> ToolResult:
            if call.error:
                return ToolResult(call.error, is_error=True)
            async with slots:
                return await session.call(call.name, call.arguments)

        results = await _all_of([one(call) for call in calls])
        self.played.calls += len(results)
        self.played.tool_errors += sum(result.is_error for result in results)
        return results


async def _all_of(calls: Sequence[Coroutine[Any, Any, ToolResult]]) -> list[ToolResult]:
    """Begun in their order; an error is raised once all have ended; a failed session answers the rest at once."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, ToolResult)]
