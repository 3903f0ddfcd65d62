"""What a killed container engine leaves behind does not keep the next one from starting."""

import os
from pathlib import Path

import pytest

from tests import docker_engine


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 + 1], ids=["another program's by now", "nobody's"])
def test_a_pid_file_that_names_no_engine_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    left = tmp_path / "docker.pid"
    left.write_text(str(pid))
    monkeypatch.setattr(docker_engine, "STALE", (("dockerd", str(left)),))
    docker_engine._remove_stale()
    assert not left.exists()


def test_the_pid_file_of_one_that_runs_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "docker.pid"
    kept.write_text(str(os.getpid()))
    program = Path("/proc/self/comm").read_text().strip()
    monkeypatch.setattr(docker_engine, "STALE", ((program, str(kept)),))
    docker_engine._remove_stale()
    assert kept.exists()
