from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest
from gymwire.adapters import SessionFailed, connect
from gymwire.adapters.top.scrape import Look, Server
from gymwire.adapters.top.screen import plain, screen, seconds
from gymwire.adapters.top.view import View, quantile, view
from rich.console import Console
from yarl import URL

from tests.serving import Running, free_port, serving

TROUBLE = "tests.adapters.trouble:Trouble"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Running]]:
    """Two servers on which something has happened."""
    folder = tmp_path_factory.mktemp("top")
    with serving(folder / "a", TROUBLE, "counter") as first, serving(folder / "b", "counter") as second:
        asyncio.run(_played(first.url, second.url))
        yield first, second


async def _played(first: str, second: str) -> None:
    for url, wire in ((f"{first}/counter", "mcp"), (f"{second}/counter", "nemo-gym")):
        async with connect(url, wire=wire) as connection:
            for index in range(2):
                async with connection.session(split="train", index=index) as session:
                    await session.call("add", {"n": 1})
                    await session.verify()
    async with connect(f"{first}/trouble") as connection, connection.session() as session:
        with pytest.raises(SessionFailed):
            await session.call("crash", {})


def top(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gymwire.servers.cli", "top", *arguments]
    given = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=given, timeout=60)


def told(*arguments: str) -> dict[str, Any]:
    done = top(*arguments, "--once", "--json", "--interval", "0.1")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_replicas_are_summed_and_each_has_its_line(servers: tuple[Running, Running]) -> None:
    said = told(*(running.url for running in servers))
    assert [line["url"] for line in said["servers"]] == [running.url for running in servers]
    assert said["total"]["slots"] == 2 * 1024 and said["total"]["live"] == 0
    assert all(line["memory_bytes"] > 1e6 and line["uptime_s"] > 0 for line in said["servers"])
    counter, trouble = said["environments"]
    assert counter["environment"] == "counter" and counter["masked"] == 0.0
    assert 0 < counter["call"]["p50_s"] <= counter["call"]["p99_s"] < 1
    assert trouble["masked"] == 1.0
    failure = {"environment": "trouble", "kind": "trouble:exception", "stage": "call", "tool": "crash"}
    assert said["failures"] == [failure | {"last_minute": 0, "in_all": 1}]
    assert said["sandbox"] is None


def test_the_url_of_an_environment_or_a_face_shows_it_alone(servers: tuple[Running, Running]) -> None:
    for path in ("counter", "counter/mcp"):
        said = told(f"{servers[0].url}/{path}")
        assert [line["environment"] for line in said["environments"]] == ["counter"] and said["failures"] == []


def test_without_a_terminal_it_is_one_table_without_colours(servers: tuple[Running, Running]) -> None:
    done = top(servers[0].url, "--interval", "0.1", COLUMNS="150")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    for words in ("counter", "trouble:exception", "crash", "p99", "queue 0 waiting", servers[0].url):
        assert words in done.stdout


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(servers: tuple[Running, Running], width: int) -> None:
    done = top(*(running.url for running in servers), "--interval", "0.1", COLUMNS=str(width))
    assert max(map(len, done.stdout.splitlines())) <= width


def test_on_a_terminal_it_goes_on_until_it_is_interrupted(servers: tuple[Running, Running]) -> None:
    """Also where colours are not wanted."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ |= {"TERM": "xterm", "NO_COLOR": "1"}
        command = [sys.executable, "-m", "gymwire.servers.cli", "top", servers[0].url, "--interval", "0.1"]
        os.execv(sys.executable, command)
    shown = b""
    deadline = time.monotonic() + 60
    while shown.count(b"gymwire top") < 3 and time.monotonic() < deadline:
        if select.select([terminal], [], [], 1.0)[0]:
            shown += os.read(terminal, 65536)
    os.kill(process, signal.SIGINT)
    while select.select([terminal], [], [], 10.0)[0]:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # closed at the other end
            break
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert shown.endswith(b"\x1b[?1049l") and b"\x1b[31m" not in shown and b"Traceback" not in shown


def test_a_stream_ends_with_its_reader(servers: tuple[Running, Running]) -> None:
    command = [sys.executable, "-m", "gymwire.servers.cli", "top", servers[0].url, "--json", "--interval", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        for _ in range(2):
            assert json.loads(process.stdout.readline())["total"]["slots"] == 1024
        process.stdout.close()
        assert process.wait(30) == 0 and process.stderr.read() == b""


class Stranger(BaseHTTPRequestHandler):
    """Somebody else's server, with figures of its own."""

    def do_GET(self) -> None:
        body = b"# TYPE up gauge\nup 1\n" if self.path == "/metrics" else b"<html>"
        self.send_response(200 if self.path in ("/metrics", "/other/metrics") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def test_what_it_cannot_watch_is_told_in_a_sentence(tmp_path: Path) -> None:
    nowhere = top(f"http://127.0.0.1:{free_port()}", "--once")
    assert (
        nowhere.returncode == 1
        and "nothing answers at" in nowhere.stderr
        and "is the server running?" in nowhere.stderr
    )
    stranger = HTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=stranger.serve_forever, daemon=True).start()
    try:
        for path in ("", "/other", "/nothing/here"):
            done = top(f"http://127.0.0.1:{stranger.server_port}{path}", "--once")
            assert done.returncode == 1 and "is no gymwire server" in done.stderr
    finally:
        stranger.shutdown()
        stranger.server_close()
    assert "is no URL" in top("no-url", "--once").stderr
    missing = top("http://127.0.0.1:1", "--token-file", str(tmp_path / "none"))
    assert missing.returncode == 1 and "cannot be read" in missing.stderr


def test_tokens(tmp_path: Path) -> None:
    admin, player, wrong, known = (tmp_path / name for name in ("admin", "player", "wrong", "known"))
    admin.write_text("watcher\n")
    player.write_text("gamer\n")
    wrong.write_text("stranger\n")
    known.write_text("watcher admin\ngamer play\n")
    with serving(tmp_path / "log", "counter", "--token-file", str(known)) as running:
        assert "give --token-file" in top(running.url, "--once").stderr
        assert "does not accept this token" in top(running.url, "--token-file", str(wrong)).stderr
        assert "scope `admin`" in top(running.url, "--token-file", str(player)).stderr
        assert told(running.url, "--token-file", str(admin))["total"]["slots"] == 1024


def test_a_server_that_goes_away_is_shown_so(tmp_path: Path, servers: tuple[Running, Running]) -> None:
    command = [sys.executable, "-m", "gymwire.servers.cli", "top", servers[0].url]
    with serving(tmp_path / "log", "counter") as running:
        command += [running.url, "--json", "--interval", "0.2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert all(line["problem"] == "" for line in json.loads(process.stdout.readline())["servers"])
        running.kill()
    try:
        for text in process.stdout:
            said = json.loads(text)
            if said["servers"][1]["problem"]:
                break
        assert "nothing answers" in said["servers"][1]["problem"] and said["servers"][0]["problem"] == ""
        assert said["total"]["slots"] == 1024
    finally:
        process.kill()
        process.communicate()


# ---- counters over time

FIGURES = """\
# TYPE gymwire_build_info gauge
gymwire_build_info{{version="1"}} 1
# TYPE process_start_time_seconds gauge
process_start_time_seconds {born}
# TYPE gymwire_seeds_total counter
gymwire_seeds_total{{environment="x",wire="mcp"}} {seeds}
# TYPE gymwire_episodes_total counter
gymwire_episodes_total{{environment="x",wire="mcp",ending="finished"}} {episodes}
gymwire_episodes_total{{environment="x",wire="mcp",ending="failed"}} {failed}
# TYPE gymwire_failures_total counter
gymwire_failures_total{{environment="x",kind="{kind}",stage="call",tool=""}} {failed}
# TYPE gymwire_call_seconds histogram
gymwire_call_seconds_bucket{{environment="x",wire="mcp",le="0.1"}} {fast}
gymwire_call_seconds_bucket{{environment="x",wire="mcp",le="1.0"}} {calls}
gymwire_call_seconds_bucket{{environment="x",wire="mcp",le="+Inf"}} {calls}
"""


def looked(server: Server, at: float, *, born: float = 100.0, episodes: int = 0, **more: Any) -> View:
    """One more look at a server whose figures are these; the time of day is `at`."""
    said = {"seeds": episodes, "failed": 0, "fast": 0, "calls": 0, "kind": "x:exception"} | more
    server.take(Look.of(FIGURES.format(born=born, episodes=episodes, **said), at), at)
    return view([server], at)


def watched() -> Server:
    return Server(URL("http://x"))


def test_rates_are_of_what_was_watched() -> None:
    server = watched()
    assert looked(server, 1000, episodes=500).total["episodes_per_s"] == 0
    assert looked(server, 1010, episodes=520).total["episodes_per_s"] == pytest.approx(2.0)
    assert looked(server, 1020, episodes=520).total["episodes_per_s"] == pytest.approx(1.0)
    assert looked(server, 1100, episodes=520).total["episodes_per_s"] == 0


def test_a_counter_that_went_back_is_a_server_begun_again() -> None:
    server = watched()
    looked(server, 1000, episodes=500)
    assert looked(server, 1010, born=1005, episodes=30).total["episodes_per_s"] == pytest.approx(3.0)
    assert looked(server, 1020, born=1005, episodes=30).servers[0].note == ""
    same = watched()
    looked(same, 1000, episodes=500)
    assert looked(same, 1010, episodes=20).total["episodes_per_s"] == pytest.approx(2.0)


def test_replicas_that_answer_in_turn_are_not_taken_for_restarts() -> None:
    server = watched()
    looked(server, 1000, born=100, episodes=500)
    assert looked(server, 1010, born=200, episodes=900).total["episodes_per_s"] == 0
    looked(server, 1020, born=100, episodes=520)
    seen = looked(server, 1030, born=200, episodes=940)
    assert seen.total["episodes_per_s"] == pytest.approx(60 / 30)
    assert "several processes" in seen.servers[0].note


def test_failures_of_the_last_minute_and_the_masked_share() -> None:
    server = watched()
    looked(server, 1000, episodes=6, failed=2)
    seen = looked(server, 1010, episodes=6, failed=4)
    assert [(line.kind, line.last_minute, line.in_all) for line in seen.failures] == [("x:exception", 2, 4)]
    assert seen.environments[0].masked == pytest.approx(0.4)
    assert looked(server, 1090, episodes=6, failed=4).failures[0].last_minute == 0


def test_percentiles_are_of_the_window_and_of_everything_where_nothing_happened() -> None:
    server = watched()
    assert looked(server, 1000, calls=10, fast=10).environments[0].call.p50_s == pytest.approx(0.05)
    slow = looked(server, 1010, calls=20, fast=10).environments[0].call
    assert slow.p50_s == pytest.approx(0.55)
    assert looked(server, 1100, calls=20, fast=10).environments[0].call.p99_s == pytest.approx(0.1 + 0.9 * 0.98)


@pytest.mark.parametrize(
    ("buckets", "share", "expected"),
    [
        ([], 0.5, None),
        ([(1.0, 0.0), (float("inf"), 0.0)], 0.5, None),
        ([(1.0, 10.0), (float("inf"), 10.0)], 0.5, 0.5),
        ([(1.0, 0.0), (2.0, 10.0), (float("inf"), 10.0)], 0.99, 1.99),
        ([(1.0, 5.0), (float("inf"), 10.0)], 0.99, 1.0),
    ],
)
def test_quantiles_as_prometheus_reads_them(buckets: Any, share: float, expected: float | None) -> None:
    assert quantile(buckets, share) == (None if expected is None else pytest.approx(expected))


def test_a_servers_words_move_no_cursor() -> None:
    server = watched()
    seen = looked(server, 1000, episodes=3, failed=1, kind="\x1b[2Jx:[red]")
    console = Console(width=120, force_terminal=False, color_system=None)
    with console.capture() as captured:
        console.print(screen(seen, "title", 120))
    assert "\x1b" not in captured.get() and "x:[red]" in captured.get()
    assert plain("a\nb\x07") == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


ODD = """\
# TYPE gymwire_build_info gauge
gymwire_build_info 1
# TYPE gymwire_slots gauge
gymwire_slots {value}
# TYPE gymwire_seeds counter
gymwire_seeds_total {value}
# TYPE gymwire_sessions gauge
gymwire_sessions{{state="active"}} {value}
gymwire_sessions{{environment="x"}} 1
# TYPE gymwire_episodes counter
gymwire_episodes_total{{environment="x"}} 1
# TYPE gymwire_failures counter
gymwire_failures_total {value}
# TYPE gymwire_call_seconds histogram
gymwire_call_seconds_bucket{{environment="x",wire="mcp",le="soon"}} {value}
gymwire_call_seconds_bucket{{environment="x",wire="mcp"}} {value}
gymwire_call_seconds_bucket{{environment="x",wire="mcp",le="NaN"}} {value}
# TYPE gymwire_sandbox_slots gauge
gymwire_sandbox_slots {value}
# TYPE gymwire_sandbox_jobs counter
gymwire_sandbox_jobs_total {value}
# TYPE gymwire_grader_failures counter
gymwire_grader_failures_total {value}
# TYPE process_start_time_seconds gauge
process_start_time_seconds {value}
"""


@pytest.mark.parametrize("value", ["1", "-1", "NaN", "+Inf", "-Inf", "1e300"])
def test_an_odd_servers_figures_are_shown_or_left_out(value: str) -> None:
    server = Server(URL("http://x"), environments=("x",))
    for at in (1000.0, 1001.0):
        server.take(Look.of(ODD.format(value=value), at), at)
        seen = view([server], at)
        screen(seen, "title", 200)
        orjson.dumps(asdict(seen))


def test_times_are_short() -> None:
    said = [seconds(value) for value in (None, 0.00005, 0.0123, 0.5, 12.34)]
    assert said == ["-", "0.1 ms", "12.3 ms", "500 ms", "12.3 s"]
