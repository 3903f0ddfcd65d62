"""`gymwire serve --workers N`: real processes, a real redis-server, a real haproxy."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gymwire.adapters import Connection, connect
from gymwire.servers.gateway import RULES, config
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import ROOT, Running, free_port, serving

WIRES = ("nemo-gym", "openenv", "mcp")
PINNED = "tests.pinned:Pinned"


def installed(*programs: str) -> None:
    """Skip with the reason where one is missing; fail where REQUIRE_DOCKER=1, as continuous integration has all."""
    lacking = [name for name in programs if shutil.which(name) is None]
    if lacking:
        tell = pytest.fail if os.environ.get("REQUIRE_DOCKER") == "1" else pytest.skip
        tell(f"needs {', '.join(lacking)} on PATH")


def children(pid: int) -> dict[int, str]:
    """The command lines of a process's children."""
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return {int(line.split(None, 1)[0]): line.split(None, 1)[1] for line in listed.splitlines() if line.strip()}


def workers(running: Running) -> list[int]:
    return [pid for pid, words in children(running.process.pid).items() if "gymwire.servers.cli" in words]


def until(condition: Callable[[], object], limit_s: float = 30.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ready(port: int) -> bool:
    """Whether a server behind a gateway answers there."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
            return True
    except OSError:
        return False


def metrics(url: str) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {(item.name, *sorted(item.labels.values())): item.value for family in families for item in family.samples}


def answering(url: str) -> set[str]:
    """Names of the workers that tell their figures; none where a dying one was asked."""
    try:
        return {key[1] for key in metrics(url) if key[0] == "process_resident_memory_bytes"}
    except OSError:
        return set()


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    installed("redis-server")
    with serving(tmp_path_factory.mktemp("crew") / "log", "counter", "--workers", "3") as running:
        until(lambda: "3 workers at" in running.log_text())
        yield running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    installed("redis-server", "haproxy")
    with serving(tmp_path_factory.mktemp("gateway") / "log", "counter", PINNED, "--workers", "2") as running:
        yield running


async def add_up(connection: Connection, numbers: range) -> list[int]:
    """As many sessions as numbers, all at once, each of which adds its number twice; by how much each total grew."""

    async def one(number: int) -> int:
        async with connection.session(split="eval", index=0) as session:
            before = int((await session.call("read")).text)
            for _ in range(2):
                await session.call("add", {"n": number})
            return int((await session.call("read")).text) - before

    return await asyncio.gather(*map(one, numbers))


@pytest.mark.parametrize("wire", WIRES)
async def test_any_worker_serves_any_request_of_a_session(crew: Running, wire: str) -> None:
    counted = ("gymwire_calls_total", *sorted(("counter", "ok", wire)))
    before = metrics(crew.url).get(counted, 0.0)
    async with connect(crew.url, wire=wire) as connection:
        assert await add_up(connection, range(1, 5)) == [2, 4, 6, 8]
    assert metrics(crew.url)[counted] == before + 16


def test_each_worker_tells_of_its_own_process(crew: Running) -> None:
    assert answering(crew.url) == {"w0", "w1", "w2"}


@pytest.mark.parametrize("wire", WIRES)
async def test_sessions_that_cannot_move_are_sent_to_their_worker(gateway: Running, wire: str) -> None:
    async with connect(gateway.url, wire=wire, env="pinned") as connection:
        assert await add_up(connection, range(1, 17)) == [2 * number for number in range(1, 17)]


async def test_a_dead_worker_is_started_again_and_its_sessions_go_on(tmp_path: Path) -> None:
    installed("redis-server")
    with serving(tmp_path / "log", "counter", "--workers", "2") as running:
        until(lambda: "2 workers at" in running.log_text())
        async with connect(running.url, wire="nemo-gym") as connection:
            session = await connection.session(split="eval", index=0)
            before = int((await session.call("read")).text)
            await session.call("add", {"n": 3})
            first, second = workers(running)
            os.kill(first, signal.SIGKILL)
            until(lambda: len(answering(running.url)) < 2)
            until(lambda: len(answering(running.url)) == 2)
            os.kill(second, signal.SIGKILL)
            await session.call("add", {"n": 3})
            assert int((await session.call("read")).text) == before + 6
        assert "it is started again" in running.log_text()


def test_nothing_is_left_behind(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("redis-server", "haproxy")
    folder = tmp_path_factory.mktemp("t")  # a short path: sockets are in there
    monkeypatch.setenv("TMPDIR", str(folder))
    with serving(tmp_path / "log", "counter", PINNED, "--workers", "2") as running:
        until(lambda: len(children(running.process.pid)) == 4)
        pids = children(running.process.pid)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 10)
    assert list(folder.iterdir()) == []


def test_a_parent_that_is_killed_takes_its_workers_with_it(tmp_path: Path) -> None:
    installed("redis-server")
    with serving(tmp_path / "log", "counter", "--workers", "2") as running:
        until(lambda: "2 workers at" in running.log_text())
        pids = children(running.process.pid)
        running.kill()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 40)


@pytest.mark.parametrize(
    "environment, there, sentence",
    [("counter", [], "install redis-server, or give --store URL"), (PINNED, ["redis-server"], "install haproxy")],
)
def test_what_is_missing_is_said_before_anything_starts(
    environment: str, there: list[str], sentence: str, tmp_path: Path
) -> None:
    for name in there:
        (tmp_path / name).symlink_to("/bin/true")
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", environment, "--workers", "2", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_a_port_that_is_taken_is_said(crew: Running) -> None:
    port = crew.url.rpartition(":")[2]
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", "counter", "--port", port]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "cannot be had" in done.stderr


async def test_a_gateway_does_not_cut_the_calls_of_a_server_that_drains(tmp_path: Path) -> None:
    """HAProxy sees within 2 s that the server is no longer ready; the call is answered after 5."""
    installed("haproxy")
    port = free_port()
    with serving(tmp_path / "log", PINNED) as running:
        file = tmp_path / "haproxy.cfg"
        file.write_text(config(f"127.0.0.1:{port}", {"a": running.url.removeprefix("http://")}))
        gateway = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(file)])
        try:
            until(lambda: ready(port))
            async with connect(f"http://127.0.0.1:{port}", wire="nemo-gym", patience_s=30.0) as connection:
                session = await connection.session(split="eval", index=0)
                call = asyncio.ensure_future(session.call("linger", {"seconds": 5.0}))
                await asyncio.sleep(0.5)
                running.process.terminate()
                assert (await call).text == "answered"
        finally:
            gateway.kill()
            gateway.wait()


def test_compose_has_the_gateways_rules() -> None:
    rules = config("", {}).partition(RULES)[2]
    assert rules and rules == (ROOT / "compose" / "haproxy.cfg").read_text().partition(RULES)[2]


def test_the_configuration_is_one_that_haproxy_takes(tmp_path: Path) -> None:
    installed("haproxy")
    file = tmp_path / "haproxy.cfg"
    file.write_text(config("127.0.0.1:8200", {"a": "127.0.0.1:1", "b": f"unix@{tmp_path}/b.sock"}))
    done = subprocess.run(["haproxy", "-c", "-f", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"\[(WARNING|ALERT)\]", done.stderr), done.stderr
