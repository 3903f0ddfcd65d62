"""The trainer's rollouts beside the raw engine, and the memory of `make train`, in the trainer's stack.

What a pair measures stands in `rollout/pairs.py`. Where the stack cannot be had, that is said and nothing is measured.
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

SECTION = "trainer: sessions of 4 turns with 0.25 s tools, 64 in flight, 32 in the engine"
TIMEOUT_S, TRAIN_TIMEOUT_S = 1800.0, 900.0
LEAST_RATIO, MOST_MS, MOST_GB = 0.9, 2.0, 6.0
#: Pairs whose ratios are further apart say that the machine was disturbed: a miss is not judged then.
APART = 0.1
#: The peak is reached by the first steps, once the engine, the optimizer's state and a batch are there; evaluation,
#: saving and the report are the same for any number of steps.
TRAIN_STEPS = 3

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
    bench.say(f"{bench.size.rounds} pairs of {bench.size.sessions} sessions and the raw engine, and one on a wire")
    with _served() as server:
        url = f"http://{HOST}:{server.port}"
        command = [str(python), "-m", f"{__package__}.rollout", str(bench.size.sessions), str(bench.size.rounds), url]
        said = await output_of("rollouts", command, TIMEOUT_S, env=peer_env(python), cwd=ROOT)
    return json.loads(said)


def _served() -> Server:
    """The slow tools in a process of their own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return gymwire(f"{__package__}.rollout.slow_tools:SlowTools", env=environment)


def _lines(wire: str, pairs: list[Pair]) -> list[Figure]:
    """The rollouts' tokens per second and their own CPU; the raw engine's once, beside those of this process."""
    where = "in this process" if wire == "local" else f"over {wire}"
    ratios = [_per_s(pair["rollout"]) / _per_s(pair["raw"]) for pair in pairs]
    by_cpu = median(pair["raw"]["cpu_s"] / pair["rollout"]["cpu_s"] for pair in pairs)
    steps, raw_steps = pairs[0]["rollout"]["steps"], pairs[0]["raw"]["steps"]
    cost_ms = min(map(_own_ms, pairs))
    raw_per_s = median(_per_s(pair["raw"]) for pair in pairs)
    note = f"raw {plain(raw_per_s)} tokens/s; {plain(by_cpu)}x by CPU; {steps:,} steps of the engine, raw {raw_steps:,}"
    speed = median(_per_s(pair["rollout"]) for pair in pairs)
    return [
        Figure(
            SECTION,
            f"{pairs[0]['rollout']['turns'] // 4} sessions {where}",
            "tokens/s",
            {"": speed},
            {"raw engine": median(ratios)},
            (_fast_enough(ratios),),
            note,
        ),
        Figure(
            SECTION,
            f"gymwire's own CPU of a turn, {where}",
            "ms",
            {"": cost_ms},
            checks=(at_most(MOST_MS, cost_ms, "ms"),),
        ),
    ]


def _per_s(one: dict[str, Any]) -> float:
    return one["tokens"] / one["wall_s"]


def _own_ms(pair: Pair) -> float:
    rollout = pair["rollout"]
    return 1000 * (rollout["cpu_s"] - rollout["engine_cpu_s"]) / rollout["turns"]


def _fast_enough(ratios: list[float]) -> Check:
    check = at_least(LEAST_RATIO, median(ratios), "x raw engine")
    if check.met or max(ratios) - min(ratios) <= APART:
        return check
    said = " to ".join(plain(ratio) for ratio in (min(ratios), max(ratios)))
    return Check(check.target, f"{check.measured} (machine busy: pairs from {said})", None)


async def _memory(bench: Bench, python: Path) -> Figure:
    """All processes of what `make train` runs, summed: the server, the warm start and the trainer."""
    bench.say(f"memory of make train, with {TRAIN_STEPS} steps")
    peak = Peak()
    with TemporaryDirectory(prefix="gymwire-") as folder:
        command = [
            str(python),
            "-m",
            "gymwire.trainer.first_run",
            f"{folder}/run",
            "--set",
            f"trl.max_steps={TRAIN_STEPS}",
        ]
        await output_of("make train", command, TRAIN_TIMEOUT_S, env=peer_env(python), cwd=ROOT, meanwhile=peak.watch)
    return Figure(
        "trainer: memory",
        f"peak RSS of make train, its first {TRAIN_STEPS} steps",
        "GB",
        {"": peak.sum_gb},
        checks=(at_most(MOST_GB, peak.sum_gb, "GB"),),
        note=f"largest process {plain(peak.largest_gb)} GB",
    )
