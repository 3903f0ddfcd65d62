"""Gradients with failed sessions equal those of a reference that never saw them, for every loss and option."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from gymwire.trainer.grpo import SessionGRPOTrainer  # noqa: E402

from datasets import Dataset  # noqa: E402
from tests.trainer.exact import FAILURES, Case, ours, plain, play  # noqa: E402
from tests.trainer.pairwise import pairwise  # noqa: E402
from tests.trainer.reference import advantages, apart, gradients, size  # noqa: E402
from tests.trainer.tiny import save_model  # noqa: E402

#: Options with which each loss moves far enough from where it sampled that its bounds are felt.
LOSSES: dict[str, dict[str, Any]] = {
    "grpo": {},
    "dr_grpo": {},
    "dapo": {"epsilon_high": 0.28},
    "bnpo": {},
    "cispo": {"epsilon_high": 1.5},
    "sapo": {},
    "luspo": {"importance_sampling_level": "sequence", "learning_rate": 0.005},
    "vespo": {"learning_rate": 0.003},
    "gspo": {"importance_sampling_level": "sequence", "learning_rate": 0.02},
}
EXACT = 1e-5


def case(loss: str, trl: dict[str, Any] | None = None, **options: Any) -> Case:
    return Case(loss_type="grpo" if loss == "gspo" else loss, trl={**LOSSES[loss], **(trl or {})}, **options)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()  # transformers collects garbage before each training: half a second with all that is imported
    yield save_model(tmp_path_factory.mktemp("model"))
    gc.unfreeze()
    torch.set_num_threads(threads)


def check(case: Case, model: Path, folder: Path) -> None:
    """Every window's gradient is the reference's; where that has none, nothing changed."""
    run = play(case, model, folder)
    assert len(run.windows) == case.windows
    for window, wanted in zip(run.windows, gradients(case, [run], model), strict=True):
        if wanted is None:
            assert window.gradient == {}
            assert apart(window.after, window.before) == 0
        else:
            assert size(wanted) > 0
            assert apart(window.gradient, wanted) < EXACT


@pytest.mark.parametrize("failures", FAILURES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_with_every_kind_of_failure(loss: str, failures: str, model: Path, tmp_path: Path) -> None:
    check(case(loss, {"num_iterations": 2}, failures=(failures,)), model, tmp_path)


PAIRS = pairwise(
    {
        "loss": list(LOSSES),
        "failures": [("one", "a group"), ("all but one of a group", "a group and one"), ("all", "one")],
        "micro": [3, 4, 12],
        "accumulation": [1, 2],
        "num_iterations": [1, 2],
        "scale_rewards": ["group", "batch", "none"],
        "components": [1, 3],
        "beta": [0.0, 0.1],
        "entropy_coef": [0.0, 0.05],
    }
)


@pytest.mark.parametrize("pairs", PAIRS, ids=lambda pairs: "-".join(str(value) for value in pairs.values()))
def test_every_pair_of_options(pairs: dict[str, Any], model: Path, tmp_path: Path) -> None:
    options = dict(pairs)
    loss, micro = options.pop("loss"), options["micro"]
    ours = {name: options.pop(name) for name in ("failures", "micro", "accumulation", "components")}
    if ours["components"] > 1:
        options["reward_weights"] = [1.0, 0.5, 2.0]
    check(case(loss, options, per_generation=12 // micro, **ours), model, tmp_path)


@pytest.mark.parametrize(
    "trl",
    [
        {"temperature": 0.7},
        {"top_entropy_quantile": 0.5, "beta": 0.1, "entropy_coef": 0.05},
        {"beta": 0.1, "use_bias_correction_kl": False},
        {"multi_objective_aggregation": "normalize_then_sum"},
        {"gradient_checkpointing": True},
    ],
    ids=lambda trl: "-".join(trl),
)
@pytest.mark.parametrize("loss", ["grpo", "dapo"])
def test_further_options(loss: str, trl: dict[str, Any], model: Path, tmp_path: Path) -> None:
    check(case(loss, {"num_iterations": 2, **trl}, components=2), model, tmp_path)


@pytest.mark.parametrize(
    ("loss", "mode"),
    [*product(["grpo", "dapo", "bnpo", "gspo"], ["sequence_mask", "token_truncate"]), ("vespo", "token_truncate")],
)
def test_corrected_for_the_engine_that_sampled(loss: str, mode: str, model: Path, tmp_path: Path) -> None:
    trl = {"vllm_importance_sampling_mode": mode, "vllm_importance_sampling_clip_max": 5.0}
    check(case(loss, trl, engine=True, failures=("one", "a group and one")), model, tmp_path)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "bnpo"])
@pytest.mark.parametrize(("micro", "accumulation", "epochs"), [(4, 2, 2), (12, 3, 1), (6, 4, 1), (3, 8, 1)])
def test_windows_that_end_early_or_reach_over_generation_batches(
    loss: str, micro: int, accumulation: int, epochs: int, model: Path, tmp_path: Path
) -> None:
    """Three steps in windows of two, twice over; windows that hold several generation batches, one of them all lost."""
    layout = {"micro": micro, "per_generation": 12 // micro, "accumulation": accumulation, "epochs": epochs}
    lost = ("a group and one", "all", "one", "all but one of a group")
    check(case(loss, {"entropy_coef": 0.05}, failures=lost, **layout), model, tmp_path)


@pytest.mark.parametrize("loss", ["grpo", "dapo", "bnpo", "gspo"])
def test_micro_batches_without_survivors_take_no_share(loss: str, model: Path, tmp_path: Path) -> None:
    layout = {"micro": 1, "per_generation": 12, "accumulation": 6}
    check(case(loss, {"entropy_coef": 0.05, "beta": 0.1}, **layout), model, tmp_path)


@pytest.mark.filterwarnings("ignore:You are using 'rollout_func'")
@pytest.mark.parametrize("loss", LOSSES)
def test_without_failures_it_is_plain_trl(loss: str, model: Path, tmp_path: Path) -> None:
    trl = {"num_iterations": 2, "beta": 0.1, "entropy_coef": 0.05}
    made = case(loss, trl, failures=("none",), components=2)
    ours, theirs = play(made, model, tmp_path), play(made, model, tmp_path, plain)
    assert [window.steps for window in ours.windows] == [window.steps for window in theirs.windows]
    for mine, other in zip(ours.windows, theirs.windows, strict=True):
        assert apart(mine.gradient, other.gradient) < 1e-7


def test_a_window_of_failures_leaves_parameters_and_optimizer_alone(model: Path, tmp_path: Path) -> None:
    trl = {"optim": "adamw_torch", "learning_rate": 1e-3, "weight_decay": 0.1, "beta": 0.1, "entropy_coef": 0.05}
    made = case("dapo", trl, failures=("one", "all", "none"), accumulation=6)
    before, lost, after = play(made, model, tmp_path).windows
    assert lost.gradient == {} and apart(lost.after, lost.before) == 0
    remembered, kept = lost.optimizer
    assert len(remembered) == len(kept) == len(before.gradient)
    for there, then in zip(remembered, kept, strict=True):
        assert there.keys() == then.keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert all(torch.equal(there[name], then[name]) for name in there)
    assert apart(after.after, after.before) > 0 and after.optimizer[1][0]["step"] == 2


@pytest.mark.parametrize("failures", ["a group and one", "all"])
def test_evaluation_counts_survivors_alone(failures: str, model: Path, tmp_path: Path) -> None:
    made = case("luspo", {"per_device_eval_batch_size": 12}, failures=(failures,), accumulation=6)
    kept: list[SessionGRPOTrainer] = []

    def keeping(**options: Any) -> SessionGRPOTrainer:
        kept.append(ours(**options))
        return kept[-1]

    play(made, model, tmp_path, keeping)
    (trainer,) = kept
    trainer._collect = lambda rows, mode: made.samples(0) if mode == "eval" else []
    found = trainer.evaluate(Dataset.from_dict({"prompt": ["a b c"] * 3}))  # type: ignore[arg-type]
    alive = [at for at, sample in enumerate(made.samples(0)) if not sample.failed]
    said = {at: -advantages(made, made.samples(0))[at] * sum(made.samples(0)[at].sampled) for at in alive}
    assert found["eval_loss"] == pytest.approx(mean(said.values()) if alive else 0, rel=1e-5)
    scores = [sample.rewards[0] for sample in made.samples(0) if sample.rewards]
    assert found["eval_reward"] == (pytest.approx(mean(scores)) if scores else None)
