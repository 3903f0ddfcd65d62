"""TRL's trackers get what the step log has, under their own names; one that is not installed is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from gymwire.trainer import stack

from tests.trainer.runs import config_of, lines, run_scripted, save_policy

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
#: Figures of a step that a tracker must have, as it names them: TRL's own and ours.
FIGURES = ("reward", "loss", "sessions/trainable", "groups/zero_variance", "time/decode_s")


def run_with(tracker: str, folder: Path) -> Path:
    policy, run = save_policy(folder / "policy"), folder / "run"
    assert run_scripted(config_of(policy, run, {"max_steps": 2, "report_to": [tracker], "run_name": "ours"})) == 0
    return run


def by_step(run: Path, key: str) -> dict[int, float]:
    return {line["step"]: line[key] for line in lines(run / "steps.jsonl") if key in line}


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    run = run_with("tensorboard", tmp_path)
    (events,) = (tmp_path / "events").rglob("events.out.tfevents.*")
    read: Any = found.EventAccumulator(str(events.parent))
    read.Reload()
    for tag, key in {f"train/{name}": name for name in FIGURES}.items() | {("eval/reward", "eval/reward")}:
        wanted = by_step(run, key)
        assert {event.step: event.value for event in read.Scalars(tag)} == pytest.approx(wanted), tag
        assert len(wanted) == 2


@pytest.mark.parametrize(
    "tracker", [name for name, known in stack.TRACKERS.items() if not any(map(stack.installed, known))]
)
def test_one_that_is_not_installed_is_named_with_its_package(tracker: str) -> None:
    (said,) = stack.tracker_faults(tracker, here=True)
    assert (
        said == f"trl.report_to names {tracker}, which is not installed here: pip install {stack.TRACKERS[tracker][0]}"
    )
