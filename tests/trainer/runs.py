"""Whole runs with scripted token ids: TRL, the optimizer and checkpoints are real, the engine is not there."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from gymwire.trainer.checks import Findings, Plan, check
from gymwire.trainer.config import Config, check_config
from gymwire.trainer.run import run
from gymwire.trainer.tiny import make_model, make_tokenizer
from gymwire.trainer.tokens import ChatTemplate

from tests.serving import ROOT
from tests.trainer.scripted import Say, Scripted, codebook

#: What an engine or a trainer in this very process has set for itself; a run of its own must not join it.
RENDEZVOUS = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}


def own_environment() -> dict[str, str]:
    """For a run in a process of its own."""
    return {name: value for name, value in os.environ.items() if name not in RENDEZVOUS}


def audited(run: Path, *options: str) -> tuple[int, str]:
    """`gymwire audit`: its exit status, and all that it says."""
    command = [sys.executable, "-m", "gymwire.servers.cli", "audit", str(run), *options]
    environment = own_environment() | {"COLUMNS": "300"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    return done.returncode, done.stdout + done.stderr


def save_policy(folder: Path) -> Path:
    """The tiny policy, without a warm start."""
    tokenizer = make_tokenizer()
    make_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def config_of(policy: Path, folder: Path, trl: dict[str, Any] | None = None, **sections: Any) -> Config:
    options = {"learning_rate": 1e-3, "per_device_train_batch_size": 8, "num_generations": 4, "seed": 5, **(trl or {})}
    raw = {
        "model": {"path": str(policy)},
        "environment": {"name": "codebook"},
        "data": {"eval_count": 4},
        "rollout": {"max_tokens": 400, "max_turn_tokens": 64},
        "trl": options,
        "log": {"dir": str(folder)},
    }
    return check_config({**raw, **sections})


def plan_of(config: Config) -> Plan:
    findings = Findings()
    plan = asyncio.run(check(config, findings))
    assert not findings.faults
    assert plan is not None
    return plan


def scripted(say: Say = codebook) -> Scripted:
    template = ChatTemplate(make_tokenizer())
    return Scripted(say, template.encoder.rendered, template.encoder.text, template.end_of_turn_id)


def run_scripted(config: Config, say: Say = codebook, *, resume: bool = False) -> int:
    return run(config, plan_of(config), resume=resume, policy=scripted(say))


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def steps(folder: Path) -> list[dict[str, Any]]:
    """The step log's lines of steps that played."""
    return [line for line in lines(folder / "steps.jsonl") if "sessions/total" in line]
