from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from gymwire.servers import Environment, SessionFailure, ToolError, Transcript, tool
from gymwire.servers.app import App
from gymwire.servers.catalog import Served
from gymwire.servers.graders import Grader, Router
from gymwire.servers.metrics import MAX_KINDS, MAX_TOOLS, Metrics
from gymwire.servers.process_figures import process_text
from gymwire.servers.types import Ending, Failure, Row

from tests.servers.engine import Engine, Notes, call, refused, until
from tests.servers.scrape import Scrape, lint
from tests.serving import serving


class Moods(Environment):
    """Does as it is told."""

    @tool
    async def do(self, what: str) -> str:
        """Do something."""
        if what == "err":
            raise ToolError("no")
        if what == "break":
            raise RuntimeError("broken")
        if what.startswith("invent"):
            raise SessionFailure("x", kind=what)
        return what

    def verify(self, transcript: Transcript) -> float:
        return 1.0


def scraped(engine: Engine) -> Scrape:
    text = engine.metrics.text()
    assert lint(text) == []
    return Scrape.of(text)


async def test_an_episode_is_counted_from_seed_to_ending(engine: Engine) -> None:
    session = await engine.start(Moods)
    before = scraped(engine)
    assert before.get("gymwire_sessions", environment="moods", state="seeded") == 1
    assert before.get("gymwire_slots") == 64 and before.get("gymwire_slots_free") == 63
    for what in ("x", "y", "err"):
        await call(session, "do", what=what)
    await call(session, "nothing")
    await session.verify(ending=Ending.CUT)
    read = scraped(engine)
    where = {"environment": "moods", "wire": "local"}
    assert read.get("gymwire_seeds_total", **where) == 1
    assert read.get("gymwire_seed_seconds_count", **where) == 1
    assert [read.get("gymwire_calls_total", **where, code=code) for code in ("ok", "tool_error", "unknown_tool")] == [
        2,
        1,
        1,
    ]
    assert read.get("gymwire_call_seconds_count", **where) == 4
    assert read.get("gymwire_verify_seconds_count", **where) == 1
    assert read.get("gymwire_episodes_total", **where, ending="cut") == 1
    assert read.get("gymwire_sessions", state="verified") == 1 and read.get("gymwire_slots_free") == 64


async def test_each_way_to_end_is_told_apart(engine: Engine) -> None:
    await (await engine.start(Moods)).verify()
    await call(await engine.start(Moods), "do", what="break")
    await engine.close(await engine.start(Moods))
    await engine.start(Moods)
    engine.time_s += 10_000
    assert engine.sweep() == 1
    await engine.start(Moods)
    await engine.drain(0)
    read = scraped(engine)
    endings = {labels["ending"]: value for labels, value in read.values["gymwire_episodes_total"]}
    assert endings == {"finished": 1, "cut": 0, "failed": 3, "closed": 1}
    kinds = {(labels["kind"], labels["stage"]): labels["tool"] for labels, _ in read.values["gymwire_failures_total"]}
    assert kinds == {
        ("moods:exception", "call"): "do",
        ("session_expired", "idle"): "",
        ("session_lost", "drain"): "",
    }
    assert read.get("gymwire_reclaimed_total") == 1
    assert read.get("gymwire_drained_total", fate="failed") == 1
    assert read.get("gymwire_drained_total", fate="handed_over") == 0


async def test_the_queue_and_what_it_refuses() -> None:
    engine = Engine(max_sessions=1, queue_timeout_s=0.05)
    first = await engine.start(Notes)
    waiting = asyncio.ensure_future(refused(engine.start(Notes)))
    await until(lambda: engine.slots.queued == 1)
    assert scraped(engine).get("gymwire_seeds_queued") == 1
    assert (await waiting).code == "at_capacity"
    await refused(engine.start(Notes, split="none", index=1))
    read = scraped(engine)
    assert read.get("gymwire_seeds_refused_total", environment="notes", wire="local", code="at_capacity") == 1
    assert read.get("gymwire_seeds_refused_total", code="invalid_row") == 1
    assert read.get("gymwire_queue_seconds_count") == 1
    await engine.close(first)
    await engine.drain(0)


async def test_inventions_of_one_environment_fill_only_their_own_room(engine: Engine) -> None:
    metrics = Metrics()
    for number in range(3 * MAX_KINDS):
        metrics.failed("hostile", Failure(f"hostile:{number}", "x", "call", f"tool_{number}"))
    for kind in ("session_expired", "verifier_error"):
        metrics.failed("hostile", Failure(kind, "x", "idle"))
    metrics.failed("shop", Failure("shop:exception", "x", "call", "buy"))
    read = Scrape.of(metrics.text())
    labels = [labels for labels, _ in read.values["gymwire_failures_total"]]
    hostile = {item["kind"] for item in labels if item["environment"] == "hostile"}
    assert len(hostile) == MAX_KINDS + 3 and {"other", "session_expired", "verifier_error"} <= hostile
    assert len({item["tool"] for item in labels if item["environment"] == "hostile"}) == MAX_TOOLS + 2
    assert read.get("gymwire_failures_total", environment="shop", kind="shop:exception", tool="buy") == 1


async def test_hostile_names_stay_readable(engine: Engine) -> None:
    session = await engine.start(Moods)
    await call(session, 'x"}\n# HELP evil\x00' + "y" * 600)
    await call(session, "do", what='invent"\n}\\')
    read = scraped(engine)
    assert read.get("gymwire_calls_total", code="unknown_tool") == 1
    assert read.series("gymwire_failures_total") == 1


async def test_graders_are_timed_and_their_breaking_counted() -> None:
    async def slow(completion: str) -> float:
        await asyncio.sleep(0)
        return 1.0

    async def late_broken(completion: str) -> float:
        await asyncio.sleep(0)
        raise RuntimeError

    def broken(completion: str) -> float:
        raise RuntimeError

    functions = {"quick": lambda completion: 0.5, "slow": slow, "broken": broken, "late_broken": late_broken}
    router = Router(extra={name: Grader.of(name, function) for name, function in functions.items()})
    before = Scrape.of(process_text())
    assert await graded(router, ["quick", "slow"]) == {"quick": 0.5, "slow": 1.0}
    for name in ("broken", "late_broken"):
        with pytest.raises(RuntimeError):
            await graded(router, [name])
    after = Scrape.of(process_text())

    def more(name: str, grader: str) -> float:
        return after.get(name, grader=grader) - before.get(name, grader=grader)

    assert [more("gymwire_grader_seconds_count", name) for name in functions] == [1, 1, 0, 0]
    assert [more("gymwire_grader_failures_total", name) for name in functions] == [0, 0, 1, 1]


async def graded(router: Router, names: list[str]) -> dict[str, float]:
    made = router.plan(Row(data={"verifier": names})).grade(Transcript())
    return made if isinstance(made, dict) else await made


async def test_refusals_at_the_door_are_counted() -> None:
    app = App([Served(Notes)])

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: object) -> None:
        return None

    scope = {"type": "http", "method": "PUT", "path": "/notes/gym/verify", "headers": []}
    await app(scope, receive, send)
    read = Scrape.of(app.sessions.metrics.text())
    assert read.get("gymwire_requests_refused_total", code="method_not_allowed") == 1


def test_a_served_process_tells_of_itself(tmp_path: Path) -> None:
    ask = build_opener(ProxyHandler({})).open
    with serving(tmp_path / "log", "counter") as running, ask(f"{running.url}/metrics", timeout=10) as answer:
        text = answer.read()
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert lint(text) == []
    read = Scrape.of(text)
    assert read.get("gymwire_open_connections") >= 1
    assert read.get("gymwire_build_info") == 1
    assert read.get("process_resident_memory_bytes") > 1e6 and read.get("process_open_fds") > 3
    assert read.get("process_cpu_seconds_total") > 0
