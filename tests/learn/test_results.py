"""The table's arithmetic, and that a run that did not end is no result."""

from __future__ import annotations

import json
import subprocess
import sys
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from tests.learn.results import Held, Mean, Result, result_of, table
from tests.serving import ROOT

BEFORE = Held(0.4, 0.04, 0.9, 0.25)


def result(arm: str, seed: int, reward: float, **counts: int) -> Result:
    counts = {"broken": 0, "recovered": 0, "masked": 0, **counts}
    return Result(arm, seed, 2, BEFORE, Held(reward, 0.02, 2.0, reward), sessions=100, **counts)


def run_folder(folder: Path, *, steps: int = 2, masked: int = 0, failed: tuple[str, ...] = ()) -> Path:
    """A run's step log and ledger, as far as they are read."""
    evaluation = {"eval/reward": 0.4, "eval/reward_se": 0.04, "eval/lookups": 1.5, "eval/code": 0.3}
    lines: list[dict[str, Any]] = [{"step": 0, **evaluation}]
    lines += [{"step": step + 1, "sessions/total": 64, "sessions/masked": masked} for step in range(steps)]
    lines.append({"step": steps, **evaluation, "eval/reward": 0.9})
    folder.mkdir()
    (folder / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if failed:
        (folder / "failures.jsonl").write_text("".join(json.dumps({"episode": name}) + "\n" for name in failed))
    return folder


def test_a_mean_has_the_standard_error_of_its_seeds() -> None:
    mean = Mean.of([0.8, 0.9, 1.0])
    assert (mean.value, mean.error) == pytest.approx((0.9, 0.1 / sqrt(3)))
    assert str(mean) == "0.90 ± 0.06"
    assert str(Mean.of([0.8])) == "0.80"


def test_the_table_has_a_line_for_every_way_and_its_seeds_in_order() -> None:
    results = [result("masked", 1, 0.6, broken=60, masked=60), result("masked", 0, 0.8, broken=20, masked=20)]
    lines = table([*results, result("clean", 0, 0.9)]).splitlines()
    assert [line.split(" | ") for line in lines[2:]] == [
        ["| before training", "0.40 ± 0.00", "0.40, 0.40", "0.25", "0.90", "", "", " |"],
        ["| nothing fails", "0.90", "0.90", "0.90", "2.00", "0%", "0%", "0% |"],
        ["| masked only", "0.70 ± 0.10", "0.80, 0.60", "0.70", "2.00", "40%", "0%", "40% |"],
    ]


def test_broken_sessions_are_counted_once_each(tmp_path: Path) -> None:
    failed = ("a:0", "a:0", "a:0", "b:0", "c:0", "c:0")
    recovered = result_of(run_folder(tmp_path / "r", masked=1, failed=failed), "recovered", 0, 2)
    assert (recovered.sessions, recovered.broken, recovered.recovered, recovered.masked) == (128, 3, 1, 2)
    zero = result_of(run_folder(tmp_path / "z", failed=failed), "zero", 0, 2)
    assert (zero.broken, zero.recovered, zero.masked) == (3, 0, 0)
    assert (zero.before, zero.after) == (Held(0.4, 0.04, 1.5, 0.3), Held(0.9, 0.04, 1.5, 0.3))


@pytest.mark.parametrize("steps", [1, 3])
def test_a_run_of_another_length_is_no_result(tmp_path: Path, steps: int) -> None:
    with pytest.raises(ValueError, match="has no 2 finished steps"):
        result_of(run_folder(tmp_path / "run", steps=steps), "clean", 0, 2)


def test_a_folder_without_a_run_is_no_result(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no 2 finished steps"):
        result_of(tmp_path, "clean", 0, 2)


def test_the_help_names_every_way() -> None:
    command = [sys.executable, "-m", "tests.learn", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    for word in ("clean", "recovered", "masked", "zero", "--seeds", "--arms", "--steps"):
        assert word in said
