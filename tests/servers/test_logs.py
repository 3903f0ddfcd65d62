from __future__ import annotations

import asyncio
import io
import json
import logging
import warnings
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from gymwire.adapters import SessionFailed, connect
from gymwire.servers import EpisodeId, Row
from gymwire.servers.catalog import Served
from gymwire.servers.logs import LogFormat, configure
from gymwire.servers.seeding import SeedRequest

from tests.servers.engine import Engine
from tests.servers.talkative import SECRET, Talkative
from tests.serving import serving

TALKATIVE = "tests.servers.talkative:Talkative"


class Written:
    """A log in memory, in the form that a test asks for."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    def begin(self, form: LogFormat, **options: Any) -> None:
        configure(form, **options)
        handler = logging.getLogger().handlers[0]
        assert isinstance(handler, logging.StreamHandler)
        handler.setStream(self.stream)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    def saying(self, words: str) -> dict[str, Any]:
        found = [line for line in self.lines if words in line["message"]]
        assert len(found) == 1, self.text
        return found[0]


@pytest.fixture
def written() -> Written:
    return Written()


async def test_a_line_is_one_object_with_the_usual_keys(written: Written) -> None:
    written.begin(LogFormat.JSON)
    logging.getLogger("some.library").warning("two\nlines of %s", "text")
    line = written.lines[0]
    assert datetime.fromisoformat(line.pop("ts")).tzinfo is not None
    assert line == {"level": "warning", "logger": "some.library", "message": "two\nlines of text"}


async def test_logs_of_an_environment_name_their_session(written: Written, engine: Engine) -> None:
    written.begin(LogFormat.JSON)
    request = SeedRequest(row=Row(), caller_id="row:1:0:0")
    session = await engine.seed(Served(Talkative), request, wire="mcp")
    for where in ("reset", "in_place", "in_task", "in_thread", "started_thread"):
        if where != "reset":
            await session.call("say", json.dumps({"where": where}).encode())
    await session.verify()
    await engine.drain(0)
    own = {"session_id": session.id, "episode_id": "row:1:0:0", "environment": "talkative", "wire": "mcp"}
    for words in (
        "said in_place",
        "said in_task",
        "said in_thread",
        "said started_thread",
        "reset",
        "verify",
        "closed",
    ):
        tool = {"tool": "say"} if words.startswith("said") else {}
        assert written.saying(words).items() >= (own | tool).items(), words
        assert ("tool" in written.saying(words)) is bool(tool)
    assert session.handle not in written.text


async def test_sessions_beside_each_other_keep_their_own_names(written: Written, engine: Engine) -> None:
    written.begin(LogFormat.JSON)
    sessions = [await engine.start(Talkative) for _ in range(8)]
    await asyncio.gather(*(session.call("say", b'{"where": "in_task"}') for session in sessions))
    said = [line["session_id"] for line in written.lines if line["message"] == "said in_task"]
    assert sorted(said) == sorted(session.id for session in sessions)
    logging.getLogger("x").info("outside")
    assert "session_id" not in written.saying("outside")


async def test_a_failure_is_named_by_kind_stage_and_tool(written: Written, engine: Engine) -> None:
    written.begin(LogFormat.JSON)
    session = await engine.start(Talkative, Row(data={"secret": SECRET}))
    await session.call("say", json.dumps({"where": "nowhere " + SECRET}).encode())
    line = written.saying("failed")
    assert line["level"] == "error" and line["logger"] == "gymwire.failures"
    named = {key: line[key] for key in ("session_id", "environment", "tool", "failure_kind", "failure_stage")}
    assert named == {
        "session_id": session.id,
        "environment": "talkative",
        "tool": "say",
        "failure_kind": "talkative:exception",
        "failure_stage": "call",
    }
    assert SECRET not in written.text and session.handle not in written.text


async def test_text_marks_what_an_environment_says(written: Written, engine: Engine) -> None:
    written.begin(LogFormat.TEXT)
    session = await engine.start(Talkative)
    await session.call("say", b'{"where": "in_place"}')
    await session.call("say", b'{"where": "nowhere"}')
    said, failed = [line for line in written.text.splitlines() if "said" in line or "failed:" in line]
    assert f"INFO said in_place [session_id={session.id} environment=talkative wire=local tool=say]" in said
    assert not failed.endswith("]")


async def test_what_cannot_be_written_is_written_all_the_same(written: Written) -> None:
    written.begin(LogFormat.JSON)
    logging.getLogger("x").error("a lone \ud800 surrogate")
    assert written.lines[0]["message"] == "a lone ? surrogate"
    try:
        raise ValueError("trouble")
    except ValueError:
        logging.getLogger("x").exception("caught")
    assert "ValueError: trouble" in written.saying("caught")["exception"]


async def test_warnings_and_traces_go_the_same_way(written: Written) -> None:
    written.begin(LogFormat.JSON, trace_ids=lambda: {"trace_id": "t", "span_id": "s"})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", UserWarning, stacklevel=1)
    line = written.lines[0]
    assert line["logger"] == "py.warnings" and (line["trace_id"], line["span_id"]) == ("t", "s")


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_a_server_writes_nothing_but_objects_and_knows_the_episode(tmp_path: Path, wire: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("sesame\n")
    log = tmp_path / "log"
    with serving(log, TALKATIVE, "--log-format", "json", "--token-file", str(tokens)) as running:
        async with connect(running.url, wire=wire, token="sesame") as connection:
            episode = EpisodeId("row/1", sample=2)
            async with connection.session(row=Row(data={"secret": SECRET}), episode=episode) as session:
                await session.call("say", {"where": "in_place"})
                with pytest.raises(SessionFailed):
                    await session.call("say", {"where": f"nowhere {SECRET}"})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {"ts", "level", "logger", "message"} <= set.intersection(*map(set, lines))
    said = next(line for line in lines if line["message"] == "said in_place")
    failed = next(line for line in lines if "failure_kind" in line)
    for line in (said, failed):
        assert (line["episode_id"], line["wire"]) == ("row%2F1:0:2:0", wire)
    assert said["session_id"] == failed["session_id"]
    assert SECRET not in log.read_text() and "sesame" not in log.read_text()


def test_threads_of_nobody_are_marked_with_nothing(written: Written) -> None:
    written.begin(LogFormat.JSON)
    thread = Thread(target=lambda: logging.getLogger("x").info("alone"))
    thread.start()
    thread.join()
    assert "session_id" not in written.saying("alone")
