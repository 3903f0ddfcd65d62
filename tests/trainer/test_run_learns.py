"""One short run, from nothing to a policy that learned: the tiny policy on codebook, with the real engine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from math import hypot
from pathlib import Path
from typing import Any

import pytest

WHY = "needs the trainer's stack"
pytest.importorskip("vllm", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from tests.serving import ROOT, Running, serving  # noqa: E402
from tests.trainer.runs import own_environment  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
STEPS = 10
AGREEMENT = 1e-4


def gymwire(*arguments: str) -> str:
    command = [sys.executable, "-m", "gymwire.servers.cli", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout + done.stderr


def train(policy: Path, folder: Path, *settings: str) -> str:
    config = str(ROOT / "trainer" / "configs" / "tiny-cpu.yaml")
    ours = [f"model.path={policy}", f"log.dir={folder}", *settings]
    return gymwire("train", config, *(word for text in ours for word in ("--set", text)))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "policy"
    gymwire("policy", "tiny", str(folder))
    return folder


@pytest.fixture(scope="module")
def learned(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned") / "run"
    train(policy, folder, f"trl.max_steps={STEPS}")
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server") / "server.log", "codebook") as running:
        yield running


def test_held_out_reward_rises_by_more_than_two_standard_errors(learned: Path) -> None:
    before, after = [line for line in lines(learned) if "eval/reward" in line]
    assert (before["step"], after["step"]) == (0, STEPS)
    assert 0.1 <= before["eval/reward"] <= 0.5
    error = hypot(before["eval/reward_se"], after["eval/reward_se"])
    assert after["eval/reward"] - before["eval/reward"] > 2 * error


def test_the_engine_samples_from_the_weights_that_learn(learned: Path) -> None:
    steps = [line for line in lines(learned) if "reward" in line]
    assert len(steps) == STEPS
    assert max(line["sampling/sampling_logp_difference/max"] for line in steps) < AGREEMENT


def test_the_run_folder_says_what_was_done(learned: Path) -> None:
    made = json.loads((learned / "manifest.json").read_text())
    assert made["state"] == "finished"
    assert made["checkpoint"] == f"checkpoint-{STEPS}"
    assert made["parameter_change"]["change"] > 0
    assert made["parameter_change"]["unmatched"] == 0
    assert sorted(made["consumed"], key=int) == [str(step) for step in range(1, STEPS + 1)]
    assert all(len(rows) == 8 for rows in made["consumed"].values())
    assert made["environment"]["name"] == "codebook"
    assert made["versions"]["trl"].startswith("1.16.")
    assert (learned / "config.yaml").exists()


def test_a_steps_time_is_the_sum_of_its_parts(learned: Path) -> None:
    for line in (line for line in lines(learned) if "time/step_s" in line):
        parts = sum(value for key, value in line.items() if key.startswith("time/") and key != "time/step_s")
        assert parts == pytest.approx(line["time/step_s"], rel=0.02)


def test_training_on_a_served_url_does_the_same(policy: Path, server: Running, tmp_path: Path) -> None:
    """Rows stay on the server, and are named by their places."""
    train(policy, tmp_path / "run", "trl.max_steps=1", "data.eval_count=0", f"environment.url={server.url}")
    made = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert made["environment"]["wire"] == "nemo-gym"
    assert all(row.startswith("train.") for row in made["consumed"]["1"])
    (step,) = [line for line in lines(tmp_path / "run") if "reward" in line]
    assert step["sessions/trainable"] == 64


def test_lora_trains_the_weights_that_the_engine_samples_with(policy: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft", reason="LoRA needs peft")
    lora = 'model.lora={"r": 8, "lora_alpha": 16, "target_modules": "all-linear"}'
    train(policy, tmp_path / "run", "trl.max_steps=3", "data.eval_count=0", lora, "trl.learning_rate=2e-3")
    steps = [line for line in lines(tmp_path / "run") if "reward" in line]
    assert max(line["sampling/sampling_logp_difference/max"] for line in steps) < AGREEMENT
    change = json.loads((tmp_path / "run" / "manifest.json").read_text())["parameter_change"]
    assert change["change"] > 0
    assert change["unmatched"] == 0
