"""What the runs came to: one `Result` a run, read from its folder, and the table over seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from .arms import ARMS

BEFORE = "before training"
HEADINGS = (
    "a failed session is", "held-out reward", "by seed", "whole code", "lookups", "broke", "recovered", "left out",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Held:
    """One evaluation at temperature 1. `lookups` is a mean over episodes, `code` the share with both digits."""

    reward: float
    reward_se: float
    lookups: float
    code: float


@dataclass(frozen=True, slots=True)
class Result:
    """A finished run. Of the `sessions` that were played to learn from, `broken` met a failure at least once;
    `masked` were left out of the update."""

    arm: str
    seed: int
    steps: int
    before: Held
    after: Held
    sessions: int
    broken: int
    recovered: int
    masked: int


def result_of(folder: Path, arm: str, seed: int, steps: int) -> Result:
    """Read a run's folder. Raises `ValueError` when the run did not play so many steps to their end."""
    lines = _lines(folder / "steps.jsonl")
    first, *_, last = [line for line in lines if "eval/reward" in line] or [{}, {}]
    played = [line for line in lines if "sessions/total" in line]
    if last.get("step") != steps or len(played) != steps:
        raise ValueError(f"{folder}: has no {steps} finished steps with an evaluation before and after them")
    sessions, masked = (sum(int(line[f"sessions/{name}"]) for line in played) for name in ("total", "masked"))
    broken = len({line["episode"] for line in _lines(folder / "failures.jsonl")})
    recovered = broken - masked if ARMS[arm].recover else 0
    return Result(arm, seed, steps, _held(first), _held(last), sessions, broken, recovered, masked)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _held(line: dict[str, Any]) -> Held:
    return Held(line["eval/reward"], line["eval/reward_se"], line["eval/lookups"], line["eval/code"])


@dataclass(frozen=True, slots=True)
class Mean:
    """Over seeds. The standard error is that of the seeds; None where there is one alone."""

    value: float
    error: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        return cls(fmean(values), stdev(values) / sqrt(len(values)) if len(values) > 1 else None)

    def __str__(self) -> str:
        return f"{self.value:.2f}" if self.error is None else f"{self.value:.2f} ± {self.error:.2f}"


def table(results: Sequence[Result]) -> str:
    """As markdown: the warm starts, then a line for every way that has results."""
    rows = [HEADINGS, tuple("---" for _ in HEADINGS), *_rows(sorted(results, key=lambda result: result.seed))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    first = {result.seed: result.before for result in reversed(results)}
    yield (BEFORE, *_held_out([first[seed] for seed in sorted(first)]), "", "", "")
    for arm in ARMS.values():
        if own := [result for result in results if result.arm == arm.name]:
            sessions = sum(result.sessions for result in own)
            counts = (sum(getattr(result, name) for result in own) for name in ("broken", "recovered", "masked"))
            yield (arm.said, *_held_out([result.after for result in own]), *(f"{n / sessions:.0%}" for n in counts))


def _held_out(held: Sequence[Held]) -> tuple[str, str, str, str]:
    by_seed = ", ".join(f"{one.reward:.2f}" for one in held)
    return (
        str(Mean.of([one.reward for one in held])),
        by_seed,
        f"{fmean(one.code for one in held):.2f}",
        f"{fmean(one.lookups for one in held):.2f}",
    )


def write(results: Sequence[Result], folder: Path) -> str:
    """The table, as `table.md`, and the results as `results.json`; answers the table."""
    made = table(results)
    (folder / "table.md").write_text(made, encoding="utf-8")
    (folder / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return made
