"""Servers that others wrote, driven directly and through a bridge on the other wires; and what breaks in between."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import Connection, McpOptions, OpenEnvOptions, SessionFailed, connect
from gymwire.servers import Row
from gymwire.servers.rows import read_rows
from gymwire.servers.types import FailureKind, Json, Outcome, ToolResult

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in
from tests.peers.foreign_servers import (
    Foreign,
    everything_command,
    everything_over_http,
    openenv_template,
    upstream_nemo_gym,
)
from tests.row_files import row_file
from tests.serving import Running, serving

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]
WIRES = ("nemo-gym", "openenv", "mcp")
STATE, WEATHER = "example_session_state_mgmt", "example_mcp_weather"
Calls = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Origin:
    """What is bridged, how it is driven without a bridge, and the options of the bridge."""

    wire: str
    target: str | list[str]
    row: Row
    calls: Calls
    reward: float
    options: tuple[str, ...] = ()
    mcp: McpOptions | None = None
    openenv: OpenEnvOptions | None = None
    answer: str = "done"

    @property
    def words(self) -> str:
        return self.target if isinstance(self.target, str) else " ".join(self.target)


def upstream(foreign: Foreign) -> Origin:
    file = row_file(f"{STATE}.jsonl")
    row = read_rows(file)[0]
    calls = [("increment_counter", {"count": 3}), ("get_counter_value", {}), ("increment_counter", {"count": "x"})]
    return Origin("nemo-gym", foreign.url, row, calls, 1.0, ("--rows", str(file)))


def parrot(foreign: Foreign) -> Origin:
    calls = [("act", {"message": "hi"}), ("act", {"msg": 1}), ("act", {"message": "hello you"})]
    return Origin("openenv", foreign.url, Row(), calls, 1.1, ("--reward", "sum"), openenv=OpenEnvOptions("act", "sum"))


def everything(target: str | list[str]) -> Origin:
    """Scored by a grader of ours, as the reference server has none."""
    calls = [("echo", {"message": "hi"}), ("get-sum", {"a": 2, "b": 3}), ("echo", {}), ("get-tiny-image", {})]
    row = Row.of("What is 2 + 3?", expected_answer="5")
    options = McpOptions(allowed_tools=("echo", "get-sum", "get-tiny-image"), grader=lambda transcript: 1.0)
    words = ("--grader", "exact", *(word for name in options.allowed_tools for word in ("--allow", name)))
    return Origin("mcp", target, row, calls, 1.0, words, mcp=options, answer="5")


@pytest.fixture(scope="module", params=["upstream", "parrot", "everything-http", "everything-stdio"])
def origin(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Origin]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "upstream":
        with upstream_nemo_gym(STATE, folder) as foreign:
            yield upstream(foreign)
    elif request.param == "parrot":
        with openenv_template(folder) as foreign:
            yield parrot(foreign)
    elif request.param == "everything-http":
        with everything_over_http(folder) as foreign:
            yield everything(foreign.url)
    else:
        yield everything(everything_command())


@pytest.fixture(scope="module")
def bridge(origin: Origin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with bridged(origin, tmp_path_factory.mktemp("bridge")) as running:
        yield running


@contextmanager
def bridged(origin: Origin, folder: Path, *more: str) -> Iterator[Running]:
    words = (origin.words, "--from", origin.wire, *origin.options, *more)
    with serving(folder / "bridge.log", *words, command="bridge") as running:
        yield running


def direct(origin: Origin) -> Connection:
    return connect(origin.target, wire=origin.wire, mcp=origin.mcp, openenv=origin.openenv)


async def play(connection: Connection, origin: Origin) -> tuple[list[ToolResult], Outcome]:
    async with connection.session(row=origin.row if origin.row != Row() else None) as session:
        assert session.prompt, session
        results = [await session.call(name, dict(arguments)) for name, arguments in origin.calls]
        return results, await session.verify([{"role": "assistant", "content": origin.answer}])


@pytest.mark.parametrize("wire", WIRES)
async def test_a_bridged_episode_is_the_one_that_the_origin_plays(origin: Origin, bridge: Running, wire: str) -> None:
    async with direct(origin) as connection:
        own, outcome = await play(connection, origin)
    async with connect(bridge.url, wire=wire) as connection:
        results, scored = await play(connection, origin)
    assert [result.is_error for result in results] == [result.is_error for result in own]
    assert any(result.is_error for result in own)
    assert [result.text for result in results] == [result.text for result in own]
    assert scored.reward == outcome.reward == pytest.approx(origin.reward)


def evaluated(origin: Origin, target: str, folder: Path, *options: str) -> list[Json]:
    """The origin's row, played by `gymwire eval` with a model that makes the origin's calls."""

    def say(body: Json, number: int) -> Turn:
        made = sum(message["role"] == "tool" for message in body["messages"])
        if made == len(origin.calls):
            return Turn(origin.answer)
        name, arguments = origin.calls[made]
        offered = [tool["function"]["name"] for tool in body["tools"]]
        return Turn(calls=[(name if name in offered else offered[0], json.dumps(arguments))])

    rows = folder / "row.jsonl"
    rows.write_text(json.dumps(origin.row.to_json()) + "\n")
    given = ("-n", "1") if origin.row == Row() else ("--rows", str(rows))
    with chat_endpoint(say) as endpoint:
        done = evaluate(target, endpoint.url, *given, "--out", str(folder), *options)
    assert done.exit_code == 0, done.output
    return lines_in(folder)


@pytest.mark.parametrize("wire", WIRES)
def test_gymwire_eval_plays_a_bridge(origin: Origin, bridge: Running, wire: str, tmp_path: Path) -> None:
    (line,) = evaluated(origin, bridge.url, tmp_path, "--wire", wire)
    assert (line["reward"], line["calls"]) == (pytest.approx(origin.reward), len(origin.calls))


def test_gymwire_eval_plays_the_origin_itself_or_says_how(origin: Origin, tmp_path: Path) -> None:
    if origin.wire != "mcp":
        options = ("--reward", "sum") if origin.wire == "openenv" else ()
        (line,) = evaluated(origin, origin.words, tmp_path, "--wire", origin.wire, *options)
        assert (line["reward"], line["calls"]) == (pytest.approx(origin.reward), len(origin.calls))
        return
    done = evaluate(origin.words, "http://127.0.0.1:9/v1", "--wire", "mcp", "-n", "1")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert "gymwire bridge " in done.stderr and "--from mcp" in done.stderr


async def test_sessions_of_a_bridge_do_not_mix(origin: Origin, bridge: Running) -> None:
    if origin.wire != "nemo-gym":
        pytest.skip("the template holds one session, and the reference server keeps no state")
    async with connect(bridge.url, wire="mcp") as connection:
        first, second = await connection.session(row=origin.row), await connection.session(row=origin.row)
        await first.call("increment_counter", {"count": 3})
        await second.call("increment_counter", {"count": 4})
        assert [(await session.verify()).reward for session in (first, second)] == [1.0, 0.0]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("what", ["killed", "hung"])
async def test_a_failure_between_bridge_and_origin_is_masked(wire: str, what: str, tmp_path: Path) -> None:
    """Never a 0: the session's calls and verify fail, and so does a seed: as an outage and not as a bad row."""
    with upstream_nemo_gym(STATE, tmp_path) as foreign:
        origin = upstream(foreign)
        with bridged(origin, tmp_path, "--call-timeout", "1.5") as running:
            async with connect(running.url, wire=wire, patience_s=1.0) as connection:
                session = await connection.session(row=origin.row)
                assert not (await session.call("increment_counter", {"count": 3})).is_error
                number = signal.SIGKILL if what == "killed" else signal.SIGSTOP
                os.killpg(foreign.process.pid, number)
                with pytest.raises(SessionFailed) as failed:
                    await session.call("get_counter_value", {})
                assert failed.value.kind.startswith("transport_")
                with pytest.raises(SessionFailed):
                    await session.verify([])
                if what == "killed":
                    with pytest.raises(SessionFailed) as unseeded:
                        await connection.session(row=origin.row)
                    # Over a connection that was open, the origin is seen to go; over a new one, that it is gone.
                    assert unseeded.value.kind in (FailureKind.TRANSPORT_UNREACHABLE, FailureKind.TRANSPORT_PEER_DROP)
                else:
                    os.killpg(foreign.process.pid, signal.SIGCONT)
                    async with connection.session(row=origin.row) as again:
                        assert not (await again.call("increment_counter", {"count": 3})).is_error
                        assert (await again.verify()).reward == 1.0
