"""The OpenEnv wire against a real server: its sockets, HTTP and task routes, and JSON-RPC."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from gymwire.servers.sessions import Limits
from jsonschema import Draft202012Validator

from tests.servers.faces.openenv_lab import Lab, Line, Server, line, serving, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONTROL = {"control": True}
BROKEN = {"responses_create_params": {"input": "x"}, "number": -1}  # its reset raises


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def socket(server: Server) -> AsyncIterator[Line]:
    async with line(server) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as client:
        yield client


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def settled(server: Server) -> None:
    """The sockets of the test before have been noticed as closed."""
    await until(lambda: not any(session.sockets for session in server.sessions.store))


def text_of(data: dict[str, Any]) -> str:
    return data["observation"]["result"]["data"]


def abort(line: Line) -> None:
    """Leave without a word."""
    connection = line.socket._response.connection
    assert connection is not None and connection.transport is not None
    connection.transport.abort()


# ---- an episode on a socket


async def test_a_reset_shows_the_prompt_and_the_tools_and_echoes_the_id(socket: Line) -> None:
    data = await socket.reset(split="eval", index=2, episode_id="e-1")
    prompt = [{"role": "user", "content": "eval task 2"}]
    assert data["observation"]["prompt"] == data["metadata"]["prompt"] == prompt
    assert [tool["name"] for tool in data["observation"]["tools"]][:2] == ["add", "echo"]
    assert set(data["observation"]["tools"][0]) == {"name", "description", "input_schema"}
    assert (data["reward"], data["done"], data["metadata"]["max_turns"]) == (0.0, False, 5)
    assert "hidden" not in json.dumps(data)
    assert await socket.ask({"type": "state"}) == {"type": "state", "data": {"episode_id": "e-1", "step_count": 0}}


async def test_a_step_answers_the_result_and_reward_zero(socket: Line) -> None:
    await socket.reset(index=0)
    data = await socket.call("add", {"n": 3})
    assert data["observation"] == {
        "metadata": {"code": "ok"},
        "tool_name": "add",
        "result": {
            "content": [{"type": "text", "text": "3", "annotations": None, "meta": None}],
            "structured_content": None,
            "meta": None,
            "data": "3",
            "is_error": False,
        },
        "error": None,
    }
    assert (data["reward"], data["done"]) == (0.0, False)


@pytest.mark.parametrize(
    ("tool", "arguments", "kind", "code"),
    [
        ("nope", {}, "tool_not_found", "unknown_tool"),
        ("verify", {"messages": []}, "tool_not_found", "unknown_tool"),
        ("end_turn", {}, "tool_not_found", "unknown_tool"),
        ("add", {"n": "3"}, "invalid_args", "invalid_arguments"),
        ("add", [3], "invalid_args", "invalid_arguments"),
        ("refuse", {}, "execution_error", "tool_error"),
    ],
)
async def test_what_the_policy_did_wrong_is_a_result(
    socket: Line, tool: str, arguments: Any, kind: str, code: str
) -> None:
    await socket.reset(index=0)
    data = await socket.call(tool, arguments)
    seen = data["observation"]
    assert seen["result"]["is_error"] and seen["error"]["error_type"] == kind
    assert seen["error"]["message"] == seen["result"]["data"]
    assert data["metadata"]["code"] == code
    assert (data["reward"], data["done"]) == (0.0, False)
    assert (await socket.control("verify"))["reward"] == 0.0


@pytest.mark.parametrize("text", ["null", "[1,2]", '{"a":1}', "5", "", "ünï\u2028", "\x00\n", "😀", '"},"x":{"'])
async def test_a_string_arrives_unchanged(socket: Line, text: str) -> None:
    await socket.reset(index=0)
    assert text_of(await socket.call("echo", {"text": text})) == text
    assert text_of(await socket.call("echo", {"text": text}, metadata={"note": 1})) == text


@pytest.mark.parametrize("number", [2**53 + 1, 2**63, -(2**64), 10**40])
async def test_an_integer_of_any_size_arrives_unchanged(socket: Line, number: int) -> None:
    await socket.reset(index=0)
    assert text_of(await socket.call("add", {"n": number})) == str(number)
    rpc = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "add", "arguments": {"n": 1}}}
    answer = await socket.ask({"type": "mcp", "data": rpc})
    assert answer["data"]["id"] == number
    assert answer["data"]["result"]["data"] == str(number + 1)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"n":' + "[" * 5000 + "]" * 5000 + "}",
        '{"n":' + "9" * 5000 + "}",
        r'{"n":"\ud800"}',
        '{"n":NaN}',
        '{"n":1e999}',
    ],
)
async def test_odd_json_is_the_tools_to_refuse_and_breaks_nothing(socket: Line, arguments: str) -> None:
    await socket.reset(index=0)
    answer = await socket.ask('{"type":"step","data":{"tool_name":"add","arguments":' + arguments + "}}")
    assert answer["data"]["metadata"]["code"] == "invalid_arguments"
    calls = [{"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}]
    messages = [{"role": "assistant", "content": "done", "tool_calls": calls}]
    assert (await socket.control("verify", messages=messages))["reward"] == 0.5


async def test_the_spelling_of_a_message_does_not_matter(socket: Line) -> None:
    await socket.reset(index=0)
    spellings = [
        '{"data":{"arguments":{"n":1},"tool_name":"add"},"type":"step"}',
        ' {\n"type" : "step" ,\t"data" : { "type" : "call_tool" , "tool_name" : "add" , "arguments" : {"n":1} } } ',
        r'{"type":"step","data":{"type":"call_tool","tool_name":"\u0061dd","arguments":{"n":1}}}',
        '{"type":"step","data":{"type":"call_tool","tool_name":"x","tool_name":"add","arguments":{"n":1},"metadata":{}}}',
    ]
    answers = [text_of((await socket.ask(text))["data"]) for text in spellings]
    assert answers == ["1", "2", "3", "4"]
    verify = '{"data":{"metadata":{"control":true},"arguments":{"answer":"done"},"tool_name":"verify"},"type":"step"}'
    assert (await socket.ask(verify))["data"]["reward"] == 0.5


async def test_only_an_exact_mark_makes_a_control_call(socket: Line) -> None:
    await socket.reset(index=0)
    start = '{"type":"step","data":{"type":"call_tool","tool_name":"verify","arguments":{},"metadata":'
    other = await socket.ask(start + '{"control":1,"other":true}}}')
    assert other["data"]["metadata"]["code"] == "unknown_tool"
    more = await socket.ask(start + '{"control":true},"x":{"y":true}}}')
    assert more["data"]["code"] == "VALIDATION_ERROR"
    assert (await socket.ask(start + '{"control":true,"other":true}}}'))["data"]["done"]


# ---- endings


async def test_verify_scores_the_clients_transcript_once(socket: Line) -> None:
    await socket.reset(index=0)
    await socket.call("add", {"n": 3})
    data = await socket.control("verify", messages=[{"role": "assistant", "content": "done"}])
    assert (data["reward"], data["done"]) == (0.75, True)
    assert data["metadata"] == {
        "code": "ok",
        "ending": "finished",
        "components": {"value": 0.25, "answer": 0.5},
        "disagreements": [],
    }
    assert (await socket.control("verify", answer="other"))["reward"] == 0.75
    late = await socket.call("add", {"n": 1})
    assert (late["metadata"]["code"], late["reward"], late["done"]) == ("session_verified", 0.75, True)
    assert await socket.steps() == 4


async def test_verify_takes_an_answer_and_a_cut(socket: Line) -> None:
    await socket.reset(index=0)
    data = await socket.control("verify", answer="done", ending="cut")
    assert (data["reward"], data["metadata"]["ending"]) == (0.5, "cut")


@pytest.mark.parametrize("wrong", [{"ending": "failed"}, {"answer": 5}, {"messages": "x"}, {"other": 1}])
async def test_a_malformed_verify_scores_nothing(socket: Line, wrong: dict[str, Any]) -> None:
    await socket.reset(index=0)
    action = {"type": "call_tool", "tool_name": "verify", "arguments": wrong, "metadata": CONTROL}
    answer = await socket.ask({"type": "step", "data": action})
    assert answer["data"]["code"] == "VALIDATION_ERROR"
    assert (await socket.control("verify", answer="done"))["reward"] == 0.5


async def test_a_tool_that_ends_answers_done_and_the_reward(socket: Line) -> None:
    await socket.reset(index=0)
    await socket.call("add", {"n": 3})
    data = await socket.call("finish")
    assert (text_of(data), data["reward"], data["done"]) == ("finished", 0.25, True)
    assert data["metadata"]["components"] == {"value": 0.25, "answer": 0.0}


async def test_a_failed_session_has_no_reward_for_good(socket: Line) -> None:
    await socket.reset(index=0)
    for data in [await socket.call("crash"), await socket.call("add", {"n": 3}), await socket.control("verify")]:
        assert (data["reward"], data["done"]) == (None, True)
        assert data["metadata"]["failure_kind"] == "lab:exception"
        assert data["metadata"]["failure_reason"] == "RuntimeError: the machine broke"
        assert data["observation"]["result"]["is_error"]
    assert (await socket.call("add", {"n": 3}))["metadata"]["code"] == "session_failed"


@pytest.mark.parametrize("by", ["verify", "finish"])
async def test_a_reward_that_is_no_number_masks_the_episode(server: Server, by: str) -> None:
    async with line(server, environment="lost") as socket:
        await socket.reset(index=0)
        data = await (socket.control("verify") if by == "verify" else socket.call("finish"))
        assert (data["reward"], data["done"]) == (None, True)
        assert data["metadata"]["failure_kind"] == "verifier_error"


async def test_several_prompts(socket: Line) -> None:
    await socket.reset(index=0)
    first, second = await socket.control("end_turn"), await socket.control("end_turn")
    assert first["observation"]["result"]["data"] == {"prompt": "the second prompt"}
    assert second["observation"]["result"]["data"] == {"prompt": None}
    assert (second["done"], second["reward"]) == (False, 0.0)


# ---- what a socket holds


async def test_nothing_but_a_reset_begins_an_episode(socket: Line, server: Server) -> None:
    before = server.free
    step = {"type": "step", "data": {"type": "call_tool", "tool_name": "add", "arguments": {"n": 1}}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"n": 1}}}
    answer = await socket.ask(step)
    assert (answer["data"]["code"], answer["data"]["metadata"]["code"]) == ("SESSION_ERROR", "session_lost")
    assert (await socket.ask({"type": "mcp", "data": call}))["data"]["error"]["code"] == -32603
    assert await socket.ask({"type": "state"}) == {"type": "state", "data": {"episode_id": None, "step_count": 0}}
    listed = await socket.ask({"type": "step", "data": {"type": "list_tools"}})
    assert len(listed["data"]["observation"]["tools"]) == len(Lab.tool_specs)
    assert server.free == before


async def test_a_reset_closes_the_old_episode_first(socket: Line, server: Server) -> None:
    before = server.free
    await socket.reset(row={"responses_create_params": {"input": "x"}, "number": 77})
    await socket.call("add", {"n": 3})
    await socket.reset(index=2)
    assert 77 in Lab.closed
    assert text_of(await socket.call("add", {"n": 1})) == "1"
    assert await socket.steps() == 1
    assert server.free == before - 1


async def test_a_refused_reset_leaves_no_episode(socket: Line) -> None:
    await socket.reset(index=1)
    refused = await socket.ask({"type": "reset", "data": {"index": 99}})
    assert (refused["type"], refused["data"]["code"]) == ("error", "VALIDATION_ERROR")
    broken = await socket.ask({"type": "reset", "data": {"row": BROKEN}})
    assert (broken["data"]["code"], broken["data"]["factory_name"]) == ("FACTORY_ERROR", "Lab")
    assert broken["data"]["metadata"]["failure_kind"] == "lab:exception"
    step = {"type": "step", "data": {"type": "call_tool", "tool_name": "add", "arguments": {"n": 1}}}
    assert (await socket.ask(step))["data"]["code"] == "SESSION_ERROR"
    await socket.reset(index=1)


async def test_equal_seeds_give_equal_rows(socket: Line) -> None:
    first = (await socket.reset(seed=123))["observation"]["prompt"]
    assert (await socket.reset(seed=123))["observation"]["prompt"] == first


async def test_a_whole_row_is_played(socket: Line) -> None:
    row = {"responses_create_params": {"input": "mine"}, "number": 7, "secret": "s"}
    data = await socket.reset(row=row)
    assert data["observation"]["prompt"] == [{"role": "user", "content": "mine"}]


@pytest.mark.parametrize("how", ["close", "message", "abort"])
async def test_the_session_is_closed_with_its_socket(server: Server, how: str) -> None:
    before = server.free, len(server.sessions.store)
    async with line(server) as socket:
        await socket.reset(index=0)
        assert server.free == before[0] - 1
        if how == "message":
            await socket.send({"type": "close"})
            assert (await socket.socket.receive()).data == 1000
        elif how == "abort":
            abort(socket)
    await until(lambda: (server.free, len(server.sessions.store)) == before)


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_the_slot_of_a_client_that_left_is_kept_for_the_running_tool_alone(server: Server, how: str) -> None:
    Lab.naps.clear()
    before = server.free
    nap = {"type": "step", "data": {"type": "call_tool", "tool_name": "nap", "arguments": {"seconds": 0.3}}}
    async with line(server) as socket:
        await socket.reset(index=0)
        for _ in range(3):
            await socket.send(nap)
        await until(lambda: bool(Lab.naps))
        if how == "abort":
            abort(socket)
    await until(lambda: server.free == before)
    assert len(Lab.naps) == 1


async def test_messages_sent_during_a_slow_call_keep_their_order(socket: Line) -> None:
    await socket.reset(index=0)
    for tool, arguments in (
        ("nap", {"seconds": 0.06}),
        ("add", {"n": 1}),
        ("nap", {"seconds": 0.06}),
        ("add", {"n": 2}),
    ):
        data = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
        await socket.send({"type": "step", "data": data})
    assert [text_of((await socket.receive())["data"]) for _ in range(4)] == ["awake", "1", "awake", "3"]


async def test_a_socket_that_answers_no_pings_gives_its_slot_back() -> None:
    async with serving(ping_s=0.3) as server:
        before = server.free
        async with line(server, autoping=False) as socket:
            await socket.reset(index=0)
            await until(lambda: server.free == before)


async def test_an_open_socket_is_not_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving() as server, line(server) as socket:
        await socket.reset(index=0)
        later = server.sessions.now() + 1000
        monkeypatch.setattr(server.sessions, "now", lambda: later)
        assert server.sessions.sweep() == 0
        assert text_of(await socket.call("add", {"n": 1})) == "1"


async def test_a_repeated_key_answers_the_first_answer(socket: Line) -> None:
    await socket.reset(index=0)
    key = {"idempotency_key": "k"}
    answers = [text_of(await socket.call("add", {"n": 1}, metadata=key)) for _ in range(3)]
    other = await socket.call("add", {"n": 2}, metadata=key)
    assert answers == ["1", "1", "1"]
    assert other["metadata"]["code"] == "idempotency_key_reused"
    assert await socket.steps() == 1


# ---- capacity


async def test_at_the_limit_a_reset_is_refused_after_the_queue_and_the_socket_stays() -> None:
    limits = Limits(max_sessions=1, queue_timeout_s=0.05)
    async with serving(limits) as server, line(server) as first, line(server) as second:
        await first.reset(index=0)
        full = await second.ask({"type": "reset"})
        assert full["data"]["code"] == "CAPACITY_REACHED"
        assert (full["data"]["active_sessions"], full["data"]["max_sessions"]) == (1, 1)
        assert full["data"]["message"].startswith("Server at capacity: 1/1 sessions active.")
        await first.control("verify")
        await second.reset(index=1)


async def test_a_waiting_reset_keeps_its_place_and_the_order_of_messages() -> None:
    limits = Limits(max_sessions=1, queue_timeout_s=10)
    async with serving(limits) as server, line(server) as first, line(server) as second:
        await first.reset(index=0)
        await second.send({"type": "reset", "data": {"index": 1, "episode_id": "later"}})
        await second.send({"type": "state"})
        await until(lambda: server.sessions.slots.queued == 1)
        await first.socket.close()
        assert (await second.receive())["data"]["observation"]["prompt"][0]["content"] == "train task 1"
        assert (await second.receive())["data"] == {"episode_id": "later", "step_count": 0}


async def test_clients_that_leave_leave_the_queue() -> None:
    async with serving(Limits(max_sessions=1, queue_timeout_s=10)) as server:
        async with line(server) as first:
            await first.reset(index=0)
            for _ in range(3):
                async with line(server) as leaving:
                    await leaving.send({"type": "reset"})
                    await until(lambda: server.sessions.slots.queued == 1)
                await until(lambda: server.sessions.slots.queued == 0)
        await until(lambda: server.free == 1)


# ---- messages that cannot be understood


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{bad", "INVALID_JSON"),
        ("", "INVALID_JSON"),
        ("{", "INVALID_JSON"),
        ('{"type":"state"} x', "INVALID_JSON"),
        ('{"type":"step","data":{"type":"call_tool","tool_name":"add","arguments":{"n":1}}', "INVALID_JSON"),
        ('{"type":"step","data":{"type":"call_tool","tool_name":"add","arguments":{n:1}}}', "INVALID_JSON"),
        (b"\x00\xff", "INVALID_JSON"),
        ("[]", "VALIDATION_ERROR"),
        ("5", "VALIDATION_ERROR"),
        ("null", "VALIDATION_ERROR"),
        ("{}", "UNKNOWN_TYPE"),
        ({"type": "zzz"}, "UNKNOWN_TYPE"),
        ({"type": 5}, "UNKNOWN_TYPE"),
        ({"type": ["step"]}, "UNKNOWN_TYPE"),
        ({"type": "state", "data": {}}, "VALIDATION_ERROR"),
        ({"type": "reset", "seed": 1}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": []}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": None}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"seed": -1}}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"seed": True}}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"index": "0"}}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"episode_id": 5}}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"row": {"x": 1}}}, "VALIDATION_ERROR"),
        ({"type": "reset", "data": {"split": "nowhere"}}, "VALIDATION_ERROR"),
        ({"type": "step"}, "VALIDATION_ERROR"),
        ({"type": "step", "data": "add"}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"type": "other"}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"tool_name": 5}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"tool_name": "add", "x": 1}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"tool_name": "add", "metadata": 5}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"tool_name": "add", "metadata": {"idempotency_key": 5}}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"type": "list_tools", "tool_name": "add"}}, "VALIDATION_ERROR"),
        ({"type": "mcp"}, "VALIDATION_ERROR"),
        ({"type": "mcp", "data": []}, "VALIDATION_ERROR"),
    ],
)
async def test_a_malformed_message_is_answered_and_the_socket_stays(socket: Line, message: Any, code: str) -> None:
    answer = await socket.ask(message)
    assert (answer["type"], answer["data"]["code"]) == ("error", code)
    assert answer["data"]["message"] and "Traceback" not in answer["data"]["message"]
    if code == "VALIDATION_ERROR":
        assert set(answer["data"]["errors"][0]) == {"type", "loc", "msg", "input"}
    await socket.reset(index=0)
    assert await socket.steps() == 0


async def test_a_giant_frame_is_answered_and_the_socket_stays() -> None:
    async with serving(max_bytes=1 << 20) as server, line(server) as socket:
        answer = await socket.ask(json.dumps({"type": "reset", "data": {"x": "y" * (1 << 20)}}))
        assert answer["data"]["code"] == "VALIDATION_ERROR"
        await socket.reset(index=0)


# ---- HTTP


async def test_http_steps_belong_to_the_episode_of_their_reset(server: Server, http: aiohttp.ClientSession) -> None:
    async with http.post(server.url("/reset"), json={"index": 1, "episode_id": "h"}) as response:
        first = await response.json()
        session = {"X-Gymwire-Session": response.headers["X-Gymwire-Session"]}
    assert first["metadata"]["session"] == session["X-Gymwire-Session"]
    action = {"type": "call_tool", "tool_name": "add", "arguments": {"n": 10**30}}
    for number in (1, 2):
        async with http.post(server.url("/step"), json={"action": action}, headers=session) as response:
            data = await response.json()
            assert (response.status, response.headers["X-Gymwire-Code"]) == (200, "ok")
            assert (text_of(data), data["reward"]) == (str(number * 10**30), 0.0)
    async with http.get(server.url("/state"), headers=session) as response:
        assert await response.json() == {"episode_id": "h", "step_count": 2}
    verify = {"tool_name": "verify", "arguments": {"answer": "done"}, "metadata": CONTROL}
    async with http.post(server.url("/step"), json={"action": verify}, headers=session) as response:
        assert (await response.json())["reward"] == 0.5


async def test_http_keys_repeat_and_a_second_reset_keeps_the_id(server: Server, http: aiohttp.ClientSession) -> None:
    before = server.free
    async with http.post(server.url("/reset")) as response:
        session = {"X-Gymwire-Session": response.headers["X-Gymwire-Session"]}
    step = {"action": {"tool_name": "add", "arguments": {"n": 1}}}
    for _ in range(2):
        async with http.post(server.url("/step"), json=step, headers=session | {"Idempotency-Key": "a"}) as response:
            assert text_of(await response.json()) == "1"
    async with http.post(server.url("/reset"), json={"index": 2}, headers=session) as response:
        assert response.headers["X-Gymwire-Session"] == session["X-Gymwire-Session"]
    async with http.get(server.url("/state"), headers=session) as response:
        assert (await response.json())["step_count"] == 0
    assert server.free == before - 1


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/state", None, 400),
        ("POST", "/step", '{"action": {"type": "list_tools"}}', 400),
        ("POST", "/step", "{bad", 400),
        ("POST", "/step", "", 400),
        ("POST", "/step", b"\xff\xfe", 400),
        ("POST", "/step", "[]", 422),
        ("POST", "/step", "{}", 422),
        ("POST", "/step", '{"action": 5}', 422),
        ("POST", "/step", '{"action": {"x": 1}}', 422),
        ("POST", "/step", '{"action": {"tool_name": "add"}, "timeout_s": 0}', 422),
        ("POST", "/reset", '{"seed": -1}', 422),
        ("POST", "/reset", '{"index": 99}', 422),
        ("POST", "/reset", json.dumps({"row": BROKEN}), 503),
        ("POST", "/reset", "[]", 422),
        ("POST", "/lab/tasks", "{}", 422),
        ("POST", "/lab/tasks", '{"split": 5}', 422),
        ("POST", "/lab/tasks", '{"split": "train", "x": 1}', 422),
        ("POST", "/lab/tasks", '{"split": "nowhere"}', 404),
        ("POST", "/lab/task", '{"split": "train", "index": 9}', 400),
        ("POST", "/lab/task", '{"split": "train", "index": true}', 422),
        ("POST", "/lab/task_range", '{"split": "train", "start": -1}', 422),
        ("GET", "/nowhere/splits", None, 404),
        ("GET", "/reset", None, 405),
    ],
)
async def test_a_malformed_request_gets_a_clear_status_and_a_code(
    server: Server, http: aiohttp.ClientSession, method: str, path: str, body: Any, status: int
) -> None:
    before = server.free
    async with http.request(method, server.url(path), data=body) as response:
        said = await response.json()
        assert response.status == status
        assert said["code"] == response.headers["X-Gymwire-Code"] and said["error"]
    assert server.free == before


async def test_an_unknown_an_expired_and_a_foreign_id_are_gone(
    server: Server, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with http.post(server.url("/reset")) as response:
        handle = response.headers["X-Gymwire-Session"]
    later = server.sessions.now() + 1000
    with monkeypatch.context() as patched:
        patched.setattr(server.sessions, "now", lambda: later)
        server.sessions.sweep()
    step = {"action": {"tool_name": "add", "arguments": {"n": 1}}}
    async with http.post(server.url("/step"), json=step, headers={"X-Gymwire-Session": handle}) as response:
        said = await response.json()
        assert (said["reward"], said["done"], said["metadata"]["failure_kind"]) == (None, True, "session_expired")
    for wrong in ("nobody", f"{handle}x"):
        async with http.post(server.url("/step"), json=step, headers={"X-Gymwire-Session": wrong}) as response:
            assert (response.status, response.headers["X-Gymwire-Code"]) == (410, "session_lost")
    async with http.post(server.url("/step", "lost"), json=step, headers={"X-Gymwire-Session": handle}) as response:
        assert response.status == 410


async def test_tasks_show_prompts_and_never_task_data(server: Server, http: aiohttp.ClientSession) -> None:
    async def ask(path: str, **body: Any) -> Any:
        async with http.post(server.url(f"/lab/{path}"), json=body) as response:
            text = await response.text()
            assert response.status == 200 and "hidden" not in text and "secret" not in text
            return json.loads(text)

    async with http.get(server.url("/lab/splits")) as response:
        splits = await response.json()
        assert splits == [{"name": "train", "type": "train"}, {"name": "eval", "type": "validation"}]
    one = {"split": "eval", "index": 1, "prompt": [{"role": "user", "content": "eval task 1"}]}
    assert await ask("task", split="eval", index=1) == {"task": one}
    assert await ask("num_tasks", split="eval") == {"num_tasks": 5}
    assert (await ask("tasks", split="eval"))["tasks"][1] == one
    assert await ask("task_range", split="eval", start=1, stop=2) == {"tasks": [one]}
    assert len((await ask("task_range", split="eval"))["tasks"]) == 5


async def test_a_task_is_what_a_reset_takes(server: Server, http: aiohttp.ClientSession, socket: Line) -> None:
    async with http.post(server.url("/lab/task"), json={"split": "eval", "index": 3}) as response:
        task = (await response.json())["task"]
    assert (await socket.reset(**task))["observation"]["prompt"] == task["prompt"]


async def test_what_is_answered_fits_the_schemas(server: Server, http: aiohttp.ClientSession, socket: Line) -> None:
    async with http.get(server.url("/schema")) as response:
        schemas = await response.json()
    first = await socket.reset(index=0)
    listed = (await socket.ask({"type": "step", "data": {"type": "list_tools"}}))["data"]
    rest = [listed, await socket.call("add", {"n": 1}), await socket.call("nope"), await socket.call("crash")]
    rest.append(await socket.control("verify"))
    for data, name in [(first, "reset_observation"), *((data, "observation") for data in rest)]:
        whole = {**data["observation"], "reward": data["reward"], "done": data["done"]}
        Draft202012Validator(schemas[name]).validate(whole)
    Draft202012Validator(schemas["state"]).validate((await socket.ask({"type": "state"}))["data"])


async def test_its_own_openapi_lists_its_routes_relative_to_the_prefix(
    server: Server, http: aiohttp.ClientSession
) -> None:
    async with http.get(server.url("/openapi.json")) as response:
        document = await response.json()
    assert {"/reset", "/step", "/state", "/mcp", "/lab/tasks"} <= document["paths"].keys()
    assert document["info"]["version"].startswith("1.")
    async with http.get(f"{server.origin}/openapi.json") as response:
        assert "/lab/openenv/step" in (await response.json())["paths"]


# ---- JSON-RPC


class Rpc:
    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.client, self.url = client, url

    async def post(self, body: Any) -> Any:
        data = body if isinstance(body, str) else json.dumps(body)
        async with self.client.post(self.url, data=data) as response:
            assert response.status == 200
            return await response.json()

    async def __call__(self, method: str, **params: Any) -> Any:
        return await self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})


@pytest.fixture
def rpc(server: Server, http: aiohttp.ClientSession) -> Rpc:
    return Rpc(http, server.url("/mcp"))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, -32600),
        ("{bad", -32700),
        ("[]", -32700),
        ({"jsonrpc": "2.0", "id": 1, "method": "initialize"}, -32601),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, -32600),
        ({"jsonrpc": "2.0", "id": [], "method": "tools/list"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "x": 1}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"session_id": "zz"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close"}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": "zz"}}, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {"seed": "x"}}, -32602),
    ],
)
async def test_a_wrong_rpc_request_is_an_rpc_error(rpc: Rpc, body: Any, code: int) -> None:
    answer = await rpc.post(body)
    assert (answer["jsonrpc"], answer["error"]["code"]) == ("2.0", code)
    assert "data" in answer["error"] and "result" not in answer


async def test_an_rpc_session_takes_its_slot_with_the_first_call(rpc: Rpc, server: Server) -> None:
    before = server.free
    created = (await rpc("openenv/session/create", index=1))["result"]["session_id"]
    assert server.free == before
    listed = (await rpc("tools/list", session_id=created))["result"]["tools"]
    assert {"name", "title", "description", "inputSchema"} == set(listed[0])
    called = (await rpc("tools/call", name="add", arguments={"n": 2**70}, session_id=created))["result"]
    assert (called["data"], called["is_error"]) == (str(2**70), False)
    assert server.free == before - 1
    wrong = (await rpc("tools/call", name="nope", session_id=created))["error"]
    assert (wrong["code"], wrong["data"]["code"]) == (-32603, "unknown_tool")
    assert (await rpc("openenv/session/close", session_id=created))["result"]["closed"] is True
    assert server.free == before
    gone = (await rpc("tools/call", name="add", arguments={"n": 1}, session_id=created))["error"]
    assert (gone["code"], gone["data"]["code"]) == (-32602, "session_closed")


async def test_an_rpc_session_says_how_it_failed_and_how_it_ended(rpc: Rpc) -> None:
    created = (await rpc("openenv/session/create"))["result"]["session_id"]
    failed = (await rpc("tools/call", name="crash", session_id=created))["error"]
    assert (failed["message"], failed["data"]["failure_kind"]) == ("The tool is unavailable.", "lab:exception")
    created = (await rpc("openenv/session/create", index=0))["result"]["session_id"]
    ended = (await rpc("tools/call", name="finish", session_id=created))["result"]
    assert (ended["data"], ended["meta"]["gymwire/done"], ended["meta"]["gymwire/reward"]) == ("finished", True, 0.0)


async def test_a_socket_attaches_to_an_rpc_session_and_leaves_it(rpc: Rpc, server: Server) -> None:
    created = (await rpc("openenv/session/create"))["result"]["session_id"]
    path = f"/ws?session_id={created}"
    async with line(server, path) as socket:
        await socket.reset(index=0)
        await socket.call("add", {"n": 1})
        assert (await rpc("tools/call", name="add", arguments={"n": 1}, session_id=created))["result"]["data"] == "2"
        assert await socket.steps() == 1
        async with line(server, path) as second:
            assert (await second.receive())["data"]["code"] == "SESSION_ERROR"
            assert (await second.socket.receive()).data == 1000
    await until(lambda: not any(session.sockets for session in server.sessions.store))
    assert (await rpc("tools/call", name="add", arguments={"n": 1}, session_id=created))["result"]["data"] == "3"
    async with line(server, "/ws?session_id=zz") as unknown:
        assert (await unknown.receive())["data"]["message"] == "Unknown session_id: zz"


async def test_rpc_through_sockets(server: Server) -> None:
    async with line(server) as socket:
        created = await socket.ask({"type": "mcp", "data": _request("openenv/session/create")})
        handle = created["data"]["result"]["session_id"]
        closing = await socket.ask({"type": "mcp", "data": _request("openenv/session/close", session_id=handle)})
        assert closing["data"]["error"]["code"] == -32600
    async with line(server, "/mcp") as socket:
        assert (await socket.ask("{bad"))["error"]["code"] == -32700
        assert (await socket.ask(_request("tools/call", name="add", arguments={"n": 1})))["error"]["code"] == -32603
        await socket.ask(_request("openenv/session/create"))
        assert (await socket.ask(_request("tools/call", name="add", arguments={"n": 1})))["result"]["data"] == "1"


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def test_an_http_reset_waits_in_the_queue_like_any_other_seed() -> None:
    async with serving(Limits(max_sessions=1, queue_timeout_s=10)) as server, aiohttp.ClientSession() as client:

        async def reset() -> str:
            async with client.post(server.url("/reset"), json={"index": 0}) as answer:
                return answer.headers["X-Gymwire-Session"]

        held = await reset()
        waiting = [asyncio.create_task(reset()) for _ in range(3)]
        await until(lambda: server.sessions.slots.queued == 3)
        for _ in range(3):
            body = {"action": {"type": "call_tool", "tool_name": "verify", "metadata": {"control": True}}}
            async with client.post(server.url("/step"), json=body, headers={"X-Gymwire-Session": held}) as answer:
                assert answer.status == 200
            done, pending = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
            held, waiting = done.pop().result(), list(pending)
        assert not waiting


async def test_rpc_sessions_are_bounded_and_wait_for_slots() -> None:
    async with serving(Limits(max_sessions=2, queue_timeout_s=0.05)) as server, aiohttp.ClientSession() as client:
        rpc = Rpc(client, server.url("/mcp"))
        created = [(await rpc("openenv/session/create"))["result"]["session_id"] for _ in range(2)]
        full = (await rpc("openenv/session/create"))["error"]
        assert (full["code"], full["data"]["max_sessions"]) == (-32000, 2)
        async with line(server) as one, line(server) as two:
            await asyncio.gather(one.reset(index=0), two.reset(index=0))
            waiting = (await rpc("tools/call", name="add", arguments={"n": 1}, session_id=created[0]))["error"]
            assert (waiting["code"], waiting["data"]["code"]) == (-32000, "at_capacity")
