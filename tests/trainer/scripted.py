"""A scripted policy of token ids, and a dialogue whose tokens are bytes: rollouts without a tokenizer or an engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gymwire.adapters import Connection, connect
from gymwire.adapters.calls import ParsedTurn, parse_hermes
from gymwire.adapters.session import SessionFailed
from gymwire.servers.environments.codebook import Codebook
from gymwire.servers.types import Message, Tool
from gymwire.trainer.config import Failures, Rollout
from gymwire.trainer.rollout import Player, Seat, seed_of
from gymwire.trainer.rows import Episode, RowBook

END = 0

#: What a policy says next: given the episode, the number of its turn and the whole dialogue as text.
Say = Callable[[Episode, int, str], str]


class BytesDialogue:
    """The dialogue as bytes; 0 ends a turn."""

    def __init__(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> None:
        self.prompt_ids = encode("".join(_written(message) for message in messages))
        self.completion_ids: list[int] = []
        self.sampled: list[int] = []
        self.logprobs: list[float] = []

    @property
    def ids(self) -> list[int]:
        return self.prompt_ids + self.completion_ids

    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> str:
        self._append(ids, 1, logprobs)
        return decode(ids)

    def parse(self, text: str) -> ParsedTurn:
        return parse_hermes(text)

    def append_messages(self, messages: Sequence[Message], *, room: int | None = None) -> list[int]:
        ids = encode("".join(_written(message) for message in messages))
        if room is not None and len(ids) > room:
            return []
        self._append(ids, 0, [0.0] * len(ids))
        return ids

    def _append(self, ids: Sequence[int], sampled: int, logprobs: Sequence[float]) -> None:
        self.completion_ids += ids
        self.sampled += [sampled] * len(ids)
        self.logprobs += logprobs


def _written(message: Message) -> str:
    return f"\n{message['role']}: {message['content']}\n"


def encode(text: str) -> list[int]:
    return [byte + 1 for byte in text.encode()]


def decode(ids: Sequence[int]) -> str:
    return bytes(index - 1 for index in ids if index != END).decode()


@dataclass(frozen=True, slots=True)
class Turn:
    ids: list[int]
    logprobs: list[float]
    finish_reason: str


@dataclass(slots=True)
class Scripted:
    """Says what a script says; a turn that does not fit is cut as an engine would cut it."""

    say: Say
    encode: Callable[[str], list[int]] = encode
    decode: Callable[[Sequence[int]], str] = decode
    end: int = END
    pause_s: float = 0.0
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Turn:
        self.asked.append((str(episode.id), turn))
        if self.pause_s:
            await asyncio.sleep(self.pause_s)
        said = [*self.encode(self.say(episode, turn, self.decode(ids))), self.end]
        reason = "stop" if len(said) <= max_tokens else "length"
        said = said[:max_tokens]
        return Turn(said, [-0.5] * len(said), reason)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def codebook(episode: Episode, turn: int, text: str) -> str:
    """Looks up none, one or both keys, as the episode's own seed decides, and submits."""
    first, second = re.findall(r"code of (\w+) and (\w+),", text)[-1]
    lookups = [first, second][: seed_of(episode.id, 0) % 3]
    if turn < len(lookups):
        return call("lookup", key=lookups[turn])
    seen = re.findall(r"(?:tool:|<tool_response>)\s+(\d)\b", text)
    code = [*map(int, seen), 0, 0]
    return call("submit", first=code[0], second=code[1])


def train_book(count: int = 16) -> RowBook:
    return RowBook.of_rows(list(Codebook.rows("train", count, 0)))


@dataclass(slots=True)
class Played:
    """A player, and the failures it reported."""

    player: Player
    policy: Scripted
    failures: list[tuple[str, SessionFailed, str]] = field(default_factory=list)


def player_on(connection: Connection, say: Say = codebook, *, slots: int = 16, **options: Any) -> Played:
    """options: fields of `Rollout` and `Failures`, and of `Seat`."""
    limits = Rollout(**{key: options.pop(key) for key in list(options) if key in Rollout.model_fields})
    failures = Failures(**{key: options.pop(key) for key in list(options) if key in Failures.model_fields})
    reported: list[tuple[str, SessionFailed, str]] = []

    def report(episode: Episode, failure: SessionFailed, tool: str) -> None:
        reported.append((str(episode.id), failure, tool))

    policy = Scripted(say)
    seat = Seat(connection, BytesDialogue, limits, failures, on_failure=report, **options)
    return Played(Player(seat, policy, slots), policy, reported)


@asynccontextmanager
async def playing(environment: Any = Codebook, say: Say = codebook, **options: Any):
    """In this process: `options` as for `player_on`."""
    async with connect(environment) as connection:
        yield player_on(connection, say, **options)
