"""C19, X01, X03: what becomes of a session whose handle, or whose time, gets lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
import uvicorn
from gymwire.adapters import SessionFailed, connect
from gymwire.servers.answers import Code, Refused
from gymwire.servers.catalog import Served
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Limits, Sessions
from gymwire.servers.types import FailureKind, Row, SessionState, Tool

from tests.servers.faces.live import live
from tests.servers.faces.mcp_clients import Raw
from tests.serving import free_port, serving
from tests.wires import WIRES, world
from tests.worlds import PLACES, Kit

# C19


class Cookies:
    """A NeMo Gym server of somebody else's: three routes, a counter a session, cookies as the case says."""

    def __init__(self, habit: str) -> None:
        self.habit = habit
        self.counts: dict[str, int] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        cookie = dict(scope["headers"]).get(b"cookie", b"").decode()
        sent = dict(part.split("=", 1) for part in cookie.split("; ") if "=" in part)
        status, body, cookies = self._answer(scope["path"], sent)
        headers = [(b"set-cookie", line.encode()) for line in cookies]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})

    def _answer(self, path: str, sent: dict[str, str]) -> tuple[int, Any, list[str]]:
        if path == "/seed_session":
            name = f"s{len(self.counts)}"
            self.counts[name] = 0
            return 200, {}, [f"sid={name}; Path=/; HttpOnly"]
        name = sent.get("sid", "")
        if name not in self.counts:
            return 404, {"error": "no session"}, []
        if path == "/verify":
            params = {"responses_create_params": {"input": []}, "response": {}}
            return 200, {**params, "reward": float(self.counts[name])}, []
        self.counts[name] += 1
        if self.habit == "it is set anew between":
            fresh = f"{name}-{self.counts[name]}"
            self.counts[fresh] = self.counts.pop(name)
            return 200, "counted", [f"sid={fresh}; Path=/"]
        if self.habit == "every answer sets it":
            return 200, "counted", [f"sid={name}; Path=/"]
        return 200, "counted", ["theme=dark; Path=/"] if self.habit == "another cookie is set between" else []


async def test_the_session_survives_whatever_a_server_does_with_its_cookie(cases: dict[str, Any]) -> None:
    row = Row(prompt=[{"role": "user", "content": "Count."}], tools=(Tool("count", "", {"type": "object"}),))
    for habit in cases["C19"]["input"]:
        port = free_port()
        app: Any = Cookies(habit)
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off"))
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        try:
            async with (
                connect(f"http://127.0.0.1:{port}", wire="nemo-gym") as connection,
                connection.session(row=row) as one,
                connection.session(row=row) as two,
            ):
                for session in (one, one, two, one):
                    assert not (await session.call("count")).is_error
                rewards = [(await session.verify()).reward for session in (one, two)]
            assert rewards == [3.0, 1.0], habit
        finally:
            server.should_exit = True
            await running


async def test_the_handle_survives_many_calls_on_every_wire(worlds: str, wire: str) -> None:
    async with (
        world("kit", wire, worlds) as connection,
        connection.session(split="eval", index=0) as one,
        connection.session(split="eval", index=0) as two,
    ):
        for number in range(5):
            await one.call("put", {"item": str(number), "at": {"shelf": 1}})
        assert ((await one.call("count")).text, (await two.call("count")).text) == ("5", "0")


# X01


async def test_nemo_gym_never_makes_a_session_up() -> None:
    async with live(Kit) as server, aiohttp.ClientSession(server.url + "/kit/gym/") as http:
        forged = {"Cookie": "gymwire_kit=made-up.0123456789abcdef"}
        for headers in ({}, forged):
            async with http.post("count", json={}, headers=headers) as answer:
                assert answer.status == 410 and answer.headers["X-Gymwire-Code"] == Code.SESSION_LOST
            body = {"responses_create_params": {"input": []}, "response": {"output": []}}
            async with http.post("verify", json=body, headers=headers) as answer:
                said = await answer.json()
                assert answer.status == 200 and said["mask_sample"] is True
                assert said["failure_kind"] == FailureKind.SESSION_LOST and said["reward"] == 0.0
                assert said["instance_config"] == {"mask_sample": True}
            async with http.post("verify", json=body, headers={**headers, "X-Gymwire-Masked": "error"}) as answer:
                assert answer.status == 503 and (await answer.json())["failure_kind"] == FailureKind.SESSION_LOST
            async with http.post("end_turn", json={}, headers={**headers, "X-Gymwire-Control": "true"}) as answer:
                assert answer.status == 410
        assert len(server.sessions.store) == 0


async def test_nemo_gym_replaces_the_state_of_a_cookie_that_is_seeded_again() -> None:
    async with live(Kit) as server:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(server.url + "/kit/gym/", cookie_jar=jar) as http:
            rows = [row.to_json() for row in Kit.rows("eval", 2, 0)]
            (await http.post("seed_session", json=rows[0])).raise_for_status()
            (first,) = server.sessions.store
            await http.post("put", json={"item": "old", "at": {"shelf": 1}})
            (await http.post("seed_session", json=rows[1])).raise_for_status()
            (second,) = server.sessions.store
            assert first.state is SessionState.CLOSED and second is not first
            async with http.post("where", json={}) as answer:
                assert await answer.text() == "{}"
            assert second.row.data["later"] == ["later-1", "last"]


async def test_openenv_never_makes_a_session_up() -> None:
    async with live(Kit) as server, aiohttp.ClientSession() as http:
        async with http.ws_connect(f"{server.url}/kit/openenv/ws") as socket:
            for control in (False, True):
                data = {"type": "call_tool", "tool_name": "verify" if control else "count", "arguments": {}}
                await socket.send_json({"type": "step", "data": {**data, "metadata": {"control": control}}})
                said = json.loads(await socket.receive_str(timeout=5))
                assert said["type"] == "error" and said["data"]["metadata"]["code"] == Code.SESSION_LOST
        async with http.ws_connect(f"{server.url}/kit/openenv/ws?session_id=made-up") as socket:
            said = json.loads(await socket.receive_str(timeout=5))
            assert said["type"] == "error" and said["data"]["code"] == "SESSION_ERROR"
        assert len(server.sessions.store) == 0


async def test_openenv_replaces_the_state_at_a_second_reset() -> None:
    async with (
        live(Kit) as server,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{server.url}/kit/openenv/ws") as socket,
    ):

        async def ask(message: Any) -> Any:
            await socket.send_json(message)
            return json.loads(await socket.receive_str(timeout=5))["data"]

        await ask({"type": "reset", "data": {"split": "eval", "index": 0}})
        (first,) = server.sessions.store
        put = {"item": "old", "at": {"shelf": 1}}
        await ask({"type": "step", "data": {"type": "call_tool", "tool_name": "put", "arguments": put}})
        await ask({"type": "reset", "data": {"split": "eval", "index": 1}})
        (second,) = server.sessions.store
        assert first.state is SessionState.CLOSED and second is not first
        said = await ask({"type": "step", "data": {"type": "call_tool", "tool_name": "where", "arguments": {}}})
        assert said["observation"]["result"]["content"][0]["text"] == "{}"


async def test_mcp_never_makes_a_session_up() -> None:
    async with live(Kit) as server:
        url = server.url + "/kit/mcp"
        for answer in (
            await Raw(url, "made-up.0123456789abcdef").call("count", {}),
            await Raw(url).call("count", {"session": "made-up.0123456789abcdef"}),
            await Raw(url).call("verify", {"session": "made-up.0123456789abcdef"}),
            await Raw(url).call("end_turn", {"session": "made-up.0123456789abcdef"}),
        ):
            assert answer["isError"] is True and answer["_meta"]["gymwire/code"] == Code.SESSION_LOST
            assert answer["_meta"]["gymwire/failure_kind"] == FailureKind.SESSION_LOST
        assert (await Raw(url).call("count", {}))["isError"] is True
        assert len(server.sessions.store) == 0


async def test_the_engine_never_makes_a_session_up() -> None:
    sessions, served = Sessions(), Served(Kit)
    with pytest.raises(Refused) as caught:
        sessions.get("made-up.0123456789abcdef", served)
    assert caught.value.code is Code.SESSION_LOST and caught.value.as_outcome().masked


async def test_a_session_that_its_client_closed_answers_nothing_more(worlds: str, wire: str) -> None:
    async with world("kit", wire, worlds) as connection:
        session = await connection.session(split="eval", index=0)
        await session.call("count")
        await session.close()
        for work in (session.call("count"), session.verify(), session.end_turn()):
            with pytest.raises(SessionFailed) as caught:
                await work
            assert caught.value.kind == FailureKind.SESSION_LOST


# X03


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("impatient") / "server.log"
    with serving(log, *PLACES, "--idle-timeout", "0.3") as running:
        yield running.url


async def test_a_step_longer_than_the_idle_limit_is_answered(impatient: str, wire: str, cases: dict[str, Any]) -> None:
    asked = cases["X03"]["input"]
    sessions = Sessions(Limits(idle_timeout_s=asked["idle_timeout_s"]))

    async def episode(tool: str) -> None:
        async with connection.session(split="eval", index=0) as session:
            assert (await session.call(tool, {"seconds": asked["step_s"]})).text == "awake"
            assert (await session.call("count")).text == "0"
            assert (await session.verify()).reward == 0.125

    async with world("kit", wire, impatient, sessions=sessions) as connection:
        await asyncio.gather(*(episode(tool) for tool in asked["tools"]))


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openenv"])  # an open socket is not idle
async def test_a_session_that_is_truly_idle_expires_and_says_so(impatient: str, wire: str) -> None:
    sessions = Sessions(Limits(idle_timeout_s=0.3))
    async with world("kit", wire, impatient, sessions=sessions) as connection:
        session = await connection.session(split="eval", index=0)
        await asyncio.sleep(0.8)
        for work in (session.call("count"), session.verify()):
            with pytest.raises(SessionFailed) as caught:
                await work
            assert caught.value.kind == FailureKind.SESSION_EXPIRED


async def test_an_open_socket_is_not_idle(impatient: str) -> None:
    async with world("kit", "openenv", impatient) as connection, connection.session(split="eval", index=0) as session:
        await asyncio.sleep(0.8)
        assert (await session.call("count")).text == "0"


async def test_the_sweep_that_comes_during_a_call_passes_over_it() -> None:
    sessions, served = Sessions(Limits(idle_timeout_s=0.05, lifetime_s=0.05)), Served(Kit)
    session = await sessions.seed(served, SeedRequest(split="eval", index=0))
    napping = asyncio.create_task(session.call("nap", b'{"seconds": 0.3}'))
    await asyncio.sleep(0.2)
    assert sessions.sweep() == 0 and session.state is SessionState.ACTIVE
    assert (await napping).result.text == "awake"
    await sessions.drain(0)
