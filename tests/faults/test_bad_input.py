"""Requests that make no sense: a clear 4xx (or the wire's own error) with a code, never a trace, never a 500."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from gymwire.servers.answers import Code

from tests.faults.watching import Watched
from tests.servers.faces.mcp_clients import META, VERSION

CODES = {code.value for code in Code}
DEEP = b'{"a":' * 50_000
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "half an object": b'{"split": "ev',
    "a list": b"[1, 2]",
    "a string": b'"text"',
    "a number": b"5",
    "no JSON": b"<xml/>",
    "no UTF-8": b'{"split": "\xff\xfe"}',
    "a lone surrogate": b'{"split": "\\ud800"}',
    "NaN": b'{"index": NaN}',
    "too deep": DEEP,
    "NUL": b"\x00" * 16,
    "wrong types": b'{"split": 5, "index": "first"}',
    "unknown fields": b'{"spilt": "eval"}',
    "a huge index": b'{"split": "eval", "index": 99999999999999999999999}',
    "a negative index": b'{"split": "eval", "index": -1}',
    "a row without a prompt": b'{"row": {}}',
    "a row of a string": b'{"responses_create_params": "x"}',
    "a row of odd messages": b'{"responses_create_params": {"input": [5]}}',
    "a row of odd tools": b'{"responses_create_params": {"input": "x", "tools": [{"type": "function", "name": 5}]}}',
    "an odd typed seed": b'{"resources_session_id": 1, "episode_id": {}, "task_id": {}, "task_data": {}}',
    "a long id": b'{"resources_session_id": "%s", "episode_id": {"rollout_id": "x"}, "task_id": '
    b'{"taskset": "x", "task_id": "x"}, "task_data": {}}' % (b"x" * 100_000),
}
#: Bodies that a route may take for an empty object, or that only a seed looks into.
ROUTES = ("seed_session", "verify", "close_session", "aggregate_metrics", "put")


def checked(status: int, headers: Any, body: bytes) -> None:
    assert 400 <= status < 500, (status, body[:300])
    assert headers["X-Gymwire-Code"] in CODES
    assert b"Traceback" not in body and b".py" not in body and len(body) < 20_000


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", BODIES)
async def test_nemo_gym_refuses_bodies_that_make_no_sense(watched: Watched, route: str, body: str) -> None:
    async with watched.http.post(f"{watched.url}/kit/gym/{route}", data=BODIES[body]) as answer:
        if route == "seed_session" and answer.status == 200:
            assert body == "nothing"  # a seed that names nothing draws a row
        else:
            checked(answer.status, answer.headers, await answer.read())


@pytest.mark.parametrize("body", [b"{", b'{"item": 5, "at": {}}', b"[1]", b'{"item": "\xff"}', DEEP, b'{"item": NaN}'])
async def test_a_tool_route_refuses_arguments_that_do_not_fit(watched: Watched, body: bytes) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(f"{watched.url}/kit/gym/", cookie_jar=jar) as http:
        (await http.post("seed_session", json={"split": "eval", "index": 0})).raise_for_status()
        async with http.post("put", data=body) as answer:
            checked(answer.status, answer.headers, await answer.read())
            assert answer.status == 422 and answer.headers["X-Gymwire-Code"] == Code.INVALID_ARGUMENTS
        async with http.post("count", json={}) as answer:
            assert await answer.text() == "0"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/kit/gym/verify", 405),
        ("GET", "/kit/gym/put", 405),
        ("DELETE", "/kit/gym/seed_session", 405),
        ("POST", "/kit/gym/reverify_mode", 405),
        ("GET", "/kit/gym/nothing", 404),
        ("POST", "/kit/nothing", 404),
        ("POST", "/nothing", 404),
        ("GET", "/", 404),
        ("POST", "/health", 405),
        ("PUT", "/environments", 405),
        ("GET", "/kit/openenv/reset", 405),
        ("GET", "/kit/openenv/nothing", 404),
        ("PATCH", "/kit/mcp", 405),
        ("GET", "/kit/gym/%2e%2e/%2e%2e/etc/passwd", 404),
        ("GET", "/kit/gym//verify", 404),
        ("GET", "/\u00fc/%ff", 404),
        ("PROPFIND", "/kit/gym/verify", 405),
    ],
)
async def test_unknown_routes_and_wrong_methods_are_named(
    watched: Watched, method: str, path: str, status: int
) -> None:
    async with watched.http.request(method, watched.url + path) as answer:
        body = await answer.read()
        assert answer.status == status, body[:300]
        checked(answer.status, answer.headers, body)
        if status == 405:
            assert answer.headers.get("Allow")


async def test_an_oversized_body_is_refused_on_every_wire(watched: Watched) -> None:
    limit = 64 * 1024 * 1024

    async def drip() -> Any:
        for _ in range(limit // (1024 * 1024) + 1):
            yield b" " * 1024 * 1024

    before_mb = watched.memory_mb()
    for path in ("/kit/gym/verify", "/kit/gym/put", "/kit/openenv/reset"):
        try:
            async with watched.http.post(watched.url + path, data=drip()) as answer:
                checked(answer.status, answer.headers, await answer.read())
                assert answer.status == 413 and answer.headers["X-Gymwire-Code"] == Code.TOO_LARGE
        except aiohttp.ClientError:
            continue  # the server stopped reading: the client could not send the rest
    async with watched.http.post(f"{watched.url}/kit/mcp", data=drip(), headers=_mcp_headers()) as answer:
        assert answer.status == 413
    await asyncio.sleep(0.2)
    assert watched.memory_mb() - before_mb < 150


async def test_too_many_or_too_long_headers_are_refused(watched: Watched) -> None:
    headers = {f"X-{number}": "x" * 100 for number in range(50)}
    async with watched.http.get(f"{watched.url}/health", headers=headers) as answer:
        assert answer.status == 200
    odd = {"Cookie": "gymwire_kit=" + "x" * 5_000, "Idempotency-Key": "k" * 5_000}
    async with watched.http.post(f"{watched.url}/kit/gym/count", data=b"{}", headers=odd) as answer:
        checked(answer.status, answer.headers, await answer.read())


# OpenEnv

FRAMES: dict[str, Any] = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "a number": "5",
    "no type": "{}",
    "an unknown type": '{"type": "dance"}',
    "a type of a number": '{"type": 5}',
    "no data": '{"type": "step"}',
    "data of a list": '{"type": "step", "data": []}',
    "an action without a type": '{"type": "step", "data": {}}',
    "an unknown action": '{"type": "step", "data": {"type": "fly"}}',
    "a tool name of a number": '{"type": "step", "data": {"type": "call_tool", "tool_name": 5, "arguments": {}}}',
    "arguments of a list": '{"type": "step", "data": {"type": "call_tool", "tool_name": "put", "arguments": [1]}}',
    "no arguments": '{"type": "step", "data": {"type": "call_tool", "tool_name": "count"}}',
    "more keys": '{"type": "state", "more": 1}',
    "a split of a number": '{"type": "reset", "data": {"split": 5}}',
    "an unknown split": '{"type": "reset", "data": {"split": "nowhere"}}',
    "a seed of a string": '{"type": "reset", "data": {"seed": "x"}}',
    "a row of a string": '{"type": "reset", "data": {"row": "x"}}',
    "a row without data": '{"type": "reset", "data": {"row": {"responses_create_params": {"input": "x"}}}}',
    "too deep": '{"type": "step", "data": ' + '{"a":' * 50_000,
    "a lone surrogate": '{"type": "step", "data": {"type": "call_tool", "tool_name": "\\ud800", "arguments": {}}}',
    "an odd verify": '{"type": "step", "data": {"type": "call_tool", "tool_name": "verify", '
    '"arguments": {"messages": 5}, "metadata": {"control": true}}}',
    "bytes": b"\x00\x01",
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("seeded", [False, True], ids=["fresh", "seeded"])
async def test_openenv_answers_frames_that_make_no_sense_and_goes_on(
    watched: Watched, frame: str, seeded: bool
) -> None:
    sent = FRAMES[frame]
    async with watched.http.ws_connect(f"{watched.url}/kit/openenv/ws") as socket:
        if seeded:
            await socket.send_json({"type": "reset", "data": {"split": "eval", "index": 0}})
            await socket.receive_str(timeout=5)
        await (socket.send_bytes(sent) if isinstance(sent, bytes) else socket.send_str(sent))
        text = await socket.receive_str(timeout=5)
        said = json.loads(text)
        assert "Traceback" not in text and ".py" not in text and len(text) < 20_000
        if said["type"] == "observation":  # an unknown tool, or arguments that do not fit: the policy's mistake
            code = said["data"]["metadata"]["code"]
            assert code in ("unknown_tool", "invalid_arguments") or (code == "ok" and frame == "no arguments"), text
        else:
            assert said["type"] == "error" and said["data"]["code"].isupper() and said["data"]["message"], text
        await socket.send_json({"type": "state"})
        assert json.loads(await socket.receive_str(timeout=5))["type"] == "state"


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("route", ["reset", "step", "mcp", "tasks", "num_tasks", "task", "task_range"])
async def test_openenv_routes_refuse_bodies_that_make_no_sense(watched: Watched, route: str, body: str) -> None:
    path = f"/kit/openenv/{route}" if route in ("reset", "step", "mcp") else f"/kit/openenv/kit/{route}"
    async with watched.http.post(watched.url + path, data=BODIES[body]) as answer:
        text = await answer.text()
        assert answer.status < 500, text[:300]
        assert "Traceback" not in text and ".py" not in text and len(text) < 20_000
        if route == "mcp":  # JSON-RPC says it inside
            assert answer.status == 200 and "error" in json.loads(text)


# MCP


def _mcp_headers(**more: str) -> dict[str, str]:
    return {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": VERSION,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "count",
        **more,
    }


def _request(**fields: Any) -> bytes:
    params = {"name": "count", "arguments": {}, "_meta": META}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params, **fields}).encode()


MCP_BODIES: dict[str, bytes] = {
    **BODIES,
    "no version": _request(jsonrpc="1.0"),
    "an id of a list": _request(id=[]),
    "an unknown method": _request(method="tools/dance"),
    "no params": _request(params=None),
    "params of a list": _request(params=[]),
    "no name": _request(params={"arguments": {}, "_meta": META}),
    "a name of a number": _request(params={"name": 5, "arguments": {}, "_meta": META}),
    "arguments of a list": _request(params={"name": "count", "arguments": [1], "_meta": META}),
    "a meta of a list": _request(params={"name": "count", "arguments": {}, "_meta": []}),
    "an odd key": _request(
        params={"name": "count", "arguments": {}, "_meta": {**META, "gymwire/idempotency-key": [1]}}
    ),
    "an unknown control": _request(params={"name": "seed_session", "arguments": {"spilt": 1}, "_meta": META}),
    "an odd seed": _request(params={"name": "seed_session", "arguments": {"seed": "x"}, "_meta": META}),
    "an odd verify": _request(params={"name": "verify", "arguments": {"session": 5}, "_meta": META}),
}


@pytest.mark.parametrize("header", [{}, {"X-Gymwire-Session": "made-up.00"}, {"Mcp-Method": "tools/list"}], ids=str)
@pytest.mark.parametrize("body", MCP_BODIES)
async def test_mcp_answers_requests_that_make_no_sense(watched: Watched, body: str, header: dict[str, str]) -> None:
    headers = _mcp_headers(**header)
    async with watched.http.post(f"{watched.url}/kit/mcp", data=MCP_BODIES[body], headers=headers) as answer:
        text = await answer.text()
        assert answer.status < 500, text[:300]
        assert "Traceback" not in text and ".py" not in text and len(text) < 20_000
        if answer.status == 200 and text:
            said = json.loads(text.rpartition("data: ")[2])
            assert "error" in said or said["result"]["isError"] is True, text


async def test_a_server_with_tokens_says_who_may_not(tmp_path: Any) -> None:
    from tests.serving import serving

    (tmp_path / "tokens").write_text("secret\n")
    with serving(tmp_path / "log", "counter", "--token-file", str(tmp_path / "tokens")) as server:
        async with aiohttp.ClientSession() as http:
            for path in ("/environments", "/metrics", "/docs", "/counter/gym/verify", "/counter/mcp", "/nothing"):
                async with http.get(server.url + path) as answer:
                    checked(answer.status, answer.headers, await answer.read())
                    assert answer.status == 401
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await http.ws_connect(f"{server.url}/counter/openenv/ws")
            assert caught.value.status == 401


async def test_a_foreign_host_is_turned_away(watched: Watched) -> None:
    for path in ("/environments", "/kit/gym/verify", "/kit/mcp"):
        async with watched.http.get(watched.url + path, headers={"Host": "evil.example"}) as answer:
            checked(answer.status, answer.headers, await answer.read())
            assert answer.status == 421
