"""The wheel holds everything that the package needs at run time, and nothing of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.types_of_wheel import ROOT, install_wheel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with gymwire as a user's installation has it."""
    folder = tmp_path_factory.mktemp("site")
    install_wheel(folder)
    return folder


def test_every_file_of_the_parts_is_in_it(site: Path) -> None:
    for part in ("servers", "adapters"):
        sources = {path.relative_to(ROOT / part) for path in (ROOT / part).rglob("*") if path.is_file()}
        installed = {path.relative_to(site / "gymwire" / part) for path in (site / "gymwire" / part).rglob("*")}
        assert {path for path in sources - installed if "__pycache__" not in path.parts} == set()
    assert {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")} == {"gymwire", "bin"}


def test_installed_alone_it_makes_and_lists_environments(site: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(site), "NO_COLOR": "1"}

    def gymwire(*arguments: str) -> str:
        command = [sys.executable, "-m", "gymwire.servers.cli", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=60
        ).stdout

    where = subprocess.run(
        [sys.executable, "-c", "import gymwire.servers; print(gymwire.servers.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert where.startswith(str(site))
    assert "battery" in gymwire("list")
    gymwire("new", "tic-tac")
    assert (tmp_path / "tic-tac" / "tic_tac.py").is_file()
