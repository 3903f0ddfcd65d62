"""`gymwire train --dry-run`: what would run, or one sentence for each fault that names the fix. Nothing of torch."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymwire.trainer import memory, stack
from gymwire.trainer.config import check_config
from gymwire.trainer.weights import Weights, looks_local, read_template, read_weights

from tests.serving import Running, serving

CODE = "from gymwire.servers.cli import build; build('train')(prog_name='gymwire')"
TEMPLATE = "{% for tool in tools %}{{ tool }}{% endfor %}{{ messages }}"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("small") / "server.log"
    with serving(log, "codebook", "counter", "--max-sessions", "4", "--idle-timeout", "30") as running:
        yield running


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A folder that looks like a model: a config, a template, weights of zeros."""
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 1024}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    header = json.dumps({"w": {"dtype": "F32", "shape": [10, 20], "data_offsets": [0, 800]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(800))
    return folder


def dry_run(folder: Path, *options: str, **sections: Any) -> tuple[int, str, str]:
    raw = {"environment": {"name": "codebook"}, "rollout": {"max_tokens": 512}, "log": {"dir": str(folder / "run")}}
    raw |= {"model": {"path": str(folder / "policy")}} | sections
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(raw))
    command = [sys.executable, "-c", CODE, "train", str(path), "--dry-run", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=WIDE)
    return done.returncode, done.stdout, done.stderr


WIDE = {"COLUMNS": "200", "PATH": "/usr/bin:/bin"}


def test_it_says_what_would_run_and_writes_nothing(tmp_path: Path, policy: Path) -> None:
    code, said, errors = dry_run(tmp_path, trl={"max_steps": 30, "per_device_train_batch_size": 64})
    assert code == 0, errors
    for text in ("codebook on local", "512", "8 rows x 8 samples", "30 steps", "lookup, submit", "GiB"):
        assert text in said
    assert "is in order" in said
    assert not (tmp_path / "run").exists()


def test_it_knows_a_live_server(tmp_path: Path, policy: Path, small: Running) -> None:
    environment = {"name": "codebook", "url": small.url, "wire": "mcp", "max_concurrent": 4}
    code, said, errors = dry_run(tmp_path, environment=environment)
    assert code == 2
    assert "codebook on mcp" in said
    assert "--idle-timeout 600" in errors
    assert len(errors.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"environment": {"name": "codebok"}}, "Did you mean 'codebook'?"),
        ({"environment": {"name": "codebook", "settings": {"shortcat": 1}}}, "takes no setting 'shortcat'"),
        ({"environment": {"name": "codebook", "url": "http://127.0.0.1:9"}}, "is the server running?"),
        ({"environment": {"name": "codebook", "allowed_tools": ["look_*"]}}, "allows none of the tools"),
        ({"model": {"path": "./nowhere"}}, "gymwire policy tiny ./nowhere"),
        ({"rollout": {"max_tokens": 4096}}, "context of 1024; lower it"),
        ({"rollout": {"max_tokens": 512, "tool_timeout_s": 5}}, "set it to 55"),
        ({"trl": {"num_generations": 5}}, "groups of 5"),
        ({"data": {"split": "test"}}, "has no split 'test' (it has: train, eval)"),
        ({"data": {"rows": "nowhere.jsonl"}}, "nowhere.jsonl: cannot be read"),
    ],
)
def test_a_fault_is_a_sentence_that_names_the_fix(tmp_path: Path, policy: Path, sections: Any, says: str) -> None:
    code, _, errors = dry_run(tmp_path, **sections)
    assert code == 2
    assert says in errors
    assert "Traceback" not in errors


def test_a_server_with_too_few_slots_is_a_fault(tmp_path: Path, policy: Path, small: Running) -> None:
    environment = {"name": "codebook", "url": small.url}
    _, _, errors = dry_run(tmp_path, environment=environment, trl={"per_device_train_batch_size": 16})
    assert "16 sessions would be in flight at once, and the server holds 4" in errors
    assert "--max-sessions 16" in errors


def test_a_server_that_is_not_gymwires_is_named(tmp_path: Path, policy: Path, small: Running) -> None:
    environment = {"name": "codebook", "url": f"{small.url}/no/such/place"}
    code, _, errors = dry_run(tmp_path, environment=environment)
    assert code == 2
    assert "environment" in errors


def row(prompt: list[Any], **more: Any) -> str:
    data = {"keys": ["amber", "birch"], "digits": [1, 2]}
    return json.dumps({"responses_create_params": {"input": prompt, **more}, **data})


ASKED = [{"role": "user", "content": "Submit the code of amber and birch, please."}]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([row(ASKED), row([])], "1 of 2 rows have no prompt"),
        ([row(ASKED), "{"], "rows.jsonl:2: not JSON"),
        ([row(ASKED, tools=[{"type": "function", "name": "f", "parameters": "none"}])], "must be a JSON schema object"),
        (
            [row(ASKED, tools=[{"type": "function", "name": "lookup", "parameters": {"type": "objekt"}}])],
            "must be of type object",
        ),
        (
            [
                row(
                    ASKED,
                    tools=[{"type": "function", "name": "f", "parameters": {"properties": {"a": {"type": "int"}}}}],
                )
            ],
            "no JSON schema: at properties.a.type",
        ),
        ([json.dumps({"keys": []})], "responses_create_params"),
        ([json.dumps({"responses_create_params": {"input": ASKED}, "keys": 3})], "does not fit codebook"),
    ],
)
def test_bad_rows_are_found_before_any_step(tmp_path: Path, policy: Path, lines: list[str], says: str) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    code, _, errors = dry_run(tmp_path, data={"rows": str(tmp_path / "rows.jsonl"), "eval_count": 0})
    assert code == 2
    assert says in errors
    assert "Traceback" not in errors


def test_a_template_without_tools_is_a_fault(tmp_path: Path, policy: Path) -> None:
    (policy / "chat_template.jinja").write_text("{{ messages }}")
    _, _, errors = dry_run(tmp_path)
    assert "does not render tools" in errors


def test_a_model_without_a_template_is_a_fault(tmp_path: Path, policy: Path) -> None:
    (policy / "chat_template.jinja").unlink()
    _, _, errors = dry_run(tmp_path)
    assert "has no chat template" in errors


def test_several_faults_are_said_at_once(tmp_path: Path, policy: Path) -> None:
    _, _, errors = dry_run(tmp_path, rollout={"max_tokens": 9999}, trl={"num_generations": 1})
    assert len(errors.strip().splitlines()) == 2


def test_help_and_checks_import_nothing_heavy() -> None:
    code = (
        "import sys, gymwire.trainer.commands.train\n"
        "print([m for m in ('torch', 'trl', 'vllm', 'transformers', 'datasets', 'accelerate') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


# ---- parts


def test_a_models_folder_says_how_large_it_is(policy: Path) -> None:
    weights = read_weights(policy)
    assert weights.parameters == 200
    assert read_template(policy) == TEMPLATE


@pytest.mark.parametrize(
    ("path", "local"), [("Qwen/Qwen3-0.6B", False), ("./x/y", True), ("policy", True), ("/a/b", True), ("~/m", True)]
)
def test_a_hub_name_is_told_from_a_folder(path: str, local: bool) -> None:
    assert looks_local(path) is local


def test_memory_counts_weights_gradients_moments_and_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    small = {"model": {"path": "p"}, "environment": {"name": "x"}}
    one = Weights(1024**3, 4 * 1024**3)
    full = memory.need(check_config(small), one, cpu=True)
    assert full.parts == {"training": 16, "engine": 4, "cache": 1, "software": 2.0}
    lora = memory.need(check_config(small | {"model": {"path": "p", "lora": {"r": 8}}}), one, cpu=True)
    assert lora.parts["training"] == 4
    assert memory.free_gib() is None or memory.free_gib() > 0  # type: ignore[operator]


def test_the_variables_that_vllm_needs_are_set_and_those_of_the_caller_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "is_cpu", lambda: True)
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "3")
    for name in ("HF_HUB_OFFLINE", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "placeholder")
        monkeypatch.delenv(name)
    stack.prepare_process(offline=True)
    import os

    assert os.environ["VLLM_CPU_KVCACHE_SPACE"] == "3"
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    assert os.environ["HF_HUB_OFFLINE"] == "1"
