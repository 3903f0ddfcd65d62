"""Two processes of one run share the rows: each plays its part, and all agree on what was drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("trl.trainer.grpo_trainer", reason="needs the trainer's stack")

from gymwire.trainer.collect import Drawing, Progress
from gymwire.trainer.tiny import make_model, make_tokenizer

from tests.serving import ROOT
from tests.trainer.runs import audited, own_environment
from tests.trainer.scripted import train_book

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
STEPS, COUNT = 3, 24


def together(config: Path, *options: str) -> None:
    """Run two processes over gloo; a port that was looked for in advance could be somebody else's by then."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    command = [*launch, "-m", "tests.trainer.run_process", str(config), *options]
    environment = own_environment() | {
        "ACCELERATE_USE_CPU": "true",
        "OMP_NUM_THREADS": "1",
        "TRL_EXPERIMENTAL_SILENCE": "1",
    }
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("two")
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
    return tmp_path / "run"


def test_two_processes_play_one_order_of_rows(finished: Path) -> None:
    made = json.loads((finished / "manifest.json").read_text())
    assert made["state"] == "finished"
    drawn = Drawing(train_book(COUNT), Progress(), seed=42)
    for step in range(1, STEPS + 1):
        played = made["consumed"][str(step)]
        assert sorted(played) == sorted(drawn.draw(len(played)))
        assert len(played) >= 4
    lines = [json.loads(line) for line in (finished / "steps.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "reward" in line]
    assert [line["sessions/total"] for line in steps] == [16] * STEPS
    assert [line["eval/rows"] for line in lines if "eval/rows" in line] == [5, 5]


def test_the_first_steps_audit_counts_the_episodes_of_both(finished: Path) -> None:
    checks = json.loads((finished / "manifest.json").read_text())["audit"]
    played = [len(path.read_text().splitlines()) for path in (finished / "trajectories").glob("step-00001*.jsonl")]
    assert len(played) == 2
    assert {check["check"]: check["episodes"] for check in checks}["context"] == sum(played)


def test_an_audit_reads_what_both_have_written(finished: Path) -> None:
    """In one go: a run that is as it was played, and one in which the second process's episodes were tampered with."""
    code, said = audited(finished)
    files = sorted((finished / "trajectories").iterdir())
    assert [path.name for path in files if path.name.startswith("eval")] == [
        f"eval-0000{step}{process}.jsonl" for step in (0, STEPS) for process in ("", ".p1")
    ]
    total = sum(len(path.read_text().splitlines()) for path in files)
    assert (code, f"{total} episodes: nothing disagrees." in said) == (0, True), said
    path = finished / "trajectories" / "step-00002.p1.jsonl"
    first, second, *others = [json.loads(line) for line in path.read_text().splitlines()]
    first["reward"] += 1.0
    second["completion_ids"][0] += 1
    path.write_text("".join(json.dumps(record) + "\n" for record in (first, second, *others)))
    code, said = audited(finished, "--step", "2")
    assert code == 1, said
    assert f"step-00002.p1.jsonl:1: {first['episode']}: " in said
    assert f"step-00002.p1.jsonl:2: {second['episode']}: " in said
