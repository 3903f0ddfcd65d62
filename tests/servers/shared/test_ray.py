"""The app on a real Ray cluster of this machine: two replicas over one Redis, and one of them killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.peers.processes import finished
from tests.peers.venvs import beside_peer, peer_env, required
from tests.servers.shared.conftest import RedisServer
from tests.serving import ROOT, free_port
from tests.worlds import BUNDLED

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(300)]
RUN = Path(__file__).with_name("ray_run.py")
NAMES = [name for name in ("counter", "battery", "ledger") if BUNDLED[name].replayable]


@pytest.fixture
def happened(redis_server: RedisServer, tmp_path: Path) -> dict[str, Any]:
    """What `ray_run` saw. Its cluster must be gone afterwards, to the last process."""
    python = required(beside_peer, "ray")
    environment = peer_env(python) | {
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": str(ROOT),
    }
    with TemporaryDirectory(prefix="ray-") as folder:  # short: it holds the paths of sockets
        words = [python, RUN, redis_server.url, folder, str(free_port()), *NAMES]
        status, said = finished([str(word) for word in words], tmp_path / "ray.log", environment, ROOT, 150)
        assert status == 0, said[-6000:]
        assert not running_with(folder)
    kept = ["redis-cli", "-s", str(redis_server.path), "exists", "gymwire:key"]
    assert subprocess.run(kept, capture_output=True, text=True).stdout == "0\n", "the key is in its file alone"
    return json.loads(next(line for line in reversed(said.splitlines()) if line.startswith('{"refused"')))


def running_with(word: str) -> list[str]:
    """The command lines of live processes in which the word is."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if word in line]


def test_two_replicas_and_the_loss_of_one(happened: dict[str, Any]) -> None:
    expected = happened["expected"]
    for key, rewards in happened["quiet"].items():
        assert rewards == expected[key.split()[0]], key
    check_loss(happened, expected[NAMES[0]])
    check_refusals(happened["refused"])


def check_loss(happened: dict[str, Any], expected: list[float]) -> None:
    before, after = (set(names) for names in happened["replicas"])
    assert len(before) == 2 and len(before & after) == 1
    for wire, rewards in happened["disturbed"].items():
        assert rewards == expected, (wire, happened["failures"])


def check_refusals(said: dict[str, str]) -> None:
    assert said["pinned"].startswith("secrets: not replayable")
    assert "store=redis://" in said["unshared"]
    assert "two environments are called 'counter'" in said["twice"]
    assert "Did you mean 'counter'?" in said["unknown"]
    assert "replicas" in said["argument"]
    assert said["stranger"] == "settings or rows for checkout, which is not served"
