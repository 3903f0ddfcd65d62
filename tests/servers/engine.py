"""The session engine as its tests drive it: a clock they set, and helpers that read like sentences."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from gymwire.servers import Environment, Row, Transcript, tool
from gymwire.servers.answers import Answer, Refused
from gymwire.servers.catalog import Served
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.session import Session
from gymwire.servers.sessions import Limits, Sessions


class Engine(Sessions):
    """Sessions whose clock stands still until a test moves it."""

    def __init__(self, **limits: Any) -> None:
        super().__init__(Limits(**limits))
        self.time_s = 1_000.0

    def now(self) -> float:
        return self.time_s

    async def start(self, what: type[Environment] | Served, row: Row | None = None, **asked: Any) -> Session:
        """Seed one session; `asked` are the fields of a `SeedRequest`, or `owner`."""
        owner = asked.pop("owner", "")
        served = what if isinstance(what, Served) else Served(what)
        given = row if row is not None or asked.keys() & {"split", "index", "seed"} else Row()
        return await self.seed(served, SeedRequest(row=given, **asked), owner=owner)

    @property
    def all_free(self) -> bool:
        return self.slots.free == self.slots.size


class Notes(Environment):
    """Writes down what it is told; worth the number of notes."""

    def reset(self, row: Row) -> None:
        self.notes: list[str] = []

    @tool
    async def note(self, text: str) -> int:
        """Write a note."""
        self.notes.append(text)
        return len(self.notes)

    def verify(self, transcript: Transcript) -> float:
        return float(len(self.notes))


async def call(session: Session, name: str, _key: str | None = None, /, **arguments: Any) -> Answer:
    return await session.call(name, json.dumps(arguments).encode(), _key)


async def refused(work: Any) -> Refused:
    """What some work is refused with."""
    try:
        await work
    except Refused as refusal:
        return refusal
    raise AssertionError("it was not refused")


async def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Let the loop turn until something holds."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "it never came true"
        await asyncio.sleep(0.001)
