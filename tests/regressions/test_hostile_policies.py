"""What a policy, or a client that is not careful, could do to get rid of a score, or to be given a wrong one."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from gymwire.servers import Environment, Transcript, tool
from gymwire.servers.answers import Code
from gymwire.servers.catalog import Served
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.session import MAX_ARGUMENT_BYTES, MAX_ID_CHARACTERS
from gymwire.servers.sessions import Sessions
from gymwire.servers.types import Row, SessionState
from pydantic import BaseModel

from tests.servers.faces.live import live
from tests.servers.faces.mcp_clients import Raw
from tests.wires import WIRES, world
from tests.worlds import Kit


class Point(BaseModel):
    x: float


class Sums(Environment):
    """Takes numbers in every way, and trusts them to be finite."""

    @tool
    async def plain(self, x: float) -> int:
        return int(x)

    @tool
    async def nested(self, x: Point) -> int:
        return int(x.x)

    @tool
    async def anything(self, x: Any) -> int:
        return int(x["x"] if isinstance(x, dict) else x)

    @tool
    async def listed(self, x: list[int]) -> int:
        return sum(x)

    def verify(self, transcript: Transcript) -> float:
        return 1.0 if transcript.answer == "right" else 0.0


SUMS_ROW = {"responses_create_params": {"input": "x"}}
OVERFLOWING = ["1e999", "-1e999", "1E+400", "1" + "0" * 400 + ".5", "1.e1000", "0.1e0310", "NaN", "-Infinity"]


@pytest.mark.parametrize("number", OVERFLOWING)
@pytest.mark.parametrize("name", ["plain", "nested", "anything"])
async def test_no_number_is_infinite_inside_a_tool(name: str, number: str) -> None:
    """A tool that is handed one soon raises, and the session that fails with it has no score."""
    sessions = Sessions()
    session = await sessions.seed(Served(Sums), SeedRequest(Row()))
    for argument in (number, f'{{"x": {number}}}'):
        answer = await session.call(name, f'{{"x": {argument}}}'.encode())
        assert answer.code is Code.INVALID_ARGUMENTS, answer
    assert (await session.verify()).reward == 0.0
    await sessions.drain(0)


@pytest.mark.parametrize("number", ["1e308", "1e0000000005", "5e-400", "12345678901234567890123"])
async def test_large_and_small_numbers_are_numbers(number: str) -> None:
    sessions = Sessions()
    session = await sessions.seed(Served(Sums), SeedRequest(Row()))
    assert (await session.call("anything", f'{{"x": {number}}}'.encode())).code is Code.OK
    await sessions.drain(0)


async def test_the_wires_say_the_same_of_a_number_that_is_too_large() -> None:
    async with live(Sums) as server, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        (await http.post(server.url + "/sums/gym/seed_session", json=SUMS_ROW)).raise_for_status()
        async with http.post(server.url + "/sums/gym/nested", data=b'{"x": {"x": -1e999}}') as answer:
            texts = {await answer.text()}
        seeded = await Raw(server.url + "/sums/mcp").call("seed_session", {"row": SUMS_ROW})
        handle = json.loads(seeded["content"][0]["text"])["session"]
        said = await Raw(server.url + "/sums/mcp", handle).call("nested", {"x": {"x": float("-inf")}})
        texts.add(said["content"][0]["text"])
        async with http.ws_connect(server.url + "/sums/openenv/ws") as socket:
            await socket.send_json({"type": "reset", "data": {"row": SUMS_ROW}})
            await socket.receive_str(timeout=5)
            await socket.send_str(
                '{"type":"step","data":{"type":"call_tool","tool_name":"nested","arguments":{"x":{"x":-1e999}}}}'
            )
            texts.add(json.loads(await socket.receive_str(timeout=5))["data"]["observation"]["error"]["message"])
    assert texts == {"Invalid arguments for nested: -Infinity is no JSON value"}


@pytest.mark.parametrize("wire", WIRES)
async def test_deep_arguments_are_the_policys_mistake_at_every_depth(wire: str, worlds: str) -> None:
    """Somewhere below the depth that the client could not read lay one that a server could not, and failed with."""
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        for depth in (100, 128, 196, 250, 600, *range(880, 1_010, 6), 100_000):
            result = await session.call("where", f'{{"item": {"[" * depth}{"]" * depth}}}')
            assert result.is_error and "Invalid arguments" in result.text, depth
        assert (await session.verify()).reward == 0.125


async def test_endless_arguments_names_and_keys_are_refused_and_not_kept() -> None:
    sessions = Sessions()
    session = await sessions.seed(Served(Sums), SeedRequest(Row()))
    answer = await session.call("plain", b'{"x": "' + b"x" * MAX_ARGUMENT_BYTES + b'"}')
    assert answer.code is Code.INVALID_ARGUMENTS
    assert (await session.call("x" * 1_000_000, b"{}")).code is Code.UNKNOWN_TOOL
    wrong = b'{"x": [' + b",".join([b'"x"'] * 200_000) + b"]}"
    assert (await session.call("listed", wrong)).result.text.endswith("200000 values do not fit the schema")
    assert sum(len(call.name) + len(call.raw_arguments) for call in session.calls) < 2 * MAX_ARGUMENT_BYTES
    async with live(Sums) as server, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        (await http.post(server.url + "/sums/gym/seed_session", json=SUMS_ROW)).raise_for_status()
        key = {"Idempotency-Key": "k" * (MAX_ID_CHARACTERS + 1)}
        async with http.post(server.url + "/sums/gym/plain", data=b'{"x": 1}', headers=key) as answer:
            assert (answer.status, answer.headers["X-Gymwire-Code"]) == (400, Code.INVALID_REQUEST)
        (session,) = server.sessions.store
        assert session.state is SessionState.SEEDED
    await sessions.drain(0)


async def test_a_keyed_verify_over_openenvs_http_route_keeps_its_messages() -> None:
    """They were lost with the header `Idempotency-Key`, and a right answer scored 0."""
    verify = {"type": "call_tool", "tool_name": "verify", "arguments": {"answer": "right"}}
    async with live(Sums) as server, aiohttp.ClientSession(server.url + "/sums/openenv/") as http:
        for key in ({}, {"Idempotency-Key": "k"}):
            async with http.post("reset", json={"row": SUMS_ROW}) as answer:
                headers = {"X-Gymwire-Session": answer.headers["X-Gymwire-Session"], **key}
            body = {"action": {**verify, "metadata": {"control": True}}}
            async with http.post("step", json=body, headers=headers) as answer:
                assert (await answer.json())["reward"] == 1.0


@pytest.mark.parametrize(
    "forged",
    [
        {"responses_create_params": {"input": "x"}},
        {"responses_create_params": {"input": []}, "first": 5, "later": []},
        {
            "resources_session_id": "mine",
            "episode_id": {"rollout_id": "x"},
            "task_id": {"taskset": "x", "task_id": "x"},
            "task_data": {},
        },
    ],
)
async def test_a_forged_seed_that_is_no_task_does_not_end_the_episode(forged: Any) -> None:
    """A policy may call `seed_session` as if it were a tool: a bad score must not be lost with the old session."""
    async with live(Kit) as server, aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        url = server.url + "/kit/gym/"
        (await http.post(url + "seed_session", json={"split": "eval", "index": 0})).raise_for_status()
        (session,) = server.sessions.store
        async with http.post(url + "seed_session", json=forged) as answer:
            assert (answer.status, answer.headers["X-Gymwire-Code"]) == (422, Code.INVALID_ROW)
        assert session.state is SessionState.SEEDED and list(server.sessions.store) == [session]
        async with http.post(url + "count", json={}) as answer:
            assert await answer.text() == "0"


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1.evil.example", "http://[", "x"])
async def test_a_page_of_another_origin_reaches_no_wire(origin: str) -> None:
    """A browser lets any page post plain text and open sockets to a server on its own machine."""
    headers = {"Origin": origin}
    async with live(Kit) as server, aiohttp.ClientSession() as http:
        for path in ("/kit/gym/seed_session", "/kit/openenv/reset", "/kit/openenv/mcp", "/kit/mcp", "/kit/gym/mcp"):
            async with http.post(server.url + path, data=b"{}", headers=headers) as answer:
                assert (answer.status, answer.headers["X-Gymwire-Code"]) == (403, Code.FORBIDDEN_ORIGIN), path
        for path in ("/kit/openenv/ws", "/kit/openenv/mcp"):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await http.ws_connect(server.url + path, headers=headers)
            assert caught.value.status == 403
        assert len(server.sessions.store) == 0
        async with http.ws_connect(server.url + "/kit/openenv/ws", headers={"Origin": server.url}) as socket:
            await socket.send_json({"type": "state"})
            assert json.loads(await socket.receive_str(timeout=5))["type"] == "state"
