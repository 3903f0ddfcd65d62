"""Plays a scripted policy over a session: for the demo, the tests and the bench.

One yielded `Call` is one turn, and so is the final answer. At the turn limit the episode is cut, as a rollout's
would be, and still verified. A script never sees a failed session: playing stops there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..servers.policies import Call, EndTurn, Script
from ..servers.types import Ending, Message, Outcome, ToolResult
from .calls import call_for_history, result_for_history
from .session import Session, SessionFailed


@dataclass(slots=True)
class Played:
    """An episode that was played: its messages after the prompt, and exactly one of `outcome` and `failure`."""

    messages: list[Message] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    turns: int = 0
    outcome: Outcome | None = None
    failure: SessionFailed | None = None

    @property
    def masked(self) -> bool:
        return self.failure is not None

    @property
    def reward(self) -> float | None:
        return None if self.outcome is None else self.outcome.reward


async def drive(session: Session, script: Script, *, max_turns: int | None = None) -> Played:
    """Play to the end and verify. `max_turns` None: the environment's own limit. The session stays open."""
    limit = session.max_turns if max_turns is None else max_turns
    played = Played()
    try:
        ending = await _play(session, script, limit, played)
        played.outcome = await session.verify(played.messages, ending=ending)
    except SessionFailed as failure:
        played.failure = failure
    finally:
        script.close()
    return played


async def _play(session: Session, script: Script, limit: int | None, played: Played) -> Ending:
    try:
        step = next(script)
        while limit is None or played.turns < limit:
            played.turns += 1
            if isinstance(step, Call):
                result = await _call(session, step, played)
            else:
                result = await _end_turn(session, step, played)
            played.results.append(result)
            if session.done:
                return Ending.FINISHED
            step = script.send(result)
    except StopIteration as stop:
        if limit is not None and played.turns >= limit:
            return Ending.CUT
        played.turns += 1
        played.messages.append({"role": "assistant", "content": stop.value or ""})
        return Ending.FINISHED
    return Ending.CUT


async def _call(session: Session, step: Call, played: Played) -> ToolResult:
    call_id = f"call_{played.turns}"
    said = {"role": "assistant", "content": "", "tool_calls": [call_for_history(step.name, step.arguments, call_id)]}
    played.messages.append(said)
    result = await session.call(step.name, step.arguments)
    played.messages.append(result_for_history(result, call_id))
    return result


async def _end_turn(session: Session, step: EndTurn, played: Played) -> ToolResult:
    played.messages.append({"role": "assistant", "content": step.text})
    prompt = await session.end_turn(step.text)
    if prompt is not None:
        played.messages.append({"role": "user", "content": prompt})
    return ToolResult(prompt or "", done=prompt is None)
