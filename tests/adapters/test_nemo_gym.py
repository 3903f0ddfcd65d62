"""The NeMo Gym client toward servers that are not ours, and what it repeats toward those that are."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import cycle
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from gymwire.adapters import Connection, SessionFailed, WrongRequest, connect
from gymwire.adapters.nemo_gym import CookieJar
from gymwire.adapters.pool import Reply
from gymwire.adapters.responses import output_items
from gymwire.servers import Ending, Row, Tool
from gymwire.servers.transcripts import chat_messages
from multidict import CIMultiDict, CIMultiDictProxy

TOOLS = tuple(
    Tool(name, "", {"type": "object"}) for name in ("ping", "odd/name", "broken", "drop", "limited", "verify")
)
ROW = Row(prompt=[{"role": "user", "content": "Hello."}], data={"secret": 7}, tools=TOOLS)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gym:
    """A resources server of somebody else's: a cookie at seed, never repeated."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, Any]] = []
        self.verdict: dict[str, Any] = {"reward": 0.75}
        self.status = 200
        self.drops = 0

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/seed_session", self.seed)
        app.router.add_post("/verify", self.verify)
        app.router.add_post("/{tool:.*}", self.tool)
        return app

    async def _see(self, request: web.Request) -> Any:
        body = await request.json()
        self.seen.append((request.path, request.headers.get("Cookie", ""), body))
        return body

    async def seed(self, request: web.Request) -> web.Response:
        await self._see(request)
        answer = web.json_response({}, status=self.status)
        answer.headers.add("Set-Cookie", 'session="a b=c"; Path=/; HttpOnly')
        answer.headers.add("Set-Cookie", "seen=1")
        return answer

    async def tool(self, request: web.Request) -> web.Response:
        await self._see(request)
        if request.path == "/broken":
            return web.json_response("ValueError('x')", status=500)
        if request.path == "/limited":
            return web.Response(text="Slow down.", status=self.status)
        if request.path == "/drop":
            self.drops += 1
            assert request.transport is not None
            request.transport.abort()
        answer = web.Response(text=f"at {request.raw_path}", status=404 if "odd" in request.path else 200)
        if request.path == "/ping":
            answer.headers.add("Set-Cookie", "seen=2; Path=/")
        return answer

    async def verify(self, request: web.Request) -> web.Response:
        body = await self._see(request)
        return web.json_response({**body, **self.verdict}, status=self.status)


@pytest.fixture
async def gym() -> AsyncIterator[tuple[Gym, Connection]]:
    stranger = Gym()
    async with TestServer(stranger.app()) as server, connect(str(server.make_url("/")), wire="nemo-gym") as env:
        yield stranger, env


async def test_the_jar_merges_and_repeats_cookies_as_they_were_set(gym: tuple[Gym, Connection]) -> None:
    stranger, env = gym
    async with env.session(row=ROW) as session, env.session(row=ROW) as other:
        await session.call("ping")
        await session.call("ping")
        await other.call("odd/name")
        assert (await session.verify([{"role": "assistant", "content": "bye"}])).reward == 0.75
    cookies = [cookie for path, cookie, _ in stranger.seen if path != "/seed_session"]
    first, second = 'session="a b=c"; seen=1', 'session="a b=c"; seen=2'
    assert cookies == [first, second, first, second]


async def test_the_whole_row_goes_to_seed_and_to_verify(gym: tuple[Gym, Connection]) -> None:
    stranger, env = gym
    messages = [*ROW.prompt, {"role": "assistant", "content": "bye"}]
    async with env.session(row=ROW) as session:
        await session.verify(messages, ending=Ending.CUT)
    seed, verify = (body for _, _, body in stranger.seen)
    response = verify.pop("response")
    assert seed == verify == json.loads(json.dumps(ROW.to_json()))
    assert (response["object"], response["status"]) == ("response", "incomplete")
    assert [item["content"][0]["text"] for item in response["output"]] == ["bye"]


async def test_tools_of_the_row_are_called_by_their_quoted_names(gym: tuple[Gym, Connection]) -> None:
    async with gym[1].session(row=ROW) as session:
        assert [tool.name for tool in session.tools] == ["ping", "odd/name", "broken", "drop", "limited"]
        result = await session.call("odd/name", {})
        assert (result.text, result.is_error) == ("at /odd%2Fname", True)
        assert "There is no tool called 'verify'" in (await session.call("verify", {})).text


async def test_a_broken_server_fails_the_session(gym: tuple[Gym, Connection]) -> None:
    async with gym[1].session(row=ROW) as session:
        with pytest.raises(SessionFailed, match=r"provider_unavailable at call: HTTP 500"):
            await session.call("broken")


@pytest.mark.parametrize("status", [401, 407, 408, 429])
async def test_what_stands_before_the_tools_fails_the_session(gym: tuple[Gym, Connection], status: int) -> None:
    """A limit of the server's or a token that lacks was shown to the policy, and the episode was scored."""
    async with gym[1].session(row=ROW) as session:
        gym[0].status = status
        with pytest.raises(SessionFailed, match=f"provider_unavailable at call: HTTP {status}: Slow down"):
            await session.call("limited")


async def test_delivery_unknown_is_a_failure_and_nothing_is_repeated(gym: tuple[Gym, Connection]) -> None:
    async with gym[1].session(row=ROW) as session:
        with pytest.raises(SessionFailed, match="transport_peer_drop at call: delivery unknown"):
            await session.call("drop")
    assert gym[0].drops == 1


@pytest.mark.parametrize(
    ("verdict", "kind"),
    [
        ({"reward": 0.0, "mask_sample": True, "failure_kind": "judge_failed", "failure_reason": "x"}, "judge_failed"),
        ({"reward": 1.0, "instance_config": {"mask_sample": True}}, "provider_unavailable"),
        ({"reward": 0.0, "failure_kind": "judge_unparseable"}, "judge_unparseable"),
        ({"reward": 0.0, "mask_sample": False, "failure_kind": "shop:exception"}, "shop:exception"),
        ({"reward": None}, "verifier_error"),
        ({"reward": "0.5"}, "verifier_error"),
        ({"reward": True}, "verifier_error"),
        ({}, "verifier_error"),
    ],
)
async def test_a_masked_or_absent_reward_raises(
    gym: tuple[Gym, Connection], verdict: dict[str, Any], kind: str
) -> None:
    gym[0].verdict = verdict
    async with gym[1].session(row=ROW) as session:
        with pytest.raises(SessionFailed) as caught:
            await session.verify()
    assert (caught.value.kind, caught.value.stage) == (kind, "verify")


async def test_components_that_are_no_sum_are_left_out(gym: tuple[Gym, Connection]) -> None:
    async with gym[1].session(row=ROW) as session:
        gym[0].verdict = {"reward": 0.5, "reward_components": {"a": 0.25, "b": 0.25}}
        assert (await session.verify()).components == {"a": 0.25, "b": 0.25}
        gym[0].verdict = {"reward": 0.5, "reward_components": {"weight": 3}}
        assert (await session.verify()).components == {}


async def test_a_stranger_needs_a_row(gym: tuple[Gym, Connection]) -> None:
    with pytest.raises(WrongRequest, match="give it one with row="):
        await gym[1].session(split="train", index=0)


async def test_a_seed_that_is_refused_fails(gym: tuple[Gym, Connection]) -> None:
    gym[0].status = 500
    with pytest.raises(SessionFailed, match="provider_unavailable at seed"):
        await gym[1].session(row=ROW)


# Toward gymwire servers


class Flaky:
    """Looks like a gymwire server; breaks the connection of every other request after carrying it out."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str | None]] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/environments", self.environments)
        app.router.add_post("/shop/gym/{route}", self.route)
        return app

    async def environments(self, request: web.Request) -> web.Response:
        tool = {"name": "ping", "description": "", "parameters": {"type": "object"}}
        shop = {"name": "shop", "tools": [tool], "has_end_turn": True, "wires": {"nemo-gym": "/shop/gym"}}
        return web.json_response({"environments": [shop], "limits": {"queue_timeout_s": 1}})

    async def route(self, request: web.Request) -> web.Response:
        self.keys.append((request.match_info["route"], request.headers.get("Idempotency-Key")))
        if len(self.keys) % 2:
            assert request.transport is not None
            request.transport.abort()
        body = {"responses_create_params": {"input": []}, "reward": 1.0}
        return web.json_response(body, headers={"X-Gymwire-Code": "ok"})


async def test_what_carries_a_key_is_repeated_with_the_same_key() -> None:
    flaky = Flaky()
    async with TestServer(flaky.app()) as server, connect(str(server.make_url("/"))) as env:
        session = await env.session(seed=1)
        await session.call("ping")
        assert await session.end_turn() is None
        assert (await session.verify()).reward == 1.0
        await session.close()
    routes = [route for route, _ in flaky.keys]
    assert routes == [
        name for name in ("seed_session", "ping", "end_turn", "verify", "close_session") for _ in range(2)
    ]
    keys = [key for _, key in flaky.keys]
    assert keys[::2] == keys[1::2] and all(keys[:6]) and len(set(keys[:6])) == 3


class Away(Flaky):
    """A gymwire server whose sessions others share, behind a gateway: half of what is asked comes to nothing."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.answers = cycle(((502, ""), (503, "repeat"), (200, "ok")))

    async def environments(self, request: web.Request) -> web.Response:
        answer = await super().environments(request)
        return web.json_response({**json.loads(answer.text or ""), "shared": self.shared})

    async def route(self, request: web.Request) -> web.Response:
        self.keys.append((request.match_info["route"], request.headers.get("Idempotency-Key")))
        status, code = next(self.answers)
        body = {"responses_create_params": {"input": []}, "reward": 1.0}
        return web.json_response(body, status=status, headers={"X-Gymwire-Code": code} if code else {})


async def test_what_a_gateway_lost_or_does_not_count_is_repeated_where_others_go_on() -> None:
    away = Away(shared=True)
    async with TestServer(away.app()) as server, connect(str(server.make_url("/"))) as env:
        async with env.session(seed=1) as session:
            assert not (await session.call("ping")).is_error
            assert (await session.verify()).reward == 1.0
        assert [route for route, _ in away.keys].count("verify") == 3
        assert len({key for route, key in away.keys if route == "ping"}) == 1


async def test_a_gateway_that_lost_a_session_of_one_process_fails_it_at_once() -> None:
    away = Away(shared=False)
    async with TestServer(away.app()) as server, connect(str(server.make_url("/"))) as env:
        with pytest.raises(SessionFailed, match="provider_unavailable at seed: HTTP 502"):
            await env.session(seed=1)
    assert len(away.keys) == 1


async def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[connect.__module__], "RIDE_OUT_S", 0.2)
    away = Away(shared=True)
    away.answers = cycle(((504, ""),))
    async with TestServer(away.app()) as server, connect(str(server.make_url("/"))) as env:
        with pytest.raises(SessionFailed, match=r"provider_unavailable at seed: .* answers HTTP 504"):
            await env.session(seed=1)
    assert len(away.keys) > 2


# Parts


def _reply(*cookies: str) -> Reply:
    headers = CIMultiDict([("Set-Cookie", cookie) for cookie in cookies])
    return Reply(200, b"", CIMultiDictProxy(headers))


def test_a_cookie_goes_when_the_server_says_so() -> None:
    jar = CookieJar()
    jar.merge(_reply("a=1; Path=/x", "b=2; Max-Age=600; HttpOnly"))
    jar.merge(_reply())
    assert jar.header == "a=1; b=2"
    jar.merge(_reply("a=; Max-Age=0"))
    assert jar.header == "b=2"
    jar.merge(_reply("b=; expires=Thu, 01 Jan 1970 00:00:00 GMT", "nonsense"))
    assert (jar.header, len(jar)) == ("", 0)


@pytest.mark.parametrize("value", ["\x01", "a\x7f", "\udcff", "a\tb"])
def test_what_no_header_can_carry_back_is_no_cookie(value: str) -> None:
    jar = CookieJar()
    jar.merge(_reply(f"a={value}; Path=/", "b=2"))
    assert jar.header == "b=2"


def test_messages_become_items_and_come_back_as_messages() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"n": 1}'}}
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call, {**call, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "two"},
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": "Done."},
    ]
    back = chat_messages(output_items(messages))
    back[-1]["content"] = back[-1]["content"][0]["text"]
    assert back == messages


def test_an_assistants_text_beside_its_calls_is_kept() -> None:
    call = {"id": "c1", "function": {"name": "add", "arguments": {"n": 1}}}
    items = list(output_items([{"role": "assistant", "content": "I add.", "tool_calls": [call]}]))
    assert [item["type"] for item in items] == ["message", "function_call"]
    assert items[1]["arguments"] == '{"n": 1}'
