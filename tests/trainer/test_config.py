"""The config tree, and the arithmetic of TRL's options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from gymwire.trainer.config import Config, ConfigError, as_json, check_config, read_config
from gymwire.trainer.geometry import Geometry

SMALL = {"model": {"path": "policy"}, "environment": {"name": "codebook"}}


def written(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def refused(raw: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check_config(raw)
    return str(caught.value)


def test_a_small_config_has_all_defaults() -> None:
    config = check_config(SMALL)
    assert config.failures.on_failure == "mask"
    assert config.environment.wire is None


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (SMALL | {"modle": {}}, "did you mean 'model'?"),
        (SMALL | {"rollout": {"max_turn": 3}}, "did you mean 'max_turns'?"),
        (SMALL | {"data": {"zzz": 3}}, "known here: split, eval_split"),
        ({"model": {"path": "policy"}}, "environment: Field required"),
        (SMALL | {"trl": {"output_dir": "x"}}, "log.dir"),
        (SMALL | {"trl": {"eval_strategy": "steps"}}, "trl.eval_steps"),
        (SMALL | {"failures": {"on_failure": "zero"}}, "failures.on_failure"),
        (SMALL | {"environment": {"name": "x", "wire": "mcp"}}, "needs environment.url"),
        (SMALL | {"environment": {"name": "x", "url": "http://h", "settings": {"a": 1}}}, "where it is served"),
    ],
)
def test_what_cannot_run_is_refused_with_the_fix(raw: Any, says: str) -> None:
    assert says in refused(raw)


def test_everything_wrong_is_said_at_once() -> None:
    text = refused({"model": {}, "environment": {"name": 3}, "log": {"dirr": "x"}})
    assert len(text.splitlines()) == 3


def test_set_replaces_values_and_makes_sections(tmp_path: Path) -> None:
    path = written(tmp_path, yaml.safe_dump(SMALL))
    config = read_config(path, ["trl.learning_rate=3e-4", "environment.name=battery", "data.components=[a, b]"])
    assert config.trl["learning_rate"] == 3e-4
    assert config.environment.name == "battery"
    assert config.data.components == ["a", "b"]


@pytest.mark.parametrize("text", ["trl.x", "=3", "a..b=1", "model.path.deep=1"])
def test_a_malformed_set_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="--set"):
        read_config(written(tmp_path, yaml.safe_dump(SMALL)), [text])


@pytest.mark.parametrize("text", ["- a list", "model: [", "just text"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        read_config(written(tmp_path, text))


def test_a_small_number_without_a_point_is_a_number(tmp_path: Path) -> None:
    text = "model: {path: p}\nenvironment: {name: x}\ntrl: {learning_rate: 3e-4, run_name: 3e-4x, seed: 12}"
    assert read_config(written(tmp_path, text)).trl == {"learning_rate": 3e-4, "run_name": "3e-4x", "seed": 12}


def test_a_config_is_written_and_read_again(tmp_path: Path) -> None:
    config = check_config(SMALL | {"data": {"rows": "rows.jsonl"}, "trl": {"learning_rate": 1e-6}})
    assert read_config(written(tmp_path, yaml.safe_dump(as_json(config)))) == config


def test_every_key_says_what_it_is() -> None:
    source = Path(__file__).parents[2] / "trainer" / "config.py"
    lines = source.read_text().splitlines()
    keys = [name for section in Config.model_fields.values() for name in fields_of(section.annotation)]
    for key in keys:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"    {key}:"))
        assert lines[at + 1].lstrip().startswith('"""'), key


def fields_of(section: Any) -> list[str]:
    return list(section.model_fields) if hasattr(section, "model_fields") else []


# ---- geometry


def test_trl_defaults_are_one_group_a_step() -> None:
    geometry = Geometry.of({}, processes=1)
    assert (geometry.rollouts, geometry.groups, geometry.group) == (8, 1, 8)


def test_a_generation_batch_may_serve_several_steps() -> None:
    trl = {"per_device_train_batch_size": 16, "num_generations": 8, "steps_per_generation": 4, "num_iterations": 2}
    geometry = Geometry.of(trl | {"save_steps": 8}, processes=2)
    assert (geometry.rollouts, geometry.groups) == (128, 16)
    assert [step for step in range(1, 17) if geometry.is_boundary(step)] == [8, 16]


@pytest.mark.parametrize(
    ("trl", "processes", "says"),
    [
        ({"num_generations": 1}, 1, "2 or more"),
        ({"num_generations": 3}, 1, "groups of 3"),
        ({"num_generations": 8, "per_device_train_batch_size": 4}, 2, "each of 2 processes"),
        ({"generation_batch_size": 12}, 1, "multiple of the 8"),
        ({"generation_batch_size": 16, "steps_per_generation": 2}, 1, "one of the two"),
        ({"steps_per_generation": 4, "save_steps": 6}, 1, "make it a multiple of 4"),
        ({"num_generations": "many"}, 1, "whole number"),
    ],
)
def test_batches_that_cannot_be_are_refused(trl: dict[str, Any], processes: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Geometry.of(trl, processes)


# ---- the configs that come along

CONFIGS = sorted((Path(__file__).parents[2] / "trainer" / "configs").glob("*.yaml"))


@pytest.mark.parametrize(
    "path", [path for path in CONFIGS if "accelerate" not in path.name], ids=lambda path: path.stem
)
def test_a_config_that_comes_along_can_run(path: Path) -> None:
    config = read_config(path)
    processes = 4 if "fsdp2" in path.name else 1
    geometry = Geometry.of(config.trl, processes)
    assert geometry.groups >= 8
    assert config.rollout.max_tokens < config.trl["vllm_max_model_length"]
    text = path.read_text()
    assert all(word in text for word in ("# Assumes: ", "# Run", " train trainer/configs/"))


def test_some_configs_come_along() -> None:
    assert len(CONFIGS) == 5
