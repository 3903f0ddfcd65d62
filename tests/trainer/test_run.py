"""What a run does with failures, and what it leaves behind; with scripted token ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from gymwire.trainer.config import ConfigError
from gymwire.trainer.rows import Episode

from tests.trainer.runs import config_of, lines, manifest, run_scripted, save_policy, steps
from tests.trainer.scripted import call
from tests.trainer.worlds import Frail

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
FRAIL = {
    "environment": {"name": "tests.trainer.worlds:Frail"},
    "data": {"eval_count": 0},
    "rollout": {"max_tokens": 400, "max_turn_tokens": 64, "tool_timeout_s": 5},
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Frail.heal()
    yield
    Frail.heal()


def adds(episode: Episode, turn: int, text: str) -> str:
    """Every sample of a group adds a number of its own, so that a test can break one of them."""
    return call("add", n=1 + episode.id.sample) if turn == 0 else "Done."


def test_failed_sessions_are_masked_counted_and_written_down(policy: Path, tmp_path: Path) -> None:
    Frail.breaks[3] = 10**6
    failures = {"recover": 1, "max_retries": 1}
    assert run_scripted(config_of(policy, tmp_path / "run", {"max_steps": 2}, failures=failures, **FRAIL), adds) == 0
    for line in steps(tmp_path / "run"):
        assert (line["sessions/total"], line["sessions/masked"], line["sessions/trainable"]) == (8, 2, 6)
        assert line["sessions/retried"] == 2
        assert line["reward"] == pytest.approx((1 + 2 + 4) / 3)
    ledger = lines(tmp_path / "run" / "failures.jsonl")
    assert len(ledger) == 2 * 2 * 4  # in two steps two sessions, each of which broke in two recoveries of two tries
    assert {line["step"] for line in ledger} == {1, 2}
    assert {(line["tool"], line["kind"], line["stage"], line["wire"]) for line in ledger} >= {
        ("add", "frail:exception", "call", "local")
    }
    records = lines(tmp_path / "run" / "trajectories" / "step-00001.jsonl")
    assert [record["reward"] for record in records if record["ending"] == "failed"] == [None, None]
    assert sum(record["trained"] for record in records) == 6


def test_a_recovered_session_leaves_the_update_as_it_was(policy: Path, tmp_path: Path) -> None:
    assert run_scripted(config_of(policy, tmp_path / "clean", {"max_steps": 2}, **FRAIL), adds) == 0
    Frail.heal()
    Frail.breaks.update({2: 1, 4: 2})
    assert run_scripted(config_of(policy, tmp_path / "hurt", {"max_steps": 2}, **FRAIL), adds) == 0
    clean, hurt = steps(tmp_path / "clean"), steps(tmp_path / "hurt")
    assert sum(line["sessions/recovered"] for line in hurt) == 3
    assert sum(line["sessions/masked"] for line in hurt) == 0
    for key in ("reward", "loss", "grad_norm"):
        assert [line[key] for line in hurt] == [line[key] for line in clean]


def test_a_run_that_stops_loudly_has_saved_and_can_go_on(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(policy, tmp_path / "run", {"max_steps": 3}, failures={"stop_share": 0.4}, **FRAIL)

    def breaks_later(episode: Episode, turn: int, text: str) -> str:
        if (tmp_path / "run" / "steps.jsonl").exists() and turn == 0:  # after the first step
            Frail.breaks.update(dict.fromkeys(range(1, 5), 10**6))
        return adds(episode, turn, text)

    assert run_scripted(config, breaks_later) == 1
    assert "8 of 8 sessions of a batch failed: frail:exception (8)" in capsys.readouterr().err
    made = manifest(tmp_path / "run")
    assert (made["state"], made["checkpoint"]) == ("failed", "checkpoint-1")
    assert "sessions of a batch failed" in made["reason"]
    Frail.heal()
    assert run_scripted(config, adds, resume=True) == 0
    assert manifest(tmp_path / "run")["state"] == "finished"
    assert [line["step"] for line in steps(tmp_path / "run")] == [1, 2, 3]


def test_an_error_of_the_engine_ends_the_run_with_its_cause(policy: Path, tmp_path: Path) -> None:
    def breaks(episode: Episode, turn: int, text: str) -> str:
        raise ZeroDivisionError("the engine broke")

    with pytest.raises(ZeroDivisionError, match="the engine broke"):
        run_scripted(config_of(policy, tmp_path / "run", {"max_steps": 2}, **FRAIL), breaks)
    made = manifest(tmp_path / "run")
    assert (made["state"], made["reason"]) == ("failed", "ZeroDivisionError: the engine broke")


def test_a_step_without_a_survivor_takes_no_step(policy: Path, tmp_path: Path) -> None:
    Frail.breaks.update(dict.fromkeys(range(1, 5), 10**6))
    failures = {"recover": 0, "max_retries": 0, "stop_share": 1.0, "stop_after": 1000}
    config = config_of(policy, tmp_path / "run", {"max_steps": 1}, failures=failures, **FRAIL)
    assert run_scripted(config, adds) == 0
    made = manifest(tmp_path / "run")
    assert made["parameter_change"]["change"] == 0.0
    (line,) = steps(tmp_path / "run")
    assert (line["sessions/masked"], line["groups/no_signal"]) == (8, 2)


def test_reward_components_can_be_told_apart(policy: Path, tmp_path: Path) -> None:
    data = {"eval_count": 0, "components": ["code", "shortcut"]}
    environment = {"name": "codebook", "settings": {"shortcut": 0.5}}
    trl = {"max_steps": 1, "multi_objective_aggregation": "normalize_then_sum"}
    assert run_scripted(config_of(policy, tmp_path / "run", trl, data=data, environment=environment)) == 0
    (line,) = steps(tmp_path / "run")
    assert line["reward"] == pytest.approx(line["rewards/code/mean"] + line["rewards/shortcut/mean"])
    assert line["components/code"] == pytest.approx(line["rewards/code/mean"])


def test_components_that_no_verdict_has_are_refused(policy: Path, tmp_path: Path) -> None:
    data = {"eval_count": 0, "components": ["code", "style"]}
    with pytest.raises(ConfigError, match=r"names style, .* has: code, shortcut"):
        run_scripted(config_of(policy, tmp_path / "run", {"max_steps": 1}, data=data))


def test_evaluations_come_before_after_and_as_often_as_is_asked(policy: Path, tmp_path: Path) -> None:
    assert run_scripted(config_of(policy, tmp_path / "run", {"max_steps": 5, "eval_steps": 2})) == 0
    evaluated = [line for line in lines(tmp_path / "run" / "steps.jsonl") if "eval/reward" in line]
    assert [line["step"] for line in evaluated] == [0, 2, 4, 5]
    assert [line["step"] for line in steps(tmp_path / "run")] == [1, 2, 3, 4, 5]
    assert len({line["eval/reward"] for line in evaluated}) == 1  # the script does not learn
