"""`gymwire audit` as a user runs it: on a run whose environment is a server, and on what was tampered with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from tests.serving import Running, serving
from tests.trainer.runs import audited, config_of, manifest, run_scripted, save_policy

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default"), pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("server") / "server.log", "codebook", "tests.trainer.worlds:Frail") as running:
        yield running


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_policy(tmp_path_factory.mktemp("policy"))


@pytest.fixture(scope="module")
def finished(server: Running, policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps on the served environment: 16 episodes learned from, 16 of two evaluations."""
    folder = tmp_path_factory.mktemp("served") / "run"
    environment = {"name": "codebook", "url": server.url}
    assert run_scripted(config_of(policy, folder, {"max_steps": 2}, environment=environment)) == 0
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """The run again, for a test to spoil."""
    return shutil.copytree(finished, tmp_path / "run")


def change(run: Path, file: str, line: int, spoil: Callable[[dict[str, Any]], None]) -> str:
    """Spoil one recorded episode; answers where it stands and its name."""
    path = run / "trajectories" / file
    records = [json.loads(text) for text in path.read_text().splitlines()]
    spoil(records[line - 1])
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return f"{file}:{line}: {records[line - 1]['episode']}"


def point_at(run: Path, **environment: Any) -> None:
    path = run / "config.yaml"
    config = yaml.safe_load(path.read_text())
    config["environment"] |= environment
    path.write_text(yaml.safe_dump(config))


def test_a_run_on_a_server_agrees_with_it(run: Path) -> None:
    code, said = audited(run)
    assert code == 0, said
    assert "32 episodes: nothing disagrees." in said
    assert len([line for line in said.splitlines() if line.split()[-2:] == ["32", "0"]]) == 6


def test_the_first_steps_audit_asked_the_server(finished: Path) -> None:
    (reward,) = [check for check in manifest(finished)["audit"] if check["check"] == "reward"]
    assert (reward["episodes"], reward["disagreements"], reward["not_checked"]) == (8, [], {})


def _more_reward(record: dict[str, Any]) -> None:
    record["reward"] += 0.25
    record["components"] = {name: value + 0.25 for name, value in record["components"].items()}


def _another_answer(record: dict[str, Any]) -> None:
    record["calls"][-1] |= {"text": "9 instead", "digest": "0" * 16}


def _another_argument(record: dict[str, Any]) -> None:
    record["calls"][-1]["argument"] = {"first": -1, "second": -1}


def _another_id(record: dict[str, Any]) -> None:
    record["completion_ids"][0] += 1


def _another_prompt(record: dict[str, Any]) -> None:
    record["prompt"][0]["content"] += " now"


def _trained_on_the_template(record: dict[str, Any]) -> None:
    place = record["sampled"].index(0) if 0 in record["sampled"] else 0
    record["sampled"][place] = 1 - record["sampled"][place]


#: What is done to an episode, the check that finds it, and what it says.
SPOILED: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (_more_reward, "reward", "and the recorded reward"),
    (_another_answer, "reward", "'9 instead' was recorded"),
    (_another_argument, "reward", "the verdict on it is 0.0"),
    (_another_id, "context", "other ids than those recorded"),
    (_another_prompt, "template", "other ids of the prompt"),
    (_trained_on_the_template, "sampled ids", "its mask is"),
]


@pytest.mark.parametrize("file", ["step-00002.jsonl", "eval-00002.jsonl"])
def test_what_was_tampered_with_is_named_with_its_place(run: Path, file: str) -> None:
    path = run / "trajectories" / file
    (good,) = [line for line in path.read_text().splitlines() if _played_well(json.loads(line))][:1]
    path.write_text(f"{good}\n" * len(SPOILED))
    places = [change(run, file, number, spoil) for number, (spoil, _, _) in enumerate(SPOILED, 1)]
    code, said = audited(run, "--step", "2")
    assert code == 1, said
    assert "found disagreements" in said
    for place, (_, check, says) in zip(places, SPOILED, strict=True):
        assert f"{place}: " in said, check
        (line,) = [line for line in _cells_of(said, check) if f"{place}: " in line]
        assert says in line


def _played_well(record: dict[str, Any]) -> bool:
    """Whether it has a reward of 1 and a turn that was followed by something."""
    return record["reward"] == 1 and len(record["turns"]) > 1


def _cells_of(said: str, check: str) -> list[str]:
    """The lines of one check's row."""
    lines = said.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"{check} "))
    more = [number for number in range(first + 1, len(lines)) if not lines[number].startswith(" ")]
    return lines[first : more[0]]


def test_a_server_that_is_gone_ends_the_audit_with_the_way_out(run: Path) -> None:
    point_at(run, url="http://127.0.0.1:9")
    code, said = audited(run)
    assert code == 2
    assert "--no-reverify" in said
    code, said = audited(run, "--no-reverify")
    assert code == 0, said
    assert "nothing disagrees." in said


def test_rows_that_are_gone_are_said_to_be_unchecked(run: Path) -> None:
    change(run, "step-00001.jsonl", 1, lambda record: record.update(row="train.999999"))
    code, said = audited(run)
    assert code == 0, said
    assert "32 episodes: nothing disagrees; reward was not checked for 1 of 32." in said
    assert "1 not checked: the row is no longer there" in said


def test_an_audit_that_could_verify_no_reward_fails(server: Running, run: Path) -> None:
    point_at(run, name="frail")
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["data"]["eval_count"] = 0
    (run / "config.yaml").write_text(yaml.safe_dump(config))
    code, said = audited(run, "--step", "1")
    assert (code, "not one reward" in said) == (3, True), said
    assert "nothing disagrees; reward was not checked for 8 of 8." in said
