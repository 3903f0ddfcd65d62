"""Servers that others wrote, as processes: of NeMo Gym, OpenEnv and MCP, each in its peer's own environment."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.peers.processes import Process, answers, finished, started, wait_until
from tests.peers.venvs import node_tool, peer_env, peer_python, required
from tests.serving import free_port

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Foreign:
    """A server that answers; the process's group ends with the block."""

    url: str
    process: Process
    log: Path


@contextmanager
def upstream_nemo_gym(name: str, folder: Path) -> Iterator[Foreign]:
    """A resources server that ships with nemo-gym 0.7.0, as `resources_servers/NAME`."""
    python, port = required(peer_python, "nemo_gym_0_7"), free_port()
    resources = {"host": LOOPBACK, "port": port, "entrypoint": "app.py", "domain": "agent"}
    config = {
        "head_server": {"host": LOOPBACK, "port": free_port()},
        "default_host": LOOPBACK,
        "dry_run": False,
        "head_server_deps": [],
        "observability_enabled": False,
        name: {"resources_servers": {name: resources}},
    }
    env = peer_env(python) | {"NEMO_GYM_CONFIG_DICT": json.dumps(config)}
    found = next((python.parents[1] / "lib").glob(f"python*/site-packages/resources_servers/{name}/app.py"))
    classes = [line for line in found.read_text().splitlines() if line.startswith("class ")]
    server = next(line for line in classes if "ResourcesServer)" in line or "MCPResourcesServer" in line)
    place = f"{name}=resources_servers.{name}.app:{server.removeprefix('class ').partition('(')[0]}"
    command: list[str | Path] = [python, Path(__file__).with_name("gym_servers.py"), place]
    with _answering(command, f"http://{LOOPBACK}:{port}", folder / f"{name}.log", env, folder) as foreign:
        yield foreign


@contextmanager
def openenv_template(folder: Path) -> Iterator[Foreign]:
    """What `openenv init` of 0.10.0 writes: a step environment that echoes."""
    python, port = required(peer_python, "openenv"), free_port()
    env, home = peer_env(python), written_by_openenv(python, folder)
    command: list[str | Path] = [python, "-m", "uvicorn", "server.app:app", "--host", LOOPBACK, "--port", str(port)]
    with _answering(command, f"http://{LOOPBACK}:{port}", folder / "parrot.log", env, home, "/schema") as foreign:
        yield foreign


def written_by_openenv(python: Path, folder: Path) -> Path:
    """The folder of the environment that `openenv init parrot` writes."""
    init: list[str | Path] = [python.parent / "openenv", "init", "parrot", "--output-dir", folder]
    status, output = finished(init, folder / "init.log", peer_env(python), folder, timeout_s=60)
    assert status == 0, output
    return next(place.parent for place in folder.rglob("openenv.yaml"))


def everything_command() -> list[str]:
    """The reference MCP server over its standard input and output."""
    return [*required(node_tool, "everything"), "stdio"]


@contextmanager
def everything_over_http(folder: Path) -> Iterator[Foreign]:
    """The reference MCP server over streamable HTTP."""
    port = free_port()
    command: list[str | Path] = [*required(node_tool, "everything"), "streamableHttp"]
    env = dict(os.environ) | {"PORT": str(port)}
    with _answering(command, f"http://{LOOPBACK}:{port}/mcp", folder / "everything.log", env, folder) as foreign:
        yield foreign


@contextmanager
def _answering(
    command: list[str | Path], url: str, log: Path, env: dict[str, str], cwd: Path, path: str = ""
) -> Iterator[Foreign]:
    with started(command, log, env, cwd) as process:
        wait_until(lambda: answers(f"{url}{path}"), process, log)
        yield Foreign(url, process, log)
