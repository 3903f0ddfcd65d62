"""Sessions that only one of several replicas can serve begin where something sends their requests there, and nowhere
else; alone, a replica serves them on every wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from gymwire.adapters import connect
from gymwire.servers.environments.counter import Counter
from gymwire.servers.gateway import Gateway
from gymwire.servers.sessions import Limits
from gymwire.servers.shared import fleet
from gymwire.servers.shared.line import Address
from gymwire.servers.shared.sessions import SharedSessions

from tests.pinned import Pinned
from tests.servers.faces.live import live

from .conftest import RedisServer

WIRES = ("nemo-gym", "openenv", "mcp")
ROW = {"split": "eval", "index": 0}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": ROW}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica does not take others for dead at first."""
    monkeypatch.setattr(fleet, "GRACE_S", -fleet.THERE_MS / 1000)


@asynccontextmanager
async def several(redis: RedisServer, gateway: Gateway) -> AsyncIterator[tuple[str, Callable[[], Awaitable[None]]]]:
    """The URL of one of two replicas, and what ends the other one."""
    one, two = (SharedSessions(Address.read(redis.url), Limits(), timeout_s=5.0, gateway=gateway) for _ in range(2))
    await two.open()
    try:
        async with live(Pinned, Counter, sessions=one) as running:
            assert len(one.fleet.seen.others) == 1

            async def alone() -> None:
                await two.drain(1.0)
                async with asyncio.timeout(10):
                    while one.fleet.seen.others:
                        await asyncio.sleep(0.02)

            yield running.url, alone
    finally:
        await two.drain(1.0)


async def begun(url: str, name: str, way: str) -> str:
    """Empty where a session begins that way; else why not."""
    try:
        await WAYS[way](url, name)
    except Exception as error:
        return str(error)
    return ""


async def on(wire: str, url: str, name: str) -> None:
    async with connect(url, env=name, wire=wire) as connection, connection.session(**ROW) as session:
        await session.call("add", {"n": 1})


async def post(url: str, path: str, body: Any) -> Any:
    async with aiohttp.ClientSession() as http, http.post(f"{url}/{path}", json=body) as answer:
        said = await answer.json()
        if answer.status != 200 or "error" in said:
            raise ValueError(said)


WAYS: dict[str, Callable[[str, str], Awaitable[Any]]] = {
    "nemo-gym": lambda url, name: on("nemo-gym", url, name),
    "openenv": lambda url, name: on("openenv", url, name),
    "mcp": lambda url, name: on("mcp", url, name),
    "POST /reset": lambda url, name: post(url, f"{name}/openenv/reset", ROW),
    "POST /mcp": lambda url, name: post(url, f"{name}/openenv/mcp", BEGIN),
}


@pytest.mark.parametrize(
    ("gateway", "found"),
    [
        (Gateway.NONE, {"openenv"}),
        (Gateway.HEADERS, {"openenv", "nemo-gym", "POST /reset"}),
        (Gateway.BODIES, {"openenv", "nemo-gym", "POST /reset", "mcp"}),
    ],
)
async def test_a_session_begins_where_its_requests_will_find_it(
    redis_server: RedisServer, gateway: Gateway, found: set[str]
) -> None:
    async with several(redis_server, gateway) as (url, alone):
        why = {way: await begun(url, "pinned", way) for way in WAYS}
        assert {way for way, refused in why.items() if not refused} == found
        assert all("stay in one of 2 replicas" in refused for refused in why.values() if refused)
        assert "seed_refused" in why["POST /mcp"] and "use a WebSocket" in why["POST /mcp"]
        moving = {way: await begun(url, "counter", way) for way in WAYS}
        assert {way for way, refused in moving.items() if not refused} == found | set(WIRES), "OpenEnv's POST stays"
        await alone()
        assert [await begun(url, "pinned", way) for way in WAYS] == [""] * len(WAYS)
