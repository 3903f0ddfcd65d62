"""Thousands of live sessions in one process, each thinking 5 s between its calls."""

from __future__ import annotations

from .calls import OUR_WS
from .figures import Figure, at_most, plain
from .fleet import Bench
from .flows import gym_calls, openenv_calls
from .load import Connection, Crowd, Load, MakeFlow, Timing, drive
from .processes import gymwire, many_files
from .wires import HttpConnection

SECTION = "live sessions, 5 s think time"
THINK_S = 5.0
#: Files that a process holds beside its connections.
SPARE_FILES = 200
P99_LIMIT_MS = 500
RSS_LIMIT_MB = 1024


async def figures(bench: Bench) -> list[Figure]:
    with many_files() as files:
        sessions = min(bench.size.live, files - SPARE_FILES)
        less = "" if sessions == bench.size.live else f"{files} open files are allowed here; wanted {bench.size.live}"
        http = await _hold(bench, "NeMo Gym", sessions, less, HttpConnection, gym_calls("/counter/gym", THINK_S))
        sockets = await _hold(bench, "OpenEnv", sessions, less, OUR_WS, openenv_calls(THINK_S))
    return [*http, *sockets]


async def _hold(
    bench: Bench, wire: str, sessions: int, note: str, connection: type[Connection], flow: MakeFlow
) -> list[Figure]:
    bench.say(f"{sessions:,} live sessions on {wire}")
    with gymwire("counter", "--max-sessions", str(sessions)) as server:
        crowd = Crowd(connection, flow, sessions, keep_latencies=True)
        load = await drive(server, crowd, Timing(warm_s=2.0, timed_s=bench.size.hold_s))
        rss_mb = server.rss_mb()
    return _lines(f"{sessions:,} on {wire}", load, rss_mb, note)


def _lines(name: str, load: Load, rss_mb: float, note: str) -> list[Figure]:
    latencies_ms = sorted(1000 * latency for latency in load.latencies_s)
    p99, p50 = latencies_ms[int(len(latencies_ms) * 0.99)], latencies_ms[len(latencies_ms) // 2]
    said = f"median {plain(p50)} ms, {load.per_s:.0f} calls/s, {load.cpu_ms:.3g} ms server CPU a call"
    return [
        Figure(SECTION, f"{name}: p99", "ms", {"": p99}, checks=(at_most(P99_LIMIT_MS, p99, "ms"),), note=said),
        Figure(SECTION, f"{name}: RSS", "MB", {"": rss_mb}, checks=(at_most(RSS_LIMIT_MB, rss_mb, "MB"),), note=note),
    ]
