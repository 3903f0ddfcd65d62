"""The MCP wire, driven by the official client in both revisions and by requests written by hand."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import aiohttp
import mcp_types as types
import pytest
from gymwire.servers import Environment, Media, Row, ToolError, ToolResult, Transcript, report_progress, tool
from gymwire.servers.faces.mcp.sdk import SdkApp
from gymwire.servers.sessions import Limits
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from .live import Live, live
from .mcp_clients import META, REVISIONS, Raw, client, code, request_text, seed, text

Texts = ("null", "[1,2]", '{"a":1}', "5", "true", "", " ", "ünï\u2028", '"', "\\u0000")


class Notepad(Environment):
    """Remembers what was written, exactly."""

    splits = ("train",)
    kept: dict[str, Any] = {}

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Any:
        yield Row.of("Write.", answer="first")
        yield Row.of("Write again.", answer="second")

    def reset(self, row: Row) -> None:
        self.written: list[Any] = []

    @tool
    async def write(self, value: str | None) -> str:
        """Write a text."""
        self.written.append(value)
        return json.dumps(value)

    @tool
    async def number(self, value: int | float) -> str:
        """Write a number."""
        return repr(value)

    @tool
    async def refuse(self) -> str:
        """Never works."""
        raise ToolError("not today")

    @tool
    async def explode(self) -> str:
        """Is broken."""
        raise RuntimeError("secret detail")

    @tool(ends=True)
    async def finish(self) -> str:
        """Ends the episode."""
        return "finished"

    @tool(read_only=True)
    async def picture(self) -> ToolResult:
        """Shows one."""
        return ToolResult("look", media=(Media("image", "aGk=", "image/png"),))

    @tool
    async def slow(self, seconds: float) -> str:
        """Takes a while and reports on it."""
        report_progress(0, 2, "begun")
        await asyncio.sleep(seconds)
        self.written.append("slow")
        report_progress(1, 2)
        return "at last"

    @tool
    def slow_in_a_thread(self) -> str:
        """Reports from a thread."""
        for step in range(3):
            report_progress(step, 3, f"step {step}")
        return "done"

    def verify(self, transcript: Transcript) -> dict[str, float]:
        right = transcript.answer == self.row.data.get("answer")
        return {"calls": 0.25 * len(transcript.calls), "answer": float(right)}


class Guestbook(Environment):
    """Has a parameter called session, several prompts and rows that pin a tool."""

    def reset(self, row: Row) -> str:
        self.turns = iter(["And now?", None])
        return "Sign."

    @tool
    async def sign(self, session: str) -> str:
        """Sign with a name."""
        return f"signed {session}"

    @tool
    async def tear(self) -> str:
        """Tear a page out."""
        return "torn"

    async def end_turn(self) -> str | None:
        return next(self.turns)

    def verify(self, transcript: Transcript) -> float:
        return 1.0


@pytest.fixture
async def server() -> AsyncIterator[Live]:
    async with live(Notepad, Guestbook) as running:
        yield running


@pytest.fixture
def url(server: Live) -> str:
    return f"{server.url}/notepad/mcp"


def raw_text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


# ---- whole episodes


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_episode_with_the_handle_as_an_argument(url: str, revision: str) -> None:
    async with client(url, revision) as plain:
        names = [item.name for item in (await plain.list_tools()).tools]
        assert names == ["seed_session", *Notepad.tool_specs, "verify"]
        seeded = json.loads(text(await plain.call_tool("seed_session", {"split": "train", "index": 1})))
        assert seeded["prompt"] == [{"role": "user", "content": "Write again."}]
        assert seeded["tools"] == list(Notepad.tool_specs) and seeded["max_turns"] is None
        session = {"session": seeded["session"]}
        assert text(await plain.call_tool("write", {**session, "value": "a"})) == '"a"'
        refused = await plain.call_tool("refuse", session)
        assert (refused.is_error, text(refused), code(refused)) == (True, "not today", "tool_error")
        messages = [{"role": "assistant", "content": "second"}]
        verdict = json.loads(text(await plain.call_tool("verify", {**session, "messages": messages, "ending": "cut"})))
        expected = {"reward": 1.5, "components": {"calls": 0.5, "answer": 1.0}, "ending": "cut", "disagreements": []}
        assert verdict == expected
        assert json.loads(text(await plain.call_tool("verify", session))) == expected
        late = await plain.call_tool("write", {**session, "value": "late"})
        assert (late.is_error, code(late)) == (True, "session_verified")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_an_episode_with_the_session_header(url: str, revision: str) -> None:
    handle = await seed(url, index=0)
    async with client(url, revision, handle) as policy:
        tools = {item.name: item.input_schema for item in (await policy.list_tools()).tools}
        assert tools == {name: spec.tool.parameters for name, spec in Notepad.tool_specs.items()}
        assert text(await policy.call_tool("write", {"value": "a"})) == '"a"'
        picture = await policy.call_tool("picture", {})
        kinds = [block.type for block in picture.content]
        assert kinds == ["text", "image"]
        for control in ("seed_session", "verify", "close_session", "end_turn"):
            answer = await policy.call_tool(control, {"session": handle})
            assert (answer.is_error, code(answer)) == (True, "unknown_tool")
    verdict = json.loads(raw_text(await Raw(url).call("verify", {"session": handle, "answer": "first"})))
    assert verdict["components"] == {"calls": 0.25 * 6, "answer": 1.0}


async def test_a_tool_that_ends_the_episode_says_so(url: str) -> None:
    handle = await seed(url)
    ended = await Raw(url, handle).call("finish", {})
    assert ended["_meta"]["gymwire/done"] is True
    assert json.loads(raw_text(await Raw(url).call("verify", {"session": handle})))["reward"] == 0.25


async def test_several_prompts_and_a_parameter_called_session(server: Live) -> None:
    url = f"{server.url}/guestbook/mcp"
    listed = {item["name"]: item["inputSchema"] for item in await Raw(url).listed()}
    assert list(listed) == ["seed_session", "sign", "tear", "verify", "end_turn"]
    assert listed["sign"]["required"] == ["gymwire_session", "session"]
    row = {"responses_create_params": {"input": "", "tools": [{"type": "function", "name": "sign"}]}}
    seeded = json.loads(raw_text(await Raw(url).call("seed_session", {"row": row})))
    assert seeded["prompt"][-1] == {"role": "user", "content": "Sign."} and seeded["tools"] == ["sign"]
    session = {"session": seeded["session"]}
    signed = await Raw(url).call("sign", {"gymwire_session": seeded["session"], "session": "Ada"})
    assert raw_text(signed) == "signed Ada"
    assert raw_text(await Raw(url, seeded["session"]).call("sign", {"session": "Bo"})) == "signed Bo"
    assert [item["name"] for item in await Raw(url, seeded["session"]).listed()] == ["sign"]
    prompts = [json.loads(raw_text(await Raw(url).call("end_turn", session)))["prompt"] for _ in range(2)]
    assert prompts == ["And now?", None]


# ---- arguments


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("by_header", (True, False))
async def test_texts_arrive_as_they_were_sent(url: str, revision: str, by_header: bool) -> None:
    handle = await seed(url)
    extra = {} if by_header else {"session": handle}
    async with client(url, revision, handle if by_header else None) as connected:
        for sent in (*Texts, None):
            answer = await connected.call_tool("write", {"value": sent, **extra})
            assert not answer.is_error and json.loads(text(answer)) == sent


@pytest.mark.parametrize("progress", (False, True))
@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        (str(2**63), str(2**63)),
        (str(-(10**40)), str(-(10**40))),
        ("1.0", "1.0"),
        ("0.1", "0.1"),
        ("1e3", "1000.0"),
        ("NaN", "Invalid arguments for number: NaN is no JSON value"),
        ("-Infinity", "Invalid arguments for number: -Infinity is no JSON value"),
    ],
)
async def test_numbers_arrive_as_they_were_sent(url: str, sent: str, shown: str, progress: bool) -> None:
    handle = await seed(url)
    meta = {"progressToken": 1} if progress else {}  # with it the SDK's app answers
    answer = await Raw(url, handle).call("number", f'{{"value":{sent}}}', **meta)
    assert raw_text(answer) == shown


@pytest.mark.parametrize(
    "arguments", ['{"value":"\\ud800"}', '{"\\ud800":1}', '{"value":5}', '{"value":"a","b":1}', "{}"]
)
async def test_bad_arguments_are_the_policys_mistake(server: Live, url: str, arguments: str) -> None:
    handle = await seed(url)
    answer = await Raw(url, handle).call("write", arguments)
    assert answer["isError"] and answer["_meta"]["gymwire/code"] == "invalid_arguments"
    session = server.sessions.get(handle, server.served["notepad"])
    assert session.calls[0].result.is_error and session.calls[0].name == "write"


async def test_plain_and_unusual_requests_are_answered_alike(url: str) -> None:
    """A progress token sends the request the SDK's way; nothing else about the answer may change."""
    handle = await seed(url)
    calls = [("write", '{"value":"ü"}'), ("refuse", "{}"), ("nothing", "{}"), ("write", "{}"), ("picture", "{}")]
    for (name, arguments), at in product(calls, (Raw(url, handle), Raw(url, "unknown"), Raw(url))):
        plain = await at.call(name, arguments)
        unusual = await at.call(name, arguments, progressToken="t")
        assert json.dumps(plain) == json.dumps(unusual)


# ---- seeds and handles


@pytest.mark.parametrize("by_header", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_read_only_tool_is_listed_with_the_protocols_own_hint(url: str, revision: str, by_header: bool) -> None:
    handle = await seed(url) if by_header else None
    async with client(url, revision, handle) as connected:
        hints = {item.name: item.annotations for item in (await connected.list_tools()).tools}
    assert hints["picture"] is not None and hints["picture"].read_only_hint is True
    assert [name for name, hint in hints.items() if hint is not None] == ["picture"]
    by_hand = {item["name"]: item.get("annotations") for item in await Raw(url, handle).listed()}
    assert by_hand["picture"] == {"readOnlyHint": True} and by_hand["write"] is None


async def test_a_repeated_seed_of_a_callers_name_is_the_same_session(url: str) -> None:
    first, again = [await seed(url, session_id="mine", index=0) for _ in range(2)]
    assert first == again
    key = {"gymwire/idempotency-key": "k"}
    keyed = [raw_text(await Raw(url).call("seed_session", {"index": 0}, **key)) for _ in range(2)]
    assert keyed[0] == keyed[1] and first not in keyed[0]
    other = await Raw(url).call("seed_session", {"session_id": "mine", "index": 1})
    assert other["isError"] and other["_meta"]["gymwire/code"] == "seed_conflict"


@pytest.mark.parametrize("odd", [{}, {"X-Unheard": "1"}], ids=["plain", "by the SDK"])
async def test_a_seed_names_its_session_in_a_header_for_the_gateway_before_it(url: str, odd: dict[str, str]) -> None:
    raw = Raw(url, **odd)
    params = {"name": "seed_session", "arguments": {"index": 0}, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = raw.headers | {"mcp-method": "tools/call", "mcp-name": "seed_session"}
    async with aiohttp.ClientSession() as http, http.post(url, json=body, headers=headers) as answer:
        seeded = json.loads((await answer.json())["result"]["content"][0]["text"])
        assert answer.headers["X-Gymwire-Session"] == seeded["session"]
    async with aiohttp.ClientSession() as http, http.post(url, data=b"{}", headers=headers) as answer:
        assert "X-Gymwire-Session" not in answer.headers


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"row": {}}, "invalid_row"),
        ({"split": "nowhere"}, "invalid_row"),
        ({"index": 99}, "invalid_row"),
        ({"index": "1"}, "invalid_arguments"),
        ({"unheard": 1}, "invalid_arguments"),
        ({"session_id": ""}, "invalid_arguments"),
    ],
)
async def test_a_seed_that_cannot_be(url: str, arguments: dict[str, Any], expected: str) -> None:
    answer = await Raw(url).call("seed_session", arguments)
    assert answer["isError"] and answer["_meta"]["gymwire/code"] == expected


@pytest.mark.parametrize("tool_name", ["write", "verify"])
async def test_what_became_of_a_handle(url: str, tool_name: str) -> None:
    closed = await seed(url)
    assert json.loads(raw_text(await Raw(url).call("close_session", {"session": closed}))) == {"closed": True}
    for handle, expected in ((closed, "session_closed"), ("unheard", "session_lost"), ("", "session_lost")):
        answer = await Raw(url).call(tool_name, {"session": handle})
        assert answer["isError"] and answer["_meta"]["gymwire/code"] == expected
        assert answer["_meta"]["gymwire/failure_kind"] == "session_lost"
    assert not (await Raw(url).call("close_session", {"session": closed}))["isError"]


async def test_an_expired_handle(server: Live) -> None:
    async with live(Notepad, limits=Limits(idle_timeout_s=0.05)) as brief:
        url = f"{brief.url}/notepad/mcp"
        handle = await seed(url)
        while len(brief.sessions.store):
            await asyncio.sleep(0.01)
        answer = await Raw(url, handle).call("write", {"value": "a"})
        assert answer["_meta"]["gymwire/code"] == "session_expired"
        assert answer["_meta"]["gymwire/failure_kind"] == "session_expired"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_listing_for_a_handle_that_is_gone_is_an_error(url: str, revision: str) -> None:
    async with client(url, revision, "unheard") as connected:
        with pytest.raises(MCPError) as caught:
            await connected.list_tools()
    assert caught.value.error.data == {"code": "session_lost"}


async def test_sessions_belong_to_their_token(server: Live) -> None:
    async with live(Notepad, tokens=("one", "two")) as guarded:
        url = f"{guarded.url}/notepad/mcp"
        by_one, by_two = (Raw(url, Authorization=f"Bearer {token}") for token in ("one", "two"))
        session = json.loads(raw_text(await by_one.call("seed_session", {})))["session"]
        for meta in ({}, {"progressToken": 1}):
            arguments = {"session": session, "value": "a"}
            assert not (await by_one.call("write", arguments, **meta))["isError"]
            assert (await by_two.call("write", arguments, **meta))["_meta"]["gymwire/code"] == "session_lost"


async def test_an_idempotency_key_answers_the_first_answer(url: str) -> None:
    handle = await seed(url)
    for extra in ({}, {"progressToken": 1}):
        answers = [
            await Raw(url, handle).call("write", {"value": value}, **{"gymwire/idempotency-key": "k"}, **extra)
            for value in ("a", "a", "b")
        ]
        assert [answer["_meta"]["gymwire/code"] for answer in answers] == ["ok", "ok", "idempotency_key_reused"]
    bad = await Raw(url, handle).call("write", {"value": "a"}, **{"gymwire/idempotency-key": 5})
    assert bad["isError"] and bad["_meta"]["gymwire/code"] == "invalid_request"
    verdict = json.loads(raw_text(await Raw(url).call("verify", {"session": handle})))
    assert verdict["components"]["calls"] == 0.25


# ---- our failures


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_session_that_our_side_broke(url: str, revision: str) -> None:
    handle = await seed(url)
    async with client(url, revision, handle) as policy:
        for name in ("explode", "refuse"):
            answer = await policy.call_tool(name, {})
            assert (answer.is_error, text(answer), code(answer)) == (True, "The tool is unavailable.", "session_failed")
            assert answer.meta is not None and answer.meta["gymwire/failure_kind"] == "notepad:exception"
    async with client(url, revision) as plain:
        verdict = await plain.call_tool("verify", {"session": handle, "answer": "first"})
        assert verdict.is_error and code(verdict) == "masked"
        assert json.loads(text(verdict))["reward"] is None
        assert json.loads(text(verdict))["failure_kind"] == "notepad:exception"
        assert verdict.meta is not None and "secret detail" in verdict.meta["gymwire/failure_reason"]


# ---- clients that leave


async def _leave_during(url: str, body: str, headers: dict[str, str], until: Any) -> None:
    """Send a request and close the connection as soon as the condition holds."""
    async with aiohttp.ClientSession() as http:
        sending = asyncio.create_task(_read(http, url, body, headers))
        while not until():
            await asyncio.sleep(0.005)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _read(http: aiohttp.ClientSession, url: str, body: str, headers: dict[str, str]) -> bytes:
    async with http.post(url, data=body.encode(), headers=headers) as response:
        return await response.read()


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["plain", "sdk"])
async def test_a_tool_runs_to_its_end_when_its_client_leaves(server: Live, url: str, meta: dict[str, Any]) -> None:
    handle = await seed(url)
    session = server.sessions.get(handle, server.served["notepad"])
    headers = {**Raw(url, handle).headers, "mcp-method": "tools/call", "mcp-name": "slow"}
    body = request_text("tools/call", '{"seconds":0.1}', "slow", meta)
    await _leave_during(url, body, headers, lambda: session.in_flight)
    while session.in_flight:
        await asyncio.sleep(0.01)
    assert [call.result.text for call in session.calls] == ["at last"] and session.failure is None


@pytest.mark.parametrize("meta", [{}, {"progressToken": 1}], ids=["plain", "sdk"])
async def test_a_seed_whose_client_leaves_leaves_the_queue(meta: dict[str, Any]) -> None:
    async with live(Notepad, limits=Limits(max_sessions=1)) as full:
        url, slots = f"{full.url}/notepad/mcp", full.sessions.slots
        handle = await seed(url)
        headers = {**Raw(url).headers, "mcp-method": "tools/call", "mcp-name": "seed_session"}
        body = request_text("tools/call", "{}", "seed_session", meta)
        await _leave_during(url, body, headers, lambda: slots.queued)
        while slots.queued:
            await asyncio.sleep(0.01)
        await Raw(url).call("close_session", {"session": handle})
        assert slots.free == 1


async def test_a_full_server_says_when_to_come_again() -> None:
    async with live(Notepad, limits=Limits(max_sessions=1, queue_timeout_s=0.05)) as full:
        url = f"{full.url}/notepad/mcp"
        await seed(url)
        answer = await Raw(url).call("seed_session", {})
        assert answer["isError"] and answer["_meta"]["gymwire/code"] == "at_capacity"
        assert answer["_meta"]["gymwire/retry_after_s"] > 0


# ---- the SDK's sessions, progress, stdio


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("name", ["slow", "slow_in_a_thread"])
async def test_progress_reaches_a_client_that_asked(url: str, revision: str, name: str) -> None:
    handle = await seed(url)
    seen: list[tuple[float, float | None, str | None]] = []

    async def keep(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with client(url, revision, handle) as policy:
        arguments = {"seconds": 0} if name == "slow" else {}
        answer = await policy.call_tool(name, arguments, progress_callback=keep)
        assert not answer.is_error
        expected = [(0, 2, "begun"), (1, 2, None)] if name == "slow" else [(i, 3, f"step {i}") for i in range(3)]
        while len(seen) < len(expected):
            await asyncio.sleep(0.01)
    assert seen == expected


async def test_idle_sdk_sessions_do_not_pile_up() -> None:
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    headers = {"accept": "application/json, text/event-stream"}
    async with live(Notepad, limits=Limits(idle_timeout_s=0.1)) as brief, aiohttp.ClientSession() as http:
        url = f"{brief.url}/notepad/mcp"
        async with http.post(url, json=initialize, headers=headers) as response:
            headers |= {"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "Mcp-Protocol-Version": "2025-11-25"}
            await response.read()
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        for _ in range(50):
            await asyncio.sleep(0.2)
            async with http.post(url, json=ping, headers=headers) as response:
                if response.status == 404:
                    assert response.headers["X-Gymwire-Code"] == "not_found"
                    return
        raise AssertionError("the idle session is still there")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_stdio(revision: str) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "gymwire.servers.cli", "serve", "counter", "--stdio"]
    )
    mode: Any = revision
    async with Client(stdio_client(command), mode=mode) as plain:
        assert [item.name for item in (await plain.list_tools()).tools] == ["seed_session", "add", "read", "verify"]
        seeded = json.loads(text(await plain.call_tool("seed_session", {"split": "eval", "index": 2})))
        session = {"session": seeded["session"]}
        assert text(await plain.call_tool("add", {"n": 3, **session})) == "added"
        wrong = await plain.call_tool("add", {"n": "3", **session})
        assert code(wrong) == "invalid_arguments"
        assert json.loads(text(await plain.call_tool("verify", session)))["ending"] == "finished"


# ---- the door, hosts, bodies


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_nemo_gym_door_is_for_sessions_only(server: Live, url: str, revision: str) -> None:
    door = f"{server.url}/notepad/gym/mcp"
    handle = await seed(url)
    async with client(door, revision, handle) as policy:
        assert [item.name for item in (await policy.list_tools()).tools] == list(Notepad.tool_specs)
        assert text(await policy.call_tool("write", {"value": "a"})) == '"a"'
        assert code(await policy.call_tool("verify", {"session": handle})) == "unknown_tool"
    status, answer = await Raw(door).post("{}", {})
    assert status == 400 and answer["code"] == "invalid_request"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
    ],
)
async def test_pages_of_other_origins_are_refused(url: str, origin: str, status: int) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
    assert (await Raw(url).post(body, {"mcp-method": "tools/list", "origin": origin}))[0] == status


async def test_a_body_past_the_limit_is_refused() -> None:
    async with live(Notepad, max_body_bytes=10_000) as small, aiohttp.ClientSession() as http:
        url = f"{small.url}/notepad/mcp"
        body = request_text("tools/call", json.dumps({"value": "x" * 20_000}), "write", {})
        headers = {**Raw(url).headers, "mcp-method": "tools/call", "mcp-name": "write"}
        async with http.post(url, data=body, headers=headers) as response:
            assert response.status == 413 and response.headers["X-Gymwire-Code"] == "body_too_large"


async def test_a_body_in_many_pieces_is_one_call(url: str) -> None:
    handle, long = await seed(url), "ü" * 100_000
    assert raw_text(await Raw(url, handle).call("write", {"value": long})) == json.dumps(long)


async def test_calls_of_many_sessions_at_once_share_nothing(url: str) -> None:
    async def play(number: int) -> float:
        handle = await seed(url)
        for _ in range(number % 4):
            await Raw(url, handle).call("write", {"value": str(number)})
        return json.loads(raw_text(await Raw(url).call("verify", {"session": handle})))["components"]["calls"]

    assert await asyncio.gather(*map(play, range(64))) == [0.25 * (number % 4) for number in range(64)]


def test_content_blocks_are_what_the_sdk_accepts() -> None:
    from gymwire.servers.faces.mcp.tools import Said

    media = (Media("audio", "aGk=", "audio/wav"), Media("resource", "aGk=", "application/pdf", "test://a"))
    blocks = Said("", False, {}, media).content()
    types.CallToolResult.model_validate({"content": blocks})
    assert [block["type"] for block in blocks] == ["audio", "resource"]
    assert blocks[1]["resource"]["blob"] == "aGk="


async def test_plain_requests_never_reach_the_sdk(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of all requests, and five times cheaper without it."""
    handle = await seed(url)
    async with client(url, REVISIONS[0]) as plain, client(url, REVISIONS[0], handle) as policy:
        monkeypatch.setattr(SdkApp, "__call__", None)
        await plain.list_tools()
        await plain.call_tool("write", {"session": handle, "value": "a"})
        await policy.list_tools()
        await policy.call_tool("write", {"value": "b"}, meta={"gymwire/idempotency-key": "k"})
        await policy.call_tool("picture", {})
        await plain.call_tool("verify", {"session": handle})
        await plain.call_tool("close_session", {"session": handle})
