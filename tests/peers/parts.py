"""What the scripted model plays: a row, the policy that plays it, and what the same episode earns in-process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

from gymwire.servers import Environment, Row, ToolResult
from gymwire.servers.catalog import Served
from gymwire.servers.policies import Call
from gymwire.servers.rows import generated_rows, row_line
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Sessions
from gymwire.servers.types import Json, Message, Outcome

POLICIES = ("oracle", "rule")


@dataclass(frozen=True, slots=True)
class Part:
    """One row and the policy that plays it. Only the oracle sees the task data."""

    environment: type[Environment]
    row: Row
    policy: str

    @property
    def prompt(self) -> str:
        return self.row.prompt[-1]["content"]

    def move(self, results: Sequence[str]) -> Call | str:
        """What the policy does after these tool results: its next call, or its final answer.

        The policy is played anew up to there, so that whoever asks needs no memory. One that cannot read a
        result (that of a broken session says only that the tool is unavailable) gives up.
        """
        seen = self.row if self.policy == "oracle" else Row(prompt=self.row.prompt)
        script = self.environment.policies[self.policy](seen, Random(0))
        try:
            move = next(script)
            for text in results:
                move = script.send(ToolResult(text))
        except StopIteration as stop:
            return stop.value
        except ValueError:
            return "I give up."
        assert isinstance(move, Call)
        return move

    def to_json(self) -> Json:
        """The row as a rows file has it, with the environment's tools."""
        return json.loads(row_line(self.row, [spec.tool for spec in self.environment.tool_specs.values()]))


def parts_of(
    environment: type[Environment], count: int, split: str = "train", policies: Sequence[str] = POLICIES
) -> list[Part]:
    """The split's first rows, dealt to the policies: the first half (or third …) to the first, and so on."""
    rows = list(generated_rows(environment, split, count))
    return [Part(environment, row, policies[index * len(policies) // count]) for index, row in enumerate(rows)]


@dataclass(frozen=True, slots=True)
class Record:
    """An episode without any wire, in this process's own session engine."""

    tools: Sequence[str]
    calls: Sequence[Call]
    texts: Sequence[str]
    messages: Sequence[Message]
    outcome: Outcome


async def record(part: Part) -> Record:
    sessions, served = Sessions(), Served(part.environment)
    session = await sessions.seed(served, SeedRequest(row=part.row))
    tools = [tool.name for tool in session.tools]
    calls: list[Call] = []
    texts: list[str] = []
    while not isinstance(move := part.move(texts), str):
        answer = await session.call(move.name, json.dumps(move.arguments).encode())
        calls.append(move)
        texts.append(answer.result.text)
    messages = _messages(calls, texts, move)
    outcome = await session.verify(messages)
    await sessions.drain()
    await served.close()
    return Record(tools, calls, texts, messages, outcome)


def _messages(calls: Sequence[Call], texts: Sequence[str], answer: str) -> list[Message]:
    messages: list[Message] = []
    for number, (call, text) in enumerate(zip(calls, texts, strict=True)):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        made = {"id": str(number), "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [made]})
        messages.append({"role": "tool", "tool_call_id": str(number), "content": text})
    return [*messages, {"role": "assistant", "content": answer}]


async def played(parts: Iterable[Part]) -> list[Outcome]:
    return [(await record(part)).outcome for part in parts]
