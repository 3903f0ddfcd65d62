"""The runs of `make learn`: what masking leaves out of an update, the naive way trains on. With scripted ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from tests.learn.arms import SHORTCUT
from tests.learn.results import Result, result_of
from tests.learn.run import train
from tests.trainer.runs import config_of, plan_of, save_policy, scripted, steps

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
STEPS = 2


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


def study(policy: Path, folder: Path, arm: str) -> tuple[Result, list[dict[str, Any]]]:
    """A short run, and its step log."""
    environment = {"name": "tests.learn.failing:FailingCodebook", "settings": {"shortcut": SHORTCUT, "risk": 0.9}}
    failures = {"recover": 0, "max_retries": 0, "stop_share": 1.0}
    options: dict[str, Any] = {"environment": environment, "failures": failures, "log": {"dir": str(folder)}}
    options["log"]["audit_first_step"] = False
    config = config_of(policy, folder, {"max_steps": STEPS}, **options)
    assert train(config, plan_of(config), failed_is_zero=arm == "zero", policy=scripted()) == 0
    return result_of(folder, arm, 0, STEPS), steps(folder)


def test_the_naive_way_trains_on_what_masking_leaves_out(policy: Path, tmp_path: Path) -> None:
    masked, masked_steps = study(policy, tmp_path / "masked", "masked")
    zero, zero_steps = study(policy, tmp_path / "zero", "zero")
    assert masked.masked == masked.broken > 0
    assert zero.masked == 0 < zero.broken
    assert [step["rows"] for step in masked_steps] == [step["rows"] for step in zero_steps]
    assert all(step["sessions/trainable"] == step["sessions/total"] for step in zero_steps)
    assert masked.before == zero.before
    assert 0 < zero.after.lookups <= 2
