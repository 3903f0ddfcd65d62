"""How a test reaches an environment on any wire, and how it plays one there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from gymwire.adapters import Connection, connect
from gymwire.adapters.drive import Played, drive
from gymwire.servers.types import Row

from tests.sandboxes import skip_without
from tests.worlds import BUNDLED, WORLDS

WIRES = ("local", "nemo-gym", "openenv", "mcp")
ENVIRONMENTS = BUNDLED | WORLDS


@asynccontextmanager
async def world(name: str, wire: str, url: str, **options: Any) -> AsyncIterator[Connection]:
    """A connection to one environment on one wire: the server at `url`, or this process."""
    skip_without(ENVIRONMENTS[name])
    sessions = options.pop("sessions", None)
    if wire == "local":
        opening = connect(ENVIRONMENTS[name], wire="local", sessions=sessions, **options)
    else:
        opening = connect(url, env=name, wire=wire, **options)
    async with opening as connection:
        yield connection


async def play(connection: Connection, name: str, policy: str, row: Row, *, index: int, split: str = "eval") -> Played:
    """Play one row of a split with a scripted policy; only the oracle sees the row's data."""
    seen = row if policy == "oracle" else Row(prompt=row.prompt)
    async with connection.session(split=split, index=index) as session:
        assert list(session.prompt) == list(row.prompt)
        return await drive(session, ENVIRONMENTS[name].policies[policy](seen, Random(index)))
