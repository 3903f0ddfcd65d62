"""A small Python program in a container: by the pool, by `docker exec`, by `docker run`, and without one."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from os import sysconf
from pathlib import Path

from gymwire.servers.sandbox.docker import Docker
from gymwire.servers.sandbox.jobs import PYTHON, Job, Limits, Verdict
from gymwire.servers.sandbox.pool import Pool

from ..docker_engine import EngineMissing, image
from .figures import Check, Figure, at_least, at_most
from .fleet import Bench
from .processes import BenchError

SLOTS = 2
LEAST_PER_S, MOST_CPU_MS, FIRST_JOB_S = 500, 3.0, 1.5
#: A bare interpreter above this (CPU-ms) says that the machine is busy: what misses a target then is not judged.
QUIET_INTERPRETER_MS = 14.0
SOURCE = "print(input())"
WARM_UP, INTERPRETERS, EXECS, RUNS = 100, 30, 8, 3


@dataclass(frozen=True, slots=True)
class Way:
    """What one way to run the program costs."""

    per_s: float
    cpu_ms: float = 0.0  # of the program and what holds it, where that can be told


async def figures(bench: Bench) -> list[Figure]:
    try:
        name = await asyncio.to_thread(image)
    except EngineMissing as missing:
        bench.console.print(f"[yellow]sandbox left out:[/yellow] {missing}")
        return []
    bench.say("a bare interpreter")
    bare = _interpreters()
    bench.say(f"{SLOTS} containers")
    pool, first_s = await _started(name)
    try:
        ours = max(
            [await _pooled(pool, bench.size.episodes // 5) for _ in range(bench.size.rounds)], key=lambda w: w.per_s
        )
        bench.say("docker exec, docker run")
        container = next(iter(pool.lines)).slot.name.removeprefix("docker-")
        executed = _timed(["docker", "exec", "-i", container, "python3", "-I", "-S", "-c", SOURCE], EXECS)
    finally:
        await pool.close()
    cold = _timed(["docker", "run", "--rm", "-i", "--network", "none", name, "python3", "-I", "-S", "-c", SOURCE], RUNS)
    return _figures(ours, bare, executed, cold, first_s)


def _figures(ours: Way, bare: Way, executed: Way, cold: Way, first_s: float) -> list[Figure]:
    others = {"docker exec": ours.per_s / executed.per_s, "cold docker run": ours.per_s / cold.per_s}
    rate = _judged(at_least(LEAST_PER_S, ours.per_s, "/s"), bare)
    cost = _judged(at_most(MOST_CPU_MS, ours.cpu_ms, "CPU-ms"), bare)
    first = _judged(at_most(FIRST_JOB_S, first_s, "s"), bare)
    return [
        Figure("sandbox", f"programs, {SLOTS} containers", "/s", {"": ours.per_s}, others, (rate,)),
        Figure(
            "sandbox",
            "worker and program",
            "CPU-ms",
            {"": ours.cpu_ms},
            {"bare interpreter": ours.cpu_ms / bare.cpu_ms},
            (cost,),
        ),
        Figure("sandbox", "first program after a start", "s", {"": first_s}, checks=(first,)),
        Figure("sandbox", "bare interpreter, one at a time", "CPU-ms", {"": bare.cpu_ms}, note=f"{bare.per_s:.0f}/s"),
        Figure("sandbox", "docker exec, one at a time", "/s", {"": executed.per_s}),
        Figure("sandbox", "cold docker run, one at a time", "/s", {"": cold.per_s}),
    ]


def _judged(check: Check, bare: Way) -> Check:
    if check.met or bare.cpu_ms <= QUIET_INTERPRETER_MS:
        return check
    return Check(check.target, f"{check.measured} (machine busy: interpreter {bare.cpu_ms:.1f} CPU-ms)", None)


async def _started(name: str) -> tuple[Pool, float]:
    started = time.perf_counter()
    pool = Pool(Docker(Limits(), name), SLOTS)
    await pool.open()
    await _run(pool, 1)
    return pool, time.perf_counter() - started


async def _run(pool: Pool, count: int) -> None:
    jobs = (Job((PYTHON, "main.py"), {"main.py": SOURCE.encode()}, b"%d\n" % number) for number in range(count))
    results = await asyncio.gather(*map(pool.run, jobs))
    if any(result.verdict is not Verdict.COMPLETED or int(result.stdout) != n for n, result in enumerate(results)):
        raise BenchError("a program did not print what it read")


async def _pooled(pool: Pool, count: int) -> Way:
    await _run(pool, WARM_UP)
    workers = [_worker(line.slot.name.removeprefix("docker-")) for line in pool.lines]
    before, started = sum(map(_cpu_s, workers)), time.perf_counter()
    await _run(pool, count)
    wall_s = time.perf_counter() - started
    return Way(count / wall_s, (sum(map(_cpu_s, workers)) - before) / count * 1000)


def _worker(container: str) -> int:
    inspect = ["docker", "inspect", "-f", "{{.State.Pid}}", container]
    return int(subprocess.run(inspect, capture_output=True, text=True, check=True).stdout)


def _cpu_s(pid: int) -> float:
    """Of a process and all its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / sysconf("SC_CLK_TCK")


def _interpreters() -> Way:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    way = _timed([sys.executable, "-I", "-S", "-c", SOURCE], INTERPRETERS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Way(way.per_s, used_s / INTERPRETERS * 1000)


def _timed(command: Sequence[str], count: int) -> Way:
    started = time.perf_counter()
    for _ in range(count):
        done = subprocess.run(command, input=b"1\n", capture_output=True)
        if done.stdout != b"1\n":
            raise BenchError(f"{' '.join(command[:2])} failed: {done.stderr.decode(errors='replace').strip()[:200]}")
    return Way(count / (time.perf_counter() - started))
