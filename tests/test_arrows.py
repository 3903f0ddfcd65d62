"""Imports point one way: trainer -> adapters -> servers; and the packaging lists every folder there is."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("servers", "adapters", "trainer")
#: What only the trainer may import.
HEAVY = {"torch", "trl", "vllm", "transformers", "datasets", "accelerate", "peft"}
#: Other projects of this field: gymwire speaks their wires itself.
PEERS = {"openenv", "nemo_gym", "verifiers", "prime_rl"}
#: What hosts a class of theirs in this process, where its extra is installed.
HOSTING = "adapters/bridge/openenv_class.py"
#: What a client of a wire shares with the servers: the nouns, the codes, JSON as the wires need it, a session's order.
SHARED = {"types", "answers", "policies", "wirejson", "schema", "order"}
#: The adapters that run environments or graders in this process, or are commands about them.
IN_PROCESS = {"local", "foreign", "connect", "demo", "demo_faults", "demo_rounds", "demo_server", "sources"}
#: Folders of `adapters` that drive sessions and are no client of a wire.
ABOVE = {"commands", "bridge", "doctor", "evaluation", "exports", "top"}


#: Folders whose Python files are data: what `gymwire new` writes, what `swe` gives a policy.
DATA = {"templates", "repositories"}


def modules(part: str) -> list[Path]:
    return sorted(path for path in (ROOT / part).rglob("*.py") if not DATA & set(path.parts))


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything a module imports, wherever in it."""
    package = ["gymwire", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def wrong(part: str, forbidden: set[str]) -> list[str]:
    """Imports of a part that reach what they must not."""
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules(part)
        for name in imports(path)
        if name.split(".")[0] in forbidden or ".".join(name.split(".")[:2]) in forbidden
    ]


def test_servers_import_neither_adapters_nor_trainer() -> None:
    assert wrong("servers", {"gymwire.adapters", "gymwire.trainer"}) == []


def test_adapters_do_not_import_the_trainer() -> None:
    assert wrong("adapters", {"gymwire.trainer"}) == []


@pytest.mark.parametrize("part", ["servers", "adapters"])
def test_only_the_trainer_imports_the_training_stack(part: str) -> None:
    assert wrong(part, HEAVY) == []


@pytest.mark.parametrize("part", PARTS)
def test_nothing_imports_a_peer(part: str) -> None:
    found = [line for line in wrong(part, PEERS) if not line.startswith(HOSTING)]
    assert found == []


def test_adapters_know_no_single_environment() -> None:
    assert [line for line in wrong("adapters", {"gymwire.servers"}) if ".servers.environments" in line] == []


def test_types_import_nothing_of_ours() -> None:
    assert [name for name in imports(ROOT / "servers/types.py") if name.startswith("gymwire")] == []


def test_wire_clients_share_only_nouns_and_codes_with_the_servers() -> None:
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules("adapters")
        if path.stem not in IN_PROCESS and path.parent.name not in ABOVE
        for name in imports(path)
        if name.startswith("gymwire.servers.") and name.split(".")[2] not in SHARED
    ]
    assert found == []


def test_serving_imports_no_client_and_no_training_stack() -> None:
    code = (
        "import sys, gymwire.servers.commands.serve\n"
        f"heavy = {sorted(HEAVY | PEERS)}\n"
        "print([m for m in sys.modules if m.startswith(('gymwire.adapters', 'gymwire.trainer')) or m in heavy])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_every_package_is_in_the_wheel() -> None:
    """The folders are mapped by hand, so a new one is easily forgotten."""
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {
        "gymwire." + ".".join(path.parent.relative_to(ROOT).parts)
        for part in PARTS
        for path in modules(part)
        if "__pycache__" not in path.parts
    }
    assert found == listed
