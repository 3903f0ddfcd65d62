"""Sessions in this process and in Redis, and replicas behind HAProxy: CPU per call and per episode, episodes a second.

A deployment is what `compose/` starts: replicas of `gymwire serve`, HAProxy with the gateway's rules, and a Redis that
has every acknowledged call on disk. The CPU of replicas and gateway counts, Redis's own does not.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Self

from gymwire.servers.gateway import config

from .figures import Figure, at_most, times_at_most
from .fleet import SCRIPTS, Bench
from .flows import SHORT_OUTPUT, gym_calls, gym_episodes
from .load import Crowd, Load, Timing, drive
from .processes import HOST, START_TIMEOUT_S, BenchError, Server, gymwire
from .wires import HttpConnection

SECTION = "replicas"
REPLICAS = (1, 2, 4)
EACH = 64
MOST_MS, MOST_GROWTH = 0.20, 1.15
APART = "4 x 1 x Redis, apart"
#: Which deployment may cost how much more than which.
COMPARED = {"4 x memory": "1 x memory", "4 x Redis": "1 x Redis"}
WAITING = "waiting:Waiting"


class Deployment(Server):
    """Replicas of one environment, with a gateway in front and, where `stored`, a Redis behind."""

    def __init__(self, environment: str, replicas: int, *, stored: bool) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="gymwire-bench-"))
        super().__init__("haproxy", ["haproxy", "-db", "-q", "-f", str(self._folder / "haproxy.cfg")])
        store = ("--store", f"unix://{self._folder}/redis.sock") if stored else ()
        options = ("--max-sessions", "8192", "--idle-timeout", "20", *store)
        env = os.environ | {"PYTHONPATH": str(SCRIPTS)}
        self._servers = [gymwire(environment, *options, env=env) for _ in range(replicas)]
        addresses = {f"s{number}": f"{HOST}:{server.port}" for number, server in enumerate(self._servers)}
        (self._folder / "haproxy.cfg").write_text(config(f"{HOST}:{self.port}", addresses))
        self._redis = _redis(self._folder) if stored else None

    def start(self) -> None:
        for server in self._servers:
            server.start()
        for server in self._servers:
            server.wait()
        super().start()

    def cpu_s(self) -> float:
        """Of the gateway and all replicas."""
        return super().cpu_s() + sum(server.cpu_s() for server in self._servers)

    def stop(self) -> None:
        super().stop()
        for server in self._servers:
            server.stop()
        if self._redis is not None:
            self._redis.kill()
            self._redis.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _redis(folder: Path) -> subprocess.Popen[bytes]:
    local = ["--port", "0", "--unixsocket", f"{folder}/redis.sock", "--dir", str(folder), "--save", ""]
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    process = subprocess.Popen(["redis-server", *local, *durable], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (folder / "redis.sock").exists():
        if time.monotonic() > deadline or process.poll() is not None:
            raise BenchError("redis-server did not start")
        time.sleep(0.01)
    return process


async def figures(bench: Bench) -> list[Figure]:
    lacking = [name for name in ("redis-server", "haproxy") if shutil.which(name) is None]
    if lacking:
        bench.console.print(f"[yellow]replicas left out:[/yellow] needs {', '.join(lacking)}")
        return []
    return [*await _calls(bench), *await _episodes(bench), *await _waits(bench)]


async def _calls(bench: Bench) -> list[Figure]:
    """CPU of a call, each directly at one process."""
    crowd, costs = Crowd(HttpConnection, gym_calls("/counter/gym"), 64), {}
    for name, stored in (("memory", False), ("Redis", True)):
        bench.say(f"calls with the sessions in {name}")
        with Deployment("counter", 1, stored=stored) as deployment:
            costs[name] = min([load.cpu_ms for load in await _loads(bench, deployment, crowd)])
    added = costs["Redis"] - costs["memory"]
    check = at_most(MOST_MS, added, "ms more than in memory")
    return [
        Figure(SECTION, f"a call, one replica, gateway included: {name}", "ms", {"": cost}, checks=more)
        for (name, cost), more in zip(costs.items(), ((), (check,)), strict=True)
    ]


async def _episodes(bench: Bench) -> list[Figure]:
    """As many sessions in flight per replica everywhere: who adds replicas has more to serve, and what a process does
    at once is what makes it cheap. The deployments take turns, and the best round of each counts: another tenant of
    the machine is felt for seconds. Four that share nothing are measured too: what replicas cost more than those is
    what sharing costs, the rest is four processes on the cores of this machine."""
    best: dict[str, Load] = {}
    for _ in range(bench.size.rounds):
        for stored, replicas in product((False, True), REPLICAS):
            name = f"{replicas} x {'Redis' if stored else 'memory'}"
            bench.say(f"episodes: {name}")
            with Deployment("counter", replicas, stored=stored) as deployment:
                _keep_best(best, name, await _episode_load(bench, deployment, EACH * replicas))
        bench.say(f"episodes: {APART}")
        _keep_best(best, APART, await _load_apart(bench))
    costs = {name: load.cpu_ms for name, load in best.items()}
    checks = {name: (times_at_most(MOST_GROWTH, costs[name] / costs[to], to),) for name, to in COMPARED.items()}
    return [
        Figure(
            SECTION,
            f"an episode: {name}",
            "ms",
            {"": cost},
            checks=checks.get(name, ()),
            note=f"{best[name].per_s:,.0f}/s",
        )
        for name, cost in costs.items()
    ]


def _keep_best(best: dict[str, Load], name: str, load: Load) -> None:
    best[name] = min(best.get(name, load), load, key=lambda each: each.cpu_ms)


async def _episode_load(bench: Bench, deployment: Deployment, sessions: int) -> Load:
    crowd = Crowd(HttpConnection, gym_episodes("/counter/gym", SHORT_OUTPUT), sessions)
    return await drive(deployment, crowd, Timing(timed_s=bench.size.timed_s))


async def _load_apart(bench: Bench) -> Load:
    """Four deployments of one replica each, at the same time; their sum."""
    with ExitStack() as running:
        apart = [running.enter_context(Deployment("counter", 1, stored=True)) for _ in range(4)]
        loads = await asyncio.gather(*(_episode_load(bench, each, EACH) for each in apart))
    operations, cpu_s = sum(load.operations for load in loads), sum(load.server_cpu_s for load in loads)
    return Load(operations, operations / sum(load.per_s for load in loads), cpu_s, [])


async def _waits(bench: Bench) -> list[Figure]:
    """Tools that hold a thread for 50 ms each: what one process can hold at once is what limits it."""
    crowd, made = Crowd(HttpConnection, gym_calls("/counter/gym"), 256), []
    for replicas in REPLICAS:
        bench.say(f"calls that wait 50 ms: {replicas} replicas")
        with Deployment(WAITING, replicas, stored=True) as deployment:
            rate = max([load.per_s for load in await _loads(bench, deployment, crowd)])
        made.append(Figure(SECTION, f"calls that wait 50 ms: {replicas} x Redis", "/s", {"": rate}))
    return made


async def _loads(bench: Bench, deployment: Deployment, crowd: Crowd) -> Sequence[Load]:
    timing = Timing(timed_s=bench.size.timed_s)
    return [await drive(deployment, crowd, timing) for _ in range(bench.size.rounds)]
