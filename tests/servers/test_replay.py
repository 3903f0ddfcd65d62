"""Rows that others wrote, whatever they ask for, played against a server that knows nothing but the rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from gymwire.adapters import connect
from gymwire.adapters.drive import drive
from gymwire.servers import Environment, Row, Transcript
from gymwire.servers.environment import passed_on
from gymwire.servers.policies import Call, Script
from gymwire.servers.row_forms import to_chat, to_gym
from gymwire.servers.rows import read_rows
from gymwire.servers.types import Json, Tool

from tests.row_files import FILES, FOLDER, row_file
from tests.serving import Running, serving

WIRES = ("local", "nemo-gym", "openenv", "mcp")


async def _replay(name: str, environment: Replay, arguments: bytes) -> str:
    return environment.replay(name, json.loads(arguments))


class Replay(Environment):
    """Offers the tools that a row names. A call that stands in the row's history is answered as it was there, any
    other with itself; the reward is the share of the row's tools that were called with arguments of their schema."""

    name = "replay"

    def reset(self, row: Row) -> None:
        self.called: set[str] = set()
        self.known = dict(_recorded(row.prompt))

    def tools_for(self, row: Row) -> Iterable[Tool]:
        return row.tools or ()

    def replay(self, name: str, arguments: Json) -> str:
        self.called.add(name)
        return self.known.get((name, _key(arguments))) or json.dumps({"tool": name, "arguments": arguments})

    def verify(self, transcript: Transcript) -> float:
        tools = [tool.name for tool in self.row.tools or ()]
        if not tools:
            return float(bool(transcript.answer))
        return len(self.called.intersection(tools)) / len(tools)


def _key(arguments: Json) -> str:
    return json.dumps(arguments, sort_keys=True)


def _recorded(prompt: Iterable[Json]) -> Iterator[tuple[tuple[str, str], str]]:
    """Calls of a row's history and what they were answered."""
    calls = {item.get("call_id"): item for item in prompt if item.get("type") == "function_call"}
    for item in prompt:
        if item.get("type") == "function_call_output" and (call := calls.get(item.get("call_id"))):
            yield (call["name"], _key(json.loads(call["arguments"]))), str(item["output"])


def replay_of(rows: Iterable[Row]) -> type[Replay]:
    """The environment that offers every tool that some row names."""
    tools = {tool.name: tool for row in rows for tool in row.tools or ()}
    specs = tuple(passed_on(tool, partial(_replay, tool.name)) for tool in tools.values())
    return type("ReplayOfRows", (Replay,), {"name": "replay", "tools": specs})


def all_rows() -> list[Row]:
    return [row for name in FILES for row in read_rows(row_file(f"{name}.jsonl"))]


def __getattr__(name: str) -> Any:
    """`tests.servers.test_replay:Served`, for a server process: read when it is asked for."""
    if name != "Served":
        raise AttributeError(name)
    return replay_of(all_rows())


def caller(row: Row) -> Script:
    """Calls every tool of the row once, with arguments drawn from its schema, and says that it is done."""
    rng = Random(0)
    for tool in row.tools or ():
        result = yield Call(tool.name, example_of(tool.parameters, rng))
        assert not result.is_error, (tool.name, result.text)
    return "Done."


def example_of(schema: Json, rng: Random) -> Any:
    """A value of a schema as these rows use it."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next(item for item in kind if item != "null")
    if kind == "object":
        wanted = schema.get("required", ())
        return {key: example_of(inner, rng) for key, inner in schema.get("properties", {}).items() if key in wanted}
    if kind == "array":
        return [example_of(schema.get("items", {}), rng)]
    return {"integer": 3, "number": 2.5, "boolean": True}.get(str(kind), "text")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return all_rows()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    row_file(f"{FILES[0]}.jsonl")
    log = tmp_path_factory.mktemp("replay") / "log"
    with serving(log, "tests.servers.test_replay:Served") as running:
        yield running


def test_no_file_is_forgotten() -> None:
    row_file(f"{FILES[0]}.jsonl")
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(FILES)


@pytest.mark.parametrize("wire", WIRES)
async def test_every_row_plays(rows: list[Row], server: Running, wire: str) -> None:
    target = connect(replay_of(rows)) if wire == "local" else connect(server.url, wire=wire)
    async with target as connection:
        for row in rows:
            async with connection.session(row=row) as session:
                assert list(session.prompt) == list(row.prompt)
                assert [(tool.name, tool.parameters) for tool in session.tools] == [
                    (tool.name, tool.parameters) for tool in row.tools or ()
                ]
                played = await drive(session, caller(row))
                assert played.outcome.reward == 1.0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_of_the_history_is_answered_as_it_was(rows: list[Row], server: Running, wire: str) -> None:
    row, (name, arguments), output = next(
        (row, key, output) for row in rows for key, output in _recorded(row.prompt) if row.tools
    )
    target = connect(replay_of(rows)) if wire == "local" else connect(server.url, wire=wire)
    async with target as connection, connection.session(row=row) as session:
        assert (await session.call(name, json.loads(arguments))).text == output


@pytest.mark.parametrize("name", FILES)
def test_rows_lose_nothing_on_the_way_there_and_back(name: str) -> None:
    path: Path = row_file(f"{name}.jsonl")
    for line in path.read_text().splitlines():
        raw = json.loads(line)
        assert Row.from_json(raw).to_json() == raw
        assert to_gym(to_chat(raw)) == raw
