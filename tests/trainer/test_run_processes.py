"""Two processes of one run share the rows: each plays its part, and all agree on what was drawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from gymwire.trainer.collect import Drawing, Progress
from gymwire.trainer.tiny import make_model, make_tokenizer

from tests.serving import ROOT, free_port
from tests.trainer.scripted import train_book

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STEPS, COUNT = 3, 24


def together(config: Path, *options: str) -> None:
    """Run two processes over gloo."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port())]
    command = [*launch, "-m", "tests.trainer.run_process", str(config), *options]
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-6000:]


def test_two_processes_play_one_order_of_rows(tmp_path: Path) -> None:
    tokenizer = make_tokenizer()
    for part in (tokenizer, make_model(tokenizer)):
        part.save_pretrained(tmp_path / "policy")
    raw = {
        "model": {"path": str(tmp_path / "policy")},
        "environment": {"name": "codebook"},
        "data": {"count": COUNT, "eval_count": 5},
        "rollout": {"max_turn_tokens": 64, "max_tokens": 400, "max_refill": 2},
        "trl": {"max_steps": STEPS, "per_device_train_batch_size": 8, "num_generations": 4, "ddp_backend": "gloo"},
        "log": {"dir": str(tmp_path / "run")},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(raw))
    together(tmp_path / "config.yaml")
    made = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert made["state"] == "finished"
    drawn = Drawing(train_book(COUNT), Progress(), seed=42)
    for step in range(1, STEPS + 1):
        played = made["consumed"][str(step)]
        assert sorted(played) == sorted(drawn.draw(len(played)))
        assert len(played) >= 4
    lines = [json.loads(line) for line in (tmp_path / "run" / "steps.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "reward" in line]
    assert [line["sessions/total"] for line in steps] == [16] * STEPS
    assert [line["eval/rows"] for line in lines if "eval/rows" in line] == [5, 5]
