"""`gymwire train` as a user runs it, with what only the training stack can see: a sentence before any step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from gymwire.trainer.config import ConfigError, as_json
from gymwire.trainer.options import grpo_config

from tests.serving import ROOT
from tests.trainer import chat
from tests.trainer.runs import config_of, own_environment, save_policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_policy(tmp_path_factory.mktemp("policy"))
    (folder / "OTHER_CALLS.jinja").write_text(chat.OTHER_CALLS)
    return folder


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.chat_template={policy}/OTHER_CALLS.jinja", "in a form that gymwire does not read; it reads Hermes"),
        ("trl.vllm_enable_sleep_mode=true", "without a GPU vLLM runs colocated, unsplit and never asleep"),
    ],
)
def test_it_is_refused_with_a_sentence_before_any_step(policy: Path, tmp_path: Path, setting: str, says: str) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(as_json(config_of(policy, tmp_path / "run"))))
    command = [sys.executable, "-m", "gymwire.servers.cli", "train", str(tmp_path / "config.yaml")]
    command += ["--set", setting.format(policy=policy)]
    done = subprocess.run(command, cwd=ROOT, env=own_environment(), capture_output=True, text=True, timeout=250)
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("gymwire: ")]
    assert says in sentence
    assert "Traceback" not in done.stderr
    assert done.returncode == 2
    assert not (tmp_path / "run" / "steps.jsonl").exists()


@pytest.mark.parametrize(
    ("trl", "says"),
    [
        ({"learning_rat": 1e-3}, "has no such option; did you mean 'learning_rate'"),
        ({"optim": "adamm"}, "adamm is not a valid OptimizerNames"),
    ],
)
def test_options_that_trl_does_not_know_are_named(tmp_path: Path, trl: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=f"^trl.*{says}"):
        grpo_config(config_of(tmp_path, tmp_path / "run", trl), engine=False)
