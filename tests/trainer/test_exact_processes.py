"""Two processes with failed sessions take the same step, and it is the reference's; groups lie across both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from tests.trainer.exact import Case, Run  # noqa: E402
from tests.trainer.processes import play_together  # noqa: E402
from tests.trainer.reference import apart, gradients  # noqa: E402
from tests.trainer.tiny import save_model  # noqa: E402

pytestmark = pytest.mark.timeout(300)

KL: dict[str, Any] = {"beta": 0.1, "entropy_coef": 0.05}
MOST: dict[str, Any] = {"micro": 2, "per_generation": 3, "processes": 2}
CASES = {
    "grpo": Case("grpo", ("none", "a group and one"), accumulation=1, **MOST),
    "grpo, all kinds of terms": Case("grpo", ("a group and one", "one"), accumulation=3, trl=KL, **MOST),
    "gspo": Case("grpo", ("a group",), accumulation=3, trl={"importance_sampling_level": "sequence"}, **MOST),
    "dr_grpo": Case("dr_grpo", ("one", "all", "one"), accumulation=3, **MOST),
    "dapo": Case("dapo", ("a group and one",), accumulation=1, trl={"num_iterations": 2, **KL}, **MOST),
    "bnpo": Case("bnpo", ("all but one of a group", "all"), accumulation=2, trl=KL, **MOST),
    "cispo": Case("cispo", ("a group and one",), accumulation=3, trl={"epsilon_high": 1.5}, **MOST),
    "sapo": Case("sapo", ("a group and one",), accumulation=3, components=3, **MOST),
    "luspo": Case("luspo", ("one",), accumulation=3, trl={"scale_rewards": "batch"}, **MOST),
    "vespo": Case("vespo", ("a group and one",), accumulation=1, trl={"learning_rate": 0.003}, **MOST),
    "hot tokens": Case("dapo", ("a group and one",), accumulation=1, trl={"top_entropy_quantile": 0.5}, **MOST),
    "one micro-batch each": Case(
        "grpo", ("a group and one",), micro=6, per_generation=1, accumulation=1, processes=2, trl=KL
    ),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def runs(model: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Run]]:
    """All cases in the same two processes: they take long to start."""
    played = play_together(list(CASES.values()), model, tmp_path_factory.mktemp("runs"), 2)
    return dict(zip(CASES, played, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_both_processes_take_the_step_of_the_reference(name: str, runs: dict[str, list[Run]], model: Path) -> None:
    case, (first, second) = CASES[name], runs[name]
    assert len(first.windows) == len(second.windows) == case.windows
    for one, other, wanted in zip(first.windows, second.windows, gradients(case, [first, second], model), strict=True):
        assert apart(one.after, other.after) == 0
        if wanted is None:
            assert one.gradient == other.gradient == {}
            assert apart(one.after, one.before) == 0
        else:
            assert apart(one.gradient, wanted) < 1e-5 and apart(other.gradient, wanted) < 1e-5
