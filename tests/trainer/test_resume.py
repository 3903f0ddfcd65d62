"""An interrupted and resumed run equals one that was never interrupted, on scripted token ids.

With a real engine the composition of a batch can move a logit by rounding, and with it a sampled token; so what is
compared here is everything but sampling: rows, their order, refills, retired rows, optimizer and random states.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

import torch
from gymwire.trainer.checkpoints import newest
from gymwire.trainer.config import Config, ConfigError
from gymwire.trainer.rows import Episode
from gymwire.trainer.run import RunError
from safetensors.torch import load_file

from tests.trainer import runs
from tests.trainer.runs import manifest, run_scripted, save_policy
from tests.trainer.scripted import codebook

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

PLAIN: dict[str, Any] = {"max_steps": 6, "save_steps": 2}
#: Two steps use each generation batch, twice over; rows are refilled and retired.
REUSED: dict[str, Any] = {"max_steps": 8, "save_steps": 4, "steps_per_generation": 2, "num_iterations": 2}
#: A step waits for two generation batches.
GATHERED: dict[str, Any] = {
    "max_steps": 4, "save_steps": 2, "steps_per_generation": 1, "gradient_accumulation_steps": 2,
}  # fmt: skip
#: The turn, of all that are sampled, in which the run is told to stop: while some step's episodes are played.
TOLD = 60


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


def config_of(policy: Path, folder: Path, trl: dict[str, Any], **sections: Any) -> Config:
    common = {
        "data": {"eval_count": 4, "retire_above": 0.7, "count": 24},
        "rollout": {"max_tokens": 400, "max_turn_tokens": 64, "max_refill": 1},
    }
    return runs.config_of(policy, folder, trl, **{**common, **sections})


def finish(config: Config, *, resume: bool = False) -> None:
    assert run_scripted(config, resume=resume) == 0


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / manifest(folder)["checkpoint"] / "model.safetensors")


def assert_equal_runs(one: Path, other: Path) -> None:
    first, second = manifest(one), manifest(other)
    assert first["state"] == second["state"] == "finished"
    assert first["consumed"] == second["consumed"]
    assert first["checkpoint"] == second["checkpoint"]
    assert first["grad_norms"] == pytest.approx(second["grad_norms"], rel=1e-5)
    assert any(norm > 0 for norm in first["grad_norms"].values())
    for name, tensor in weights(one).items():
        torch.testing.assert_close(tensor, weights(other)[name], rtol=0, atol=1e-7)
    assert first["parameter_change"]["change"] > 0
    progress = [(folder / first["checkpoint"] / "gymwire_progress.json").read_text() for folder in (one, other)]
    assert progress[0] == progress[1]


@pytest.fixture(scope="module", params=[PLAIN, REUSED, GATHERED], ids=["plain", "reused", "gathered"])
def whole(request: pytest.FixtureRequest, policy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("whole") / "run"
    finish(config_of(policy, folder, request.param))
    return folder, request.param


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=["SIGTERM", "SIGUSR1"])
def test_a_run_that_is_told_to_stop_goes_on_as_if_nothing_had_been(
    whole: tuple[Path, Any], policy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    folder = tmp_path / "run"
    config = config_of(policy, folder, whole[1])
    asked = 0

    def told(episode: Episode, turn: int, text: str) -> str:
        nonlocal asked
        asked += 1
        if asked == TOLD:
            os.kill(os.getpid(), number)
        return codebook(episode, turn, text)

    assert run_scripted(config, told) == 0
    stopped = manifest(folder)
    assert stopped["state"] == "interrupted"
    assert stopped["signal"] == number.name
    assert stopped["checkpoint"] != manifest(whole[0])["checkpoint"]
    finish(config, resume=True)
    assert_equal_runs(whole[0], folder)
    assert len(manifest(folder)["resumed"]) == 1


def test_a_run_that_died_goes_on_from_its_newest_checkpoint(
    whole: tuple[Path, Any], policy: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    shutil.rmtree(folder / manifest(whole[0])["checkpoint"])
    with (folder / "steps.jsonl").open("a") as file:
        file.write('{"step": 3, "unfini')
    finish(config_of(policy, folder, whole[1]), resume=True)
    assert_equal_runs(whole[0], folder)
    steps = [json.loads(line)["step"] for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert len(steps) == len((whole[0] / "steps.jsonl").read_text().splitlines())


def test_an_incomplete_checkpoint_is_passed_over(whole: tuple[Path, Any], policy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    (folder / manifest(whole[0])["checkpoint"] / "gymwire_progress.json").unlink()
    resumed = newest(folder)
    assert resumed is not None
    assert resumed.name != manifest(whole[0])["checkpoint"]


def test_a_new_run_never_mixes_with_an_old_one(whole: tuple[Path, Any], policy: Path, tmp_path: Path) -> None:
    config = config_of(policy, whole[0], whole[1])
    with pytest.raises(RunError, match="--resume"):
        run_scripted(config)
    empty = config_of(policy, tmp_path / "empty", whole[1])
    with pytest.raises(RunError, match="no complete checkpoint"):
        run_scripted(empty, resume=True)


def test_a_run_does_not_go_on_with_other_rows(whole: tuple[Path, Any], policy: Path) -> None:
    config = config_of(policy, whole[0], whole[1], data={"count": 12, "eval_count": 4})
    with pytest.raises(ConfigError, match="rows of the run"):
        run_scripted(config, resume=True)
