"""Spans, in memory and as a collector receives them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from gymwire.adapters import SessionFailed, connect
from gymwire.servers import EpisodeId, Row
from gymwire.servers.app import App
from gymwire.servers.catalog import Served
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.tracing import Tracing
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.servers.engine import Engine, refused
from tests.servers.talkative import SECRET, Talkative
from tests.serving import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture
def spans(engine: Engine) -> Iterator[InMemorySpanExporter]:
    """What the test's engine has traced."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine.tracing = Tracing(provider)
    yield exporter
    engine.tracing.close()


def named(spans: Sequence[ReadableSpan]) -> dict[str, ReadableSpan]:
    return {span.name.partition(" ")[0]: span for span in spans}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {key.removeprefix("gymwire."): value for key, value in (span.attributes or {}).items()}


async def test_seed_call_and_verify_are_spans_with_their_names(engine: Engine, spans: InMemorySpanExporter) -> None:
    session = await engine.seed(Served(Talkative), SeedRequest(Row(), caller_id="row:1:0:0"), wire="mcp")
    await session.call("say", b'{"where": "in_place"}')
    await session.verify()
    found = named(spans.get_finished_spans())
    own = {"environment": "talkative", "wire": "mcp", "session_id": session.id, "episode_id": "row:1:0:0"}
    assert attributes(found["seed"]) == own
    assert attributes(found["call"]) == own | {"tool": "say", "code": "ok"}
    assert attributes(found["verify"]) == own | {"ending": "finished", "reward": 1.0}
    assert [found[name].name for name in ("seed", "call", "verify")] == [
        f"{name} talkative" for name in ("seed", "call", "verify")
    ]


async def test_our_failures_alone_are_errors(engine: Engine, spans: InMemorySpanExporter) -> None:
    session = await engine.start(Talkative, Row(data={"secret": SECRET}))
    await session.call("not_there", b"{}")
    await session.call("say", json.dumps({"where": SECRET}).encode())
    await refused(engine.start(Talkative, split="none", index=9))
    wrong, broken, seed = spans.get_finished_spans()[1:]
    assert wrong.status.is_unset and attributes(wrong)["code"] == "unknown_tool" and "tool" not in attributes(wrong)
    assert broken.status.status_code is trace.StatusCode.ERROR
    assert attributes(broken).items() >= {"failure_kind": "talkative:exception", "failure_stage": "call"}.items()
    assert seed.status.is_unset and attributes(seed)["code"] == "invalid_row"
    assert SECRET not in str([span.to_json() for span in spans.get_finished_spans()])


async def test_what_a_tool_traces_is_its_calls_child(engine: Engine, spans: InMemorySpanExporter) -> None:
    before = trace.get_current_span()
    session = await engine.start(Talkative)
    assert trace.get_current_span() is before
    assert engine.tracing is not None
    await asyncio.gather(*(session.call("say", b'{"where": "in_task"}') for _ in range(3)))
    assert trace.get_current_span() is before and Tracing.ids() == {}
    calls = [span for span in spans.get_finished_spans() if span.name.startswith("call")]
    assert len({span.context.trace_id for span in calls if span.context}) == 3
    span = engine.tracing.begin("call", "x", "local")
    inner = Tracing.ids()
    span.end_of(None)
    assert len(inner["trace_id"]) == 32 and len(inner["span_id"]) == 16


async def test_a_request_goes_on_with_the_trace_of_its_header(engine: Engine, spans: InMemorySpanExporter) -> None:
    assert engine.tracing is not None
    app = engine.tracing.carried(App([Served(Talkative)], engine))
    parent = (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())
    assert await posted(app, "seed_session", [parent]) == 200
    assert await posted(app, "seed_session", [(b"traceparent", b"nonsense")]) == 200
    first, second = spans.get_finished_spans()
    assert first.parent is not None and trace.format_span_id(first.parent.span_id) == PARENT
    assert first.context is not None and trace.format_trace_id(first.context.trace_id) == TRACE
    assert second.parent is None


async def posted(app: Any, route: str, headers: list[tuple[bytes, bytes]]) -> int:
    said: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if said:
            return {"type": "http.disconnect"}
        said.append({})
        return {"type": "http.request", "body": b"{}"}

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    async def until_left() -> dict[str, Any]:
        return await receive() if not said else await asyncio.Future()

    scope = {"type": "http", "method": "POST", "path": f"/talkative/gym/{route}", "headers": headers}
    await app(scope, until_left, send)
    return said[1]["status"]


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A collector that speaks OTLP over HTTP: its address, and what it received."""
    received: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        received.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", received
    await runner.cleanup()


async def test_a_server_sends_its_spans_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with collector() as (url, received):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        log = tmp_path / "log"
        server = serving(log, "tests.servers.talkative:Talkative", "--log-format", "json")
        running = await asyncio.to_thread(server.__enter__)
        try:
            await episode(running.url)
        finally:
            await asyncio.to_thread(server.__exit__, None, None, None)
    found = [
        span for sent in received for part in sent.resource_spans for scope in part.scope_spans for span in scope.spans
    ]
    resource = {item.key: item.value.string_value for item in received[0].resource_spans[0].resource.attributes}
    assert resource["service.name"] == "gymwire"
    assert sorted(span.name for span in found) == ["call talkative", "call talkative", "seed talkative"]
    for span in found:
        said = {item.key: item.value.string_value for item in span.attributes}
        assert said["gymwire.episode_id"] == "row:0:0:0" and said["gymwire.session_id"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    line = next(line for line in lines if line["message"] == "said in_place")
    assert (line["trace_id"], line["span_id"]) in {(span.trace_id.hex(), span.span_id.hex()) for span in found}
    assert SECRET not in str(found)


async def episode(url: str) -> None:
    async with connect(url) as connection:
        row = Row(data={"secret": SECRET})
        async with connection.session(row=row, episode=EpisodeId("row")) as session:
            await session.call("say", {"where": "in_place"})
            with pytest.raises(SessionFailed):
                await session.call("say", {"where": SECRET})


def test_without_it_nothing_is_imported() -> None:
    """OpenTelemetry's interface alone is there in any case: mcp needs it."""
    heavy = {"opentelemetry.sdk", "gymwire.servers.tracing"}
    program = f"import sys, gymwire.servers.commands.serve; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("option", "status", "words"), [("--otel", 2, "pip install 'gymwire[otel]'"), ("", 0, "no traces")]
)
def test_what_is_not_installed_is_told(option: str, status: int, words: str) -> None:
    """With the option it is an error; a variable that a platform sets everywhere is not."""
    program = (
        "import sys, importlib.util as u; real = u.find_spec; from gymwire.servers.commands import watch_options as w;"
        "w.find_spec = lambda name, *rest: None if name.startswith('opentelemetry') else real(name, *rest);"
        f"import typer; typer.run(lambda: print(w.begin(w.logs.LogFormat.TEXT, {bool(option)})))"
    )
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == status and words in done.stderr
