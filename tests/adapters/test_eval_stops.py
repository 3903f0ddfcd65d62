"""`gymwire eval` as a process: interrupted, killed, on a full disk, on many rows. What was finished is never lost."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import pytest
from gymwire.servers import Row
from gymwire.servers.types import Json

from tests.adapters.chat_endpoint import ChatEndpoint, Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in, words
from tests.serving import Running, serving
from tests.test_cli import PLAIN

WAIT_S = 60
ROWS = 6


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("stops") / "log", "counter") as running:
        yield running


class Evaluation:
    """A run of six rows of a served counter, two at a time; the endpoint answers so many and then no more."""

    def __init__(self, url: str, endpoint: ChatEndpoint, out: Path) -> None:
        self.options = ("-n", str(ROWS), "-c", "2", "--out", str(out))
        self.url, self.endpoint, self.out, self.log = url, endpoint, out, out / "stderr.log"
        out.mkdir(exist_ok=True)

    @contextmanager
    def begun(self, done: int) -> Iterator[subprocess.Popen[bytes]]:
        """The process, once so many episodes are written and two wait for the model."""
        with process(self.url, self.endpoint.url, self.log, *self.options) as running:
            until(lambda: len(self.finished()) == done and len(self.endpoint.requests) == done + 2, running)
            yield running

    def finished(self) -> list[str]:
        file = self.out / "results.jsonl"
        return file.read_text().splitlines() if file.exists() else []

    def manifest(self) -> Json:
        return json.loads((self.out / "manifest.json").read_text())

    def goes_on(self) -> str:
        done = evaluate(self.url, self.endpoint.url, *self.options)
        assert done.exit_code == 0, done.output
        assert [line["row"] for line in lines_in(self.out)] == list(range(ROWS))
        manifest = self.manifest()
        assert (manifest["state"], manifest["reason"], len(manifest["resumed"])) == ("finished", "", 1)
        return done.stderr


@pytest.fixture
def evaluation(counter: Running, tmp_path: Path) -> Iterator[Evaluation]:
    """Its first three requests are answered, the next two are not, and all after those are."""
    slow = Turn("too late", slow_s=WAIT_S)
    with chat_endpoint(lambda body, number: slow if number in (3, 4) else Turn("Done.")) as endpoint:
        yield Evaluation(counter.url, endpoint, tmp_path / "run")


@contextmanager
def process(
    target: str, url: str, log: Path, *options: str, wrapped: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    command = [*wrapped, sys.executable, "-m", "gymwire.servers.cli", *words(target, url, *options)]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **PLAIN})
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def until(condition: Callable[[], Any], running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert running.poll() is None, "it ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def taken(served: Running) -> float:
    """How many places of the server are in use."""
    with urlopen(f"{served.url}/metrics") as answer:
        text = answer.read().decode()
    slots, free = (re.search(rf"^{name} (\S+)$", text, re.M) for name in ("gymwire_slots", "gymwire_slots_free"))
    assert slots and free
    return float(slots[1]) - float(free[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_cleanly(evaluation: Evaluation, counter: Running, number: int) -> None:
    with evaluation.begun(3) as running:
        assert evaluation.manifest()["state"] == "running" and taken(counter) == 2
        running.send_signal(number)
        assert running.wait(WAIT_S) == 130
    manifest, said = evaluation.manifest(), evaluation.log.read_text()
    assert (manifest["state"], manifest["reason"], len(evaluation.finished())) == ("stopped", "interrupted", 3)
    assert "played    3 of 6 episodes" in said and "the same command goes on from what is in " in said
    assert json.loads((evaluation.out / "summary.json").read_text())["episodes"]["played"] == 3
    assert (evaluation.out / "report.html").exists() and taken(counter) == 0
    assert "3 of 6 episodes are done already" in evaluation.goes_on()
    assert len(evaluation.endpoint.requests) == 8  # of the two that nobody waited for, none counts


def test_the_second_signal_ends_at_once(evaluation: Evaluation, counter: Running) -> None:
    """Its sessions cannot be closed, for their server hangs: the first signal alone would wait for that."""
    with evaluation.begun(3) as running:
        counter.process.send_signal(signal.SIGSTOP)
        try:
            running.send_signal(signal.SIGINT)
            until(lambda: "once more ends at once" in evaluation.log.read_text(), running)
            running.send_signal(signal.SIGINT)
            assert running.wait(3) == 130
        finally:
            counter.process.send_signal(signal.SIGCONT)
    assert evaluation.manifest()["state"] == "stopped"
    evaluation.goes_on()


def test_a_run_that_was_killed_goes_on_and_plays_a_torn_line_again(evaluation: Evaluation) -> None:
    with evaluation.begun(3) as running:
        running.kill()
        running.wait()
    assert evaluation.manifest()["state"] == "running"
    file = evaluation.out / "results.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    assert "2 of 6 episodes are done already" in evaluation.goes_on()
    assert len(evaluation.endpoint.requests) == 5 + 4


def test_an_interruption_before_anything_is_played_is_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with process(url, f"{url}/v1", log, "-n", "1") as running:
            asking, _ = silent.accept()
            with asking:
                running.send_signal(signal.SIGINT)
                assert running.wait(WAIT_S) == 130
    assert log.read_text() == "gymwire: interrupted\n"


# ---- a full disk


def test_a_full_disk_ends_the_run_and_the_same_command_goes_on(evaluation: Evaluation) -> None:
    evaluation.endpoint.script = lambda body, number: Turn("Done. " * 200)
    limited = ("sh", "-c", 'ulimit -f 8; exec "$@"', "sh")  # 4 KiB a file
    with process(
        evaluation.url, evaluation.endpoint.url, evaluation.log, *evaluation.options, wrapped=limited
    ) as running:
        assert running.wait(WAIT_S) == 1
    said = evaluation.log.read_text()
    assert "File too large; what was finished before is kept, and the same command goes on" in said
    assert "Traceback" not in said
    manifest = evaluation.manifest()
    assert manifest["state"] == "failed" and "File too large" in manifest["reason"]
    kept = int((evaluation.out / "results.jsonl").read_bytes().count(b"\n"))
    assert 0 < kept < ROWS
    assert f"{kept} of 6 episodes are done already" in evaluation.goes_on()


@pytest.mark.parametrize("name", ["results.jsonl", "manifest.part", "summary.part", "report.part"])
def test_a_device_without_space_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/full")
    with chat_endpoint(lambda body, number: Turn("Done.")) as endpoint:
        done = evaluate("counter", endpoint.url, "-n", "2", "--out", str(tmp_path))
        assert done.exit_code == 1 and "cannot be written: No space left on device" in done.stderr
        if name == "results.jsonl":
            return
        again = evaluate("counter", endpoint.url, "-n", "2", "--out", str(tmp_path))
        assert again.exit_code == 0 and len(lines_in(tmp_path)) == 2


# ---- many rows

MANY = 10_000
ANSWER = json.dumps({"choices": [{"message": {"content": "Done."}, "finish_reason": "stop"}]}).encode()


@contextmanager
def plain_endpoint() -> Iterator[str]:
    """One answer to everything, at the least cost."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode()
        try:
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", asked, re.I)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(head + ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run(ready: list[int], started: Event, ended: asyncio.Event) -> None:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            ready.append(server.sockets[0].getsockname()[1])
            started.set()
            await ended.wait()

    loop, port, started = asyncio.new_event_loop(), [], Event()
    ended = asyncio.Event()
    thread = Thread(target=loop.run_until_complete, args=(run(port, started, ended),))
    thread.start()
    try:
        assert started.wait(10)
        yield f"http://127.0.0.1:{port[0]}/v1"
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


@pytest.mark.slow
def test_ten_thousand_rows_in_bounded_memory_with_a_bar(tmp_path: Path) -> None:
    rows = [Row.of(f"Reach {number % 9}.", start=0, target=number % 9) for number in range(MANY)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row.to_json()) + "\n" for row in rows))
    with plain_endpoint() as url:
        few, _ = measured(tmp_path / "few", url, str(file), "-n", "10")
        many, seen = measured(tmp_path / "many", url, str(file))
    assert len(lines_in(tmp_path / "many")) == MANY
    assert many - few < 64, f"{few:.0f} MB for 10 rows, {many:.0f} MB for {MANY}"
    assert len(set(re.findall(rf"(\d+)/{MANY}", seen))) > 3  # the bar moved
    assert (tmp_path / "many" / "report.html").stat().st_size < 200_000


def measured(out: Path, url: str, rows: str, *more: str) -> tuple[float, str]:
    """The most memory that a run took, in MB, and what somebody saw of it in a terminal."""
    ours, theirs = pty.openpty()
    command = words("counter", url, "--rows", rows, "--out", str(out), "--no-stream", *more)
    env = {**os.environ, **PLAIN, "TERM": "xterm", "COLUMNS": "100"}
    running = subprocess.Popen(
        [sys.executable, "-m", "gymwire.servers.cli", *command], stdout=subprocess.DEVNULL, stderr=theirs, env=env
    )
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:  # the terminal's other end is closed
        pass
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    os.close(ours)
    assert running.returncode == 0, seen.decode()[-2000:]
    return used.ru_maxrss / 1024, seen.decode()
