"""Rewards verified again: an episode's recorded calls are made on a fresh session of the same row and seed.

Their answers and the verdict must be the recorded ones. Where they are not, the episode is replayed once more: an
environment whose two replays differ does not repeat itself, which says nothing about the trace, and is said as such.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass

from ..adapters.connect import Connection
from ..adapters.session import Session, SessionFailed, WrongRequest
from ..servers.types import Ending, ToolResult
from .audit import Check, name_of
from .rollout import is_allowed
from .rows import RowBook, Source
from .trajectories import Record, answer_digest

NAME = "reward"
FORGETFUL = "the environment does not repeat itself"
GONE = "the row is no longer there"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a replay showed: where it first differed from the record, and a name for all that was answered."""

    difference: str | None
    answers: tuple[object, ...]


class Reverifier:
    """Replays on an open connection, at most `max_concurrent` at once and `timeout_s` for each step."""

    def __init__(
        self,
        connection: Connection,
        book: RowBook,
        *,
        max_concurrent: int,
        timeout_s: float,
        allowed_tools: Sequence[str] | None = None,
    ) -> None:
        self.connection, self.book, self.timeout_s, self.allowed_tools = connection, book, timeout_s, allowed_tools
        self._slots = asyncio.Semaphore(max_concurrent)

    async def check(self, records: Sequence[Record]) -> Check:
        """All scored records; what disagrees is told in their order, whichever replay ended first."""
        scored = [record for record in records if record["reward"] is not None]
        async with asyncio.TaskGroup() as group:
            checked = [group.create_task(self._check_one(record)) for record in scored]
        check = Check(NAME)
        for one in checked:
            check.add(one.result())
        return check

    async def _check_one(self, record: Record) -> Check:
        check = Check(NAME)
        source = self.book.by_name.get(record["row"])
        if source is None:
            check.skip(GONE)
            return check
        async with self._slots:
            try:
                difference = await self._difference(record, source)
            except (SessionFailed, WrongRequest, TimeoutError) as error:
                check.skip(f"its replay failed: {str(error) or f'no answer within {self.timeout_s:g} s'}")
                return check
        if difference == FORGETFUL:
            check.skip(FORGETFUL)
            return check
        check.episodes += 1
        if difference is not None:
            check.disagreements.append(f"{name_of(record)}: {difference}")
        return check

    async def _difference(self, record: Record, source: Source) -> str | None:
        first = await self._replay(record, source)
        if first.difference is None:
            return None
        again = await self._replay(record, source)
        return first.difference if again.answers == first.answers else FORGETFUL

    async def _replay(self, record: Record, source: Source) -> Seen:
        seeding = self.connection.session(row=source.row, split=source.split, index=source.index, seed=record["seed"])
        async with seeding as session:
            return await self._follow(record, session)

    async def _follow(self, record: Record, session: Session) -> Seen:
        """All recorded steps, though an earlier one was answered otherwise."""
        offered = [tool.as_chat() for tool in session.tools if is_allowed(tool.name, self.allowed_tools)]
        prompt, tools = json.loads(json.dumps([session.prompt, offered]))
        found: list[str] = []
        answers: list[object] = [prompt, tools]
        if prompt != record["prompt"]:
            found.append("seeded again, its row has another prompt")
        if tools != record["tools"]:
            found.append("seeded again, its row offers other tools")
        for number, call in enumerate(record["calls"]):
            async with asyncio.timeout(self.timeout_s):
                answer = await _repeat(session, call)
            answers.append(answer)
            if answer_digest(answer) != call["digest"]:
                found.append(_said(number, call, answer))
        async with asyncio.timeout(self.timeout_s):
            outcome = await session.verify(record["messages"], ending=Ending(record["ending"]))
        answers += [outcome.reward, dict(outcome.components)]
        if outcome.reward != record["reward"]:
            found.append(f"the verdict on it is {outcome.reward}, and the recorded reward {record['reward']}")
        elif dict(outcome.components) != record["components"]:
            found.append(f"the verdict on it has the components {dict(outcome.components)}, not the recorded ones")
        return Seen(found[0] if found else None, tuple(answers))


async def _repeat(session: Session, call: Record) -> ToolResult | str | None:
    if call["tool"]:
        return await session.call(call["tool"], call["argument"])
    return await session.end_turn(call["argument"])


def _said(number: int, call: Record, answer: object) -> str:
    text = str(getattr(answer, "text", answer))[:60]
    what = f"call {number} ({call['tool']})" if call["tool"] else f"the end of a turn ({number})"
    return f"{what} is answered {text!r}, and {str(call['text'])[:60]!r} was recorded"


def spread(records: Sequence[Record], count: int) -> list[Record]:
    """At most so many of the episodes with a reward, from everywhere among them."""
    scored = [record for record in records if record["reward"] is not None]
    stride = max(-(-len(scored) // count), 1)
    return scored[::stride]
