"""C20 and X10: what a failed session must not do to its group and to the divisor, by table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from gymwire.trainer.grpo import Sample  # noqa: E402

from tests.trainer.exact import Case, Run, play  # noqa: E402
from tests.trainer.reference import apart, gradients  # noqa: E402
from tests.trainer.tiny import EOS, save_model  # noqa: E402

TABLE = {
    made["id"]: made["input"]
    for made in map(json.loads, Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8").splitlines())
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def group(rewards: Sequence[float], failed: Sequence[int], lengths: Sequence[int]) -> tuple[Sample, ...]:
    """One group whose completions differ in their first token."""
    return tuple(
        Sample(
            prompt_ids=[2, 3],
            completion_ids=[10 + at, *[20] * (length - 2), EOS],
            sampled=[1] * length,
            logprobs=[-4.0] * length,
            rewards=None if broken else [float(reward)],
        )
        for at, (reward, broken, length) in enumerate(zip(rewards, failed, lengths, strict=True))
    )


def one_batch(case: Case, model: Path, folder: Path) -> tuple[Run, dict[str, Any]]:
    run = play(case, model, folder)
    (batch,) = run.batches
    return run, batch


@pytest.mark.parametrize("row", TABLE["C20"], ids=lambda row: f"{row['scale']}-{row['rewards']}")
def test_c20_a_failed_member_does_not_vote(row: dict[str, Any], model: Path, tmp_path: Path) -> None:
    given = group(row["rewards"], row["failed"], [5, 6, 7, 8])
    case = Case(given=given, micro=4, per_generation=1, accumulation=1, trl={"scale_rewards": row["scale"]})
    _, batch = one_batch(case, model, tmp_path)
    first, advantages = batch["completion_ids"][:, 0].tolist(), batch["advantages"].tolist()
    found = dict(zip(first, advantages, strict=True))
    assert [found.get(10 + at, 0) for at in range(4)] == pytest.approx(row["want"], abs=2e-4)
    (lost,) = [at for at, token in enumerate(first) if token < 10]
    assert advantages[lost] == 0
    assert (batch["completion_mask"] * batch["tool_mask"])[lost].sum() == 0


def test_x10_a_failed_row_is_no_part_of_the_divisor(model: Path, tmp_path: Path) -> None:
    row = TABLE["X10"]
    given = group([1, 0, 0, 1], row["failed"], row["completion_tokens"])
    case = Case(
        loss_type=row["loss_type"],
        given=given,
        micro=4,
        per_generation=1,
        accumulation=1,
        trl={"beta": 0.1, "max_completion_length": 1000},
    )
    run, batch = one_batch(case, model, tmp_path)
    assert int(batch["num_items_in_batch"]) == row["want"]
    (wanted,) = gradients(case, [run], model)
    assert wanted is not None and apart(run.windows[0].gradient, wanted) < 1e-5
