"""Servers that answer with nonsense, or never: a verdict or one sentence, in time, and nothing that only looks so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from gymwire.adapters import WrongRequest
from gymwire.adapters.doctor.examples import no_example
from gymwire.adapters.doctor.findings import Finding, Verdict
from gymwire.adapters.doctor.leaks import leaked
from gymwire.adapters.doctor.opening import Target, open_patient
from gymwire.adapters.doctor.patient import Options
from gymwire.adapters.doctor.run import CannotExamine, examine
from gymwire.adapters.patience import Undelivered
from gymwire.adapters.pool import Pool
from gymwire.servers.labels import Private
from gymwire.servers.sessions import Limits
from gymwire.servers.types import Row, Tool
from yarl import URL

from tests.adapters.doctor.bad_server import Answer, Ask, Fault, Request, standing
from tests.adapters.doctor.tampering import answered, first_schema, is_tool

ROW = Row.from_json(
    {
        "responses_create_params": {
            "input": "Write.",
            "tools": [{"type": "function", "name": "write", "parameters": {"type": "object", "properties": {}}}],
        }
    }
)


async def examined(url: str, wire: str, **given: Any) -> dict[str, Finding]:
    patient = await open_patient(Target(url, wire, rows=[ROW] if wire == "nemo-gym" else ()), Options(**given))
    try:
        return {finding.promise.name: finding for finding in await examine(patient)}
    finally:
        await patient.wire.place.pool.close()


async def of_ours(fault: Fault, wire: str, *only: str) -> dict[str, Finding]:
    with standing(fault) as url:
        patient = await open_patient(
            Target(url, wire), Options(sessions=8, only=frozenset(only), skip=frozenset({"half-open"}))
        )
        try:
            return {finding.promise.name: finding for finding in await examine(patient)}
        finally:
            await patient.wire.place.pool.close()


@asynccontextmanager
async def stranger(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    """A server of somebody else that answers everything so, but `/environments`."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404) if request.path.endswith("/environments") else await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    async with TestServer(app) as server:
        yield str(server.make_url("/game"))


# ---- tools


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": {"a": 1}},
        {"enum": 5},
        {"type": "string", "minLength": "x"},
        {"type": "array", "minItems": "x"},
        {"anyOf": {"a": 1}},
        {"type": "integer", "minimum": "x"},
        {"type": "object", "required": 5},
        {"type": "object", "required": ["a"], "properties": 5},
        {"type": "object", "required": [5]},
    ],
)
async def test_a_tool_without_a_schema_is_not_called(schema: Any) -> None:
    fault = first_schema(lambda parameters: parameters["properties"].update(text=schema))()
    found = await of_ours(fault, "nemo-gym", "tool-schemas", "shapes", "bad-arguments")
    assert found["tool-schemas"].verdict is Verdict.FAIL
    assert found["shapes"].verdict is Verdict.PASS
    assert "write is left out of the other probes: its schema is no JSON schema" in found["shapes"].reason
    assert found["bad-arguments"].verdict is Verdict.PASS


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 10**13},
        {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 1000, "items": {"type": "string"}}},
    ],
)
def test_no_call_is_as_long_as_a_schema_asks_for(schema: Any) -> None:
    tool = Tool("t", "", {"type": "object", "properties": {"a": schema}, "required": ["a"]})
    assert no_example(tool) == "its schema asks for more than 1000000 characters"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 10**400},
        {"type": "integer", "minimum": float("inf")},
        {"type": "number", "minimum": 10**400, "maximum": 10**401},
        {"const": 10**30},
        {"const": "\ud800"},
    ],
)
async def test_numbers_and_texts_that_json_hardly_carries_are_sent_somehow(schema: Any) -> None:
    fault = first_schema(lambda parameters: parameters["properties"].update(text=schema))()
    found = await of_ours(fault, "nemo-gym", "shapes")
    assert found["shapes"].verdict is Verdict.PASS


async def test_where_every_call_is_an_error_nothing_is_compared_and_nothing_timed() -> None:
    def only_errors(request: Request, answer: Answer) -> Answer:
        if is_tool(request):
            answer.status = 422
        return answer

    found = await of_ours(answered(only_errors)(), "nemo-gym", "isolated", "cookie-kept", "latency")
    assert {finding.verdict for finding in found.values()} == {Verdict.NOT_APPLICABLE}
    assert all("--call" in finding.reason for finding in found.values())


# ---- small servers, and slow ones


class Single(Fault):
    limits = Limits(max_sessions=1, queue_timeout_s=0.2)


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_server_of_one_session_breaks_no_promise(wire: str) -> None:
    found = await of_ours(Single(), wire)
    assert {name: finding.reason for name, finding in found.items() if finding.is_bad} == {}
    assert found["capacity"].verdict is found["masked"].verdict is Verdict.PASS


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_rate_limit_is_not_taken_for_slowness(wire: str) -> None:
    def limited(request: Request, answer: Answer) -> Answer:
        if request.path == "/environments":
            body = answer.json()
            assert body["limits"]["rate_limit"] == 0.0
            body["limits"]["rate_limit"] = 5.0
            answer.say(body)
        return answer

    found = await of_ours(answered(limited)(), wire, "latency")
    assert found["latency"].verdict is Verdict.NOT_APPLICABLE and "5 times a second" in found["latency"].reason


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_server_that_never_answers_costs_the_limit(wire: str) -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with stranger(never) as url, asyncio.timeout(15.0):
        with pytest.raises((WrongRequest, CannotExamine), match=r"within 0\.5 s"):
            await examined(url, wire, seconds=0.5)


async def test_a_seed_that_a_probe_itself_needs_and_is_refused_breaks_the_promise() -> None:
    class Twice(Fault):
        def __init__(self) -> None:
            self.seeds = 0

        async def http(self, request: Request, ask: Ask) -> Answer:
            answer = await ask(request)
            self.seeds += request.route == "seed_session"
            if request.route == "seed_session" and self.seeds > 3:
                answer.status = 500
            return answer

    found = await of_ours(Twice(), "nemo-gym", "unknown-handle", "masked")
    assert [(f.verdict, f.reason) for f in found.values()] == [
        (Verdict.FAIL, "a seed was refused where none should be")
    ] * 2
    assert all(finding.evidence for finding in found.values())


# ---- nonsense


NONSENSE = [b"[1]", b"<html>", b'{"action": 5}', b'{"result": {"tools": 5}}', b"\xff", b"{" * 9999, b'{"a":' * 9999]


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
@pytest.mark.parametrize("body", NONSENSE)
async def test_nonsense_is_one_sentence(wire: str, body: bytes) -> None:
    async def nonsense(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json", headers={"Set-Cookie": "a=\x01; x"})

    async with stranger(nonsense) as url:
        try:
            found = await examined(url, wire, seconds=20.0, sessions=4)
        except (WrongRequest, CannotExamine) as error:
            assert str(error)
        else:
            assert any(finding.is_bad for finding in found.values())


@pytest.mark.parametrize(
    "message",
    [
        {"type": ["x"], "data": {"observation": 5, "reward": 1.0, "done": "x", "metadata": 5}},
        {"type": "observation", "data": {"observation": {"error": 5, "result": {"content": [5]}}, "done": False}},
        {"type": "observation", "data": {"observation": {"tools": [5]}, "metadata": {"code": ["x"]}}},
        {"type": "error", "data": {"code": ["x"], "message": "\ud800", "metadata": {"code": [1]}}},
    ],
)
async def test_messages_of_no_known_form_are_one_sentence_or_a_verdict(message: Any) -> None:
    async def odd(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/ws"):
            return web.json_response({"action": {"properties": {"tool_name": {}}}})
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for asked in socket:
            if asked.json().get("type") == "close":
                break
            await socket.send_str(json.dumps(message))
        return socket

    async with stranger(odd) as url:
        try:
            found = await examined(url, "openenv", seconds=20.0, sessions=4, only=frozenset({"shapes"}))
        except CannotExamine as error:
            assert str(error)
        else:
            assert found["shapes"].is_bad


@pytest.mark.parametrize(
    "listing",
    [
        {"environments": ["a"], "limits": {}},
        {"environments": [{"wires": {}}], "limits": {}},
        {"environments": [{"name": "a", "wires": []}], "limits": {}},
        {"environments": [{"name": "a", "wires": {"mcp": 5}}], "limits": {}},
        {"environments": [{"name": "a", "wires": {}, "tools": [5]}], "limits": {}},
        {"environments": [{"name": "a", "wires": {}, "splits": {"train": "many"}}], "limits": {}},
        {"environments": [{"name": "a", "wires": {}}], "limits": {"queue_timeout_s": "long"}},
        {"environments": [{"name": "a", "wires": {}}], "limits": {"idle_timeout_s": -1}},
        {"environments": [{"name": "a", "wires": {}}], "limits": {"max_sessions": [8]}},
    ],
)
async def test_a_list_of_environments_that_is_not_ours_is_a_strangers(listing: Any) -> None:
    async def listed(request: web.Request) -> web.StreamResponse:
        return web.json_response(listing)

    app = web.Application()
    app.router.add_get("/environments", listed)
    async with TestServer(app) as server:
        with pytest.raises(WrongRequest, match="is no gymwire server"):
            await open_patient(Target(str(server.make_url("/"))), Options())


async def test_an_answer_without_an_end_is_none() -> None:
    async def long(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"x" * 1000)

    async with stranger(long) as url:
        async with Pool(ours=False, max_bytes=1000) as pool:
            assert len((await pool.get(URL(url), timeout_s=10.0)).body) == 1000
        async with Pool(ours=False, max_bytes=999) as pool:
            with pytest.raises(Undelivered):
                await pool.get(URL(url), timeout_s=10.0)


# ---- leaks


def test_a_label_is_found_however_json_writes_it_and_however_deep_it_stands() -> None:
    label = Private("solution", "solution", 'two\n"lines"', True)
    assert leaked({"debug": ['it is two\n"lines"']}, [label], "") == [label]
    deep: Any = {"debug": label.value}
    for _ in range(20_000):
        deep = [deep]
    assert leaked(deep, [label], "") == [label]
    assert leaked("[" * 200_000, [label], "") == []
