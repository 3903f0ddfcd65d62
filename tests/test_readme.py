"""What README.md shows works as shown: its examples are extracted and run, its options are those there are."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from gymwire.adapters.demo_server import serving
from gymwire.servers.cli import build
from typer.main import get_command

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
SHOWN_ADDRESS = "127.0.0.1:8200"


def example(name: str, address: str = SHOWN_ADDRESS) -> str:
    """The code block of that title, for a server at this address."""
    found = re.search(rf"^```\w+ title={re.escape(name)}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert found is not None, f"README.md shows no {name}"
    return found[1].replace(SHOWN_ADDRESS, address)


async def run(command: list[str], folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output.decode()
    return output.decode()


@pytest.mark.slow
async def test_the_examples_run_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lights.py").write_text(example("lights.py"))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    async with serving(["lights:Lights"]) as url:
        address = url.removeprefix("http://")
        for name in ("drive.py", "openenv_client.py", "mcp_client.py", "gym.sh"):
            (tmp_path / name).write_text(example(name, address))
        driven = await run([sys.executable, "drive.py"], tmp_path)
        assert [f"{wire} 1.0" in driven for wire in ("nemo-gym", "openenv", "mcp")] == [True] * 3
        assert (await run([sys.executable, "openenv_client.py"], tmp_path)).strip() == "1.0"
        assert '"reward":1.0' in await run([sys.executable, "mcp_client.py"], tmp_path)
        if shutil.which("curl"):
            assert '"reward":1.0' in await run(["sh", "gym.sh"], tmp_path)


@pytest.mark.parametrize("command", ["serve", "list", "play", "rows make", "new"])
def test_every_option_is_explained(command: str) -> None:
    words = command.split()
    found = get_command(build(words[0]))
    for word in words:
        found = found.commands[word]  # type: ignore[attr-defined]
    options = [option for parameter in found.params for option in parameter.opts if option.startswith("--")]
    assert f"`gymwire {command}" in README
    assert [option for option in options if option not in README] == []


def test_every_file_it_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert links and [link for link in links if not (Path(__file__).parent.parent / link).exists()] == []
