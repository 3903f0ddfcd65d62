"""`gymwire new`: a package that runs, passes its own tests and is served, from nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import Result
from gymwire.adapters import connect
from gymwire.adapters.demo_server import serving
from gymwire.servers.cli import build
from typer.testing import CliRunner


def new(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(build("new"), ["new", *arguments])


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, as a person would after making it."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "tic-tac"
    done = new("tic-tac", "--dir", str(folder))
    assert done.exit_code == 0, done.output
    return folder


def test_every_file_carries_the_new_name(package: Path) -> None:
    assert {path.name for path in package.iterdir()} == {"pyproject.toml", "README.md", "tic_tac.py", "test_tic_tac.py"}
    for path in package.iterdir():
        assert "guess_number" not in path.read_text() and "GuessNumber" not in path.read_text()
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["name"] == "tic-tac"
    assert project["entry-points"]["gymwire.environments"] == {"tic_tac": "tic_tac:TicTac"}


def test_it_says_what_to_type_next(tmp_path: Path) -> None:
    done = new("tic-tac", "--dir", str(tmp_path / "a folder"))
    lines = [line.strip() for line in done.output.splitlines()]
    assert f"cd '{tmp_path / 'a folder'}'" in lines
    assert any(line.endswith("serve tic_tac") for line in lines)


def test_its_own_tests_pass(package: Path) -> None:
    done = run("-m", "pytest", "-q", "-W", "error", cwd=package, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
async def test_installed_it_is_found_by_name_and_served_on_every_wire(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    pip = ("-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--target", str(site), ".")
    done = run(*pip, cwd=package)
    assert done.returncode == 0, done.stderr
    listed = run("-m", "gymwire.servers.cli", "list", "--json", cwd=tmp_path, PYTHONPATH=str(site))
    assert "tic_tac" in [item["name"] for item in json.loads(listed.stdout)], listed.stderr
    monkeypatch.setenv("PYTHONPATH", str(site))
    async with serving(["tic_tac"]) as url:
        for wire in ("nemo-gym", "openenv", "mcp"):
            async with connect(url, wire=wire) as environment, environment.session(split="eval", index=0) as session:
                assert (await session.call("guess", {"n": 0})).text == "higher"
                assert (await session.verify()).reward == 0.0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Tic Tac", "no name for a package"),
        ("9lives", "no name for a package"),
        ("../up", "no name for a package"),
        ("a" * 60, "no name for a package"),
        ("class", "a word of Python itself"),
        ("json", "a Python module called 'json' exists already"),
        ("pytest", "a Python module called 'pytest' exists already"),
        ("counter", "an environment called 'counter' is installed already"),
        ("metrics", "a route of every server"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = new(name)
    assert done.exit_code == 2 and said in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_never_touched(package: Path) -> None:
    before = {path: path.read_bytes() for path in package.iterdir()}
    done = new("tic-tac", "--dir", str(package))
    assert done.exit_code == 2 and "exists already" in done.stderr
    assert {path: path.read_bytes() for path in package.iterdir()} == before
