"""What a policy can say reaches the environment's tools and nothing else: no seed, no verify, no close, no next prompt.

An agent posts whatever name its model emits, with whatever arguments; so everything here goes out on the raw wires,
with the session's own cookie, header or socket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from gymwire.servers.environment import RESERVED_NAMES
from gymwire.servers.session import Session
from gymwire.servers.types import SessionState

from tests.servers.faces.live import Live, live
from tests.servers.faces.mcp_clients import Raw
from tests.wires import WIRES, world
from tests.worlds import Kit

CONTROLS = sorted(RESERVED_NAMES | {"openenv/session/close", "openenv/session/create", "initialize", "close", "_at"})
ARGUMENTS: list[Any] = [
    {},
    {"response": {"output": []}},
    {"answer": "42", "messages": [], "ending": "cut"},
    {"row": {"responses_create_params": {"input": "x"}, "first": [], "later": []}},
    {"split": "train", "index": 0},
    {"seed": 5},
    {"resources_session_id": ""},
    {"verify_responses": []},
    {"metadata": {"control": True}},
    {"episode_id": "x", "session_id": "x", "session": "x"},
]
Say = Callable[[str, Any], Awaitable[Any]]


@asynccontextmanager
async def gym(server: Live) -> AsyncIterator[tuple[Session, Say]]:
    async with aiohttp.ClientSession(server.url + "/kit/gym/", cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        async with http.post("seed_session", json={"split": "eval", "index": 0}) as answer:
            assert answer.status == 200
        (session,) = server.sessions.store

        async def say(name: str, arguments: Any) -> Any:
            async with http.post(name, json=arguments) as answer:
                assert 400 <= answer.status < 500 or name == "aggregate_metrics", (name, answer.status)
                return answer.status, await answer.text()

        yield session, say


@asynccontextmanager
async def openenv(server: Live) -> AsyncIterator[tuple[Session, Say]]:
    async with aiohttp.ClientSession() as http, http.ws_connect(server.url + "/kit/openenv/ws") as socket:

        async def ask(message: Any) -> Any:
            await socket.send_str(json.dumps(message))
            return json.loads(await socket.receive_str(timeout=10))

        assert (await ask({"type": "reset", "data": {"split": "eval", "index": 0}}))["type"] == "observation"
        (session,) = server.sessions.store

        async def say(name: str, arguments: Any) -> Any:
            answer = await ask(
                {"type": "step", "data": {"type": "call_tool", "tool_name": name, "arguments": arguments}}
            )
            assert answer["data"].get("done") is not True, answer
            return answer

        yield session, say


@asynccontextmanager
async def mcp(server: Live) -> AsyncIterator[tuple[Session, Say]]:
    seeded = await Raw(server.url + "/kit/mcp").call("seed_session", {"split": "eval", "index": 0})
    handle = json.loads(seeded["content"][0]["text"])["session"]
    (session,) = server.sessions.store

    async def say(name: str, arguments: Any) -> Any:
        answer = await Raw(server.url + "/kit/mcp", handle).call(name, arguments)
        assert answer["isError"] is True, answer
        return answer

    yield session, say


@asynccontextmanager
async def gym_door(server: Live) -> AsyncIterator[tuple[Session, Say]]:
    """NeMo Gym's MCP door: the handle travels in the headers that the seed answered."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        url = server.url + "/kit/gym/seed_session"
        async with http.post(url, json={"split": "eval"}, headers={"X-Gymwire-Tools": "mcp"}) as answer:
            access = (await answer.json())["mcp"]
    (session,) = server.sessions.store
    raw = Raw(f"{server.url}/kit/gym{access['url_path']}", **access["headers"])

    async def say(name: str, arguments: Any) -> Any:
        answer = await raw.call(name, arguments)
        assert answer["isError"] is True, answer
        return answer

    yield session, say


DOORS = {"nemo-gym": gym, "openenv": openenv, "mcp": mcp, "nemo-gym's mcp": gym_door}


@pytest.mark.parametrize("door", DOORS)
async def test_no_name_and_no_arguments_reach_a_control_call(door: str) -> None:
    async with live(Kit) as server, DOORS[door](server) as (session, say):
        environment: Any = session.environment
        for name in CONTROLS:
            for arguments in ARGUMENTS:
                await say(name, arguments)
                assert session.state in (SessionState.SEEDED, SessionState.ACTIVE), (name, arguments)
                assert session.environment is environment and session.outcome is None
                assert environment.waiting == ["later-0", "last"], "a turn was ended"
                assert len(server.sessions.store) == 1, "a session was seeded"
        assert server.sessions.metrics.failures._metrics == {}


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_policy_that_knows_its_handle_still_cannot_use_it_as_an_argument(wire: str) -> None:
    async with live(Kit) as server, DOORS[wire](server) as (session, say):
        for name in ("verify", "close_session", "end_turn", "seed_session"):
            await say(name, {"session": session.handle})
            await say(name, {"session_id": session.handle, "resources_session_id": ""})
        assert session.state is not SessionState.VERIFIED and session.state is not SessionState.CLOSED


@pytest.mark.parametrize("wire", WIRES)
async def test_the_adapters_answer_unlisted_names_themselves(wire: str, worlds: str) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        for name in CONTROLS:
            result = await session.call(name, {})
            assert result.is_error and "There is no tool called" in result.text
        assert not session.done and (await session.call("count")).text == "0"
        assert (await session.verify()).reward == 0.125


async def test_control_calls_are_not_among_the_tools_of_a_session(worlds: str) -> None:
    for wire in WIRES:
        async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
            assert {tool.name for tool in session.tools} == set(Kit.tool_specs)
