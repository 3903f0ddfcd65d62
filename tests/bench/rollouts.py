"""The trainer's rollouts beside the raw engine, and the memory of `make train`, in the trainer's stack.

64 sessions are in flight and 32 in the engine. What a pair measures stands in `rollout/pairs.py`. Where the stack
cannot be had, that is said and nothing is measured.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError
from tempfile import TemporaryDirectory
from typing import Any

from ..peers.venvs import PeerMissing, peer_env
from ..trainer_stack import ROOT, stack_python
from .figures import Check, Figure, at_least, at_most, plain
from .fleet import Bench
from .processes import HOST, BenchError, Server, gymwire, output_of
from .tree import Peak

SECTION = "trainer: 4 turns a session, 0.25 s tools"
TIMEOUT_S, TRAIN_TIMEOUT_S = 1800.0, 1800.0
LEAST_RATIO, MOST_MS, MOST_GB = 0.9, 2.0, 6.0
#: The raw engine never sleeps: where it takes so much longer than its CPU time, others had the processor, and a miss
#: is not judged.
BUSY = 1.1
#: The peak is reached by the first steps, once the engine, the optimizer's state and a batch are there; evaluation,
#: saving and the report are the same for any number of steps.
TRAIN_STEPS = 3
TRAIN_OPTIONS = ("--set", f"trl.max_steps={TRAIN_STEPS}")

Pair = dict[str, Any]


async def figures(bench: Bench) -> list[Figure]:
    try:
        python = stack_python()
    except PeerMissing as missing:
        bench.console.print(f"[yellow]left out: the trainer: {missing}[/yellow]")
        return []
    except CalledProcessError as error:
        raise BenchError(str(error)) from None
    pairs = await _pairs(bench, python)
    wires = list(dict.fromkeys(pair["wire"] for pair in pairs))
    lines = [line for wire in wires for line in _lines(wire, [pair for pair in pairs if pair["wire"] == wire])]
    return [*lines, await _memory(bench, python)]


async def _pairs(bench: Bench, python: Path) -> list[Pair]:
    bench.say(f"{bench.size.rounds} times {bench.size.sessions} sessions and the raw engine, and once over a wire")
    with _served() as server:
        url = f"http://{HOST}:{server.port}"
        command = [str(python), "-m", f"{__package__}.rollout", str(bench.size.sessions), str(bench.size.rounds), url]
        said = await output_of("rollouts", command, TIMEOUT_S, env=peer_env(python), cwd=ROOT)
    return json.loads(said)


def _served() -> Server:
    """The slow tools in a process of their own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return gymwire(f"{__package__}.rollout.slow_tools:SlowTools", env=environment)


def _lines(wire: str, pairs: list[Pair]) -> tuple[Figure, Figure]:
    where = "in this process" if wire == "local" else f"over {wire}"
    cost_ms = min(map(_own_ms, pairs))
    checks = (at_most(MOST_MS, cost_ms, "ms"),)
    cost = Figure(SECTION, f"gymwire's own CPU of a turn, {where}", "ms", {"": cost_ms}, checks=checks)
    return _speed(f"{pairs[0]['sessions']} sessions {where}", pairs), cost


def _speed(name: str, pairs: list[Pair]) -> Figure:
    """Medians over the pairs; the ratio is that of each pair, not of the medians."""
    per_s, raw_per_s = (median(_per_s(pair[kind]) for pair in pairs) for kind in ("rollout", "raw"))
    ratios = [_per_s(pair["rollout"]) / _per_s(pair["raw"]) for pair in pairs]
    by_cpu = median(pair["raw"]["cpu_s"] / pair["rollout"]["cpu_s"] for pair in pairs)
    waited = max(pair["raw"]["wall_s"] / pair["raw"]["cpu_s"] for pair in pairs)
    steps, raw_steps = (pairs[0][kind]["steps"] for kind in ("rollout", "raw"))
    note = f"raw {plain(raw_per_s)} tokens/s; {plain(by_cpu)}x by CPU; {steps:,} steps of the engine, raw {raw_steps:,}"
    checks = (_fast_enough(ratios, waited),)
    return Figure(SECTION, name, "tokens/s", {"": per_s}, {"raw engine": median(ratios)}, checks, note)


def _per_s(one: dict[str, Any]) -> float:
    return one["tokens"] / one["wall_s"]


def _own_ms(pair: Pair) -> float:
    rollout = pair["rollout"]
    return 1000 * (rollout["cpu_s"] - rollout["engine_cpu_s"]) / rollout["turns"]


def _fast_enough(ratios: list[float], waited: float) -> Check:
    check = at_least(LEAST_RATIO, median(ratios), "of the raw engine")
    if check.met or waited <= BUSY:
        return check
    said = ", ".join(map(plain, ratios))
    return Check(check.target, f"{check.measured} (machine busy: pairs {said})", None)


async def _memory(bench: Bench, python: Path) -> Figure:
    """All processes of what `make train` runs, summed: the server, the warm start and the trainer."""
    bench.say(f"memory of make train, with {TRAIN_STEPS} steps")
    peak = Peak()
    with TemporaryDirectory(prefix="gymwire-") as folder:
        command = [str(python), "-m", "gymwire.trainer.first_run", f"{folder}/run", *TRAIN_OPTIONS]
        await output_of("make train", command, TRAIN_TIMEOUT_S, env=peer_env(python), cwd=ROOT, meanwhile=peak.watch)
    return Figure(
        "trainer: memory",
        f"peak RSS of make train, its first {TRAIN_STEPS} steps",
        "GB",
        {"": peak.sum_gb},
        checks=(at_most(MOST_GB, peak.sum_gb, "GB"),),
        note=f"largest process {plain(peak.largest_gb)} GB",
    )
