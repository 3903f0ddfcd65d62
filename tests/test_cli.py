"""The command line: help that reads well, and one sentence that names the fix for every wrong call."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
from click.testing import Result
from gymwire.servers.cli import build
from typer.testing import CliRunner

COMMANDS = sorted(point.name for point in entry_points(group="gymwire.commands"))
#: No colours, and wide enough that no sentence is broken.
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands put the working directory on the import path."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def gymwire(*arguments: str) -> Result:
    """Run a command in this process."""
    wanted = next((word for word in arguments if not word.startswith("-")), "")
    return CliRunner(env=PLAIN).invoke(build(wanted), arguments, prog_name="gymwire")


def process(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=60, env={**os.environ, **PLAIN}
    )


def refused(*arguments: str, status: int = 2) -> str:
    """What a wrong call ends with."""
    done = gymwire(*arguments)
    assert (done.exit_code, done.stdout) == (status, ""), done.output
    assert isinstance(done.exception, SystemExit)
    return done.stderr.strip()


def test_the_commands_are_listed_with_a_summary_each() -> None:
    done = gymwire("--help")
    assert done.exit_code == 0
    for command in COMMANDS:
        line = next(line for line in done.stdout.splitlines() if f" {command} " in line)
        assert len(line.split(command, 1)[1].strip(" │")) > 20, f"{command} has no summary"


def test_listing_the_commands_imports_none_of_them() -> None:
    code = (
        "import sys; from gymwire.servers.cli import build; build('')\n"
        "print([name for name in ('fastapi', 'uvicorn', 'mcp', 'aiohttp', 'torch') if name in sys.modules])"
    )
    done = process("-c", code)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("command", [*COMMANDS, "rows make"])
def test_help_says_what_a_command_does_and_what_each_option_means(command: str) -> None:
    done = gymwire(*command.split(), "--help")
    assert done.exit_code == 0, done.output
    assert f"Usage: gymwire {command}" in done.stdout
    for line in done.stdout.splitlines():
        if line.startswith("│") and " --" in line:
            assert len(line.strip(" │").split()) > 3, f"an option without a word on it: {line}"


def test_the_version_is_told() -> None:
    assert gymwire("--version").stdout == f"gymwire {version('gymwire')}\n"


def test_an_unknown_command_is_named_with_the_nearest() -> None:
    assert "No such command 'serv'" in refused("serv")
    assert "serve" in refused("serv")


def test_an_unknown_environment_is_told_with_a_suggestion() -> None:
    assert "Did you mean 'counter'?" in refused("serve", "conter")


@pytest.mark.parametrize("name", ["no.such.module:Thing", "gymwire.servers.types:Row", "gymwire.servers.types:Nothing"])
def test_a_class_that_is_no_environment_is_told(name: str) -> None:
    assert name in refused("serve", name)


def test_a_taken_port_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sentence = refused("serve", "counter", "--port", str(port), status=1)
    assert str(port) in sentence and "--port" in sentence


def test_a_host_that_others_reach_needs_a_token() -> None:
    assert "--token-file" in refused("serve", "counter", "--host", "0.0.0.0", "--port", "0")


def test_one_process_alone_speaks_over_standard_input() -> None:
    assert "leave out --workers" in refused("serve", "counter", "--stdio", "--workers", "2")


@pytest.mark.parametrize(
    ("setting", "said"), [("speed=3", "takes no setting 'speed'"), ("speed", "'speed' is no --set key=value")]
)
def test_a_setting_that_does_not_fit_is_told(setting: str, said: str) -> None:
    assert said in refused("serve", "counter", "--set", setting)


def test_a_setting_for_one_of_several_says_for_which() -> None:
    assert "counter:speed=3" in refused("serve", "counter", "battery", "--set", "speed=3")


def test_an_environment_twice_is_told() -> None:
    assert "two environments are called 'counter'" in refused("serve", "counter", "counter")


@pytest.mark.parametrize("option", ["--idle-timeout", "--lifetime"])
def test_a_limit_is_above_zero(option: str) -> None:
    assert option in refused("serve", "counter", option, "0")


def test_rows_that_cannot_be_read_are_told_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text('{"responses_create_params": {"input": "go"}}\nnot json\n')
    assert f"{file}:2" in refused("serve", "counter", "--rows", str(file))


def test_list_shows_every_environment() -> None:
    done = gymwire("list")
    assert done.exit_code == 0
    for name in ("battery", "checkout", "codebook", "counter", "ledger"):
        assert name in done.stdout


def test_the_command_works_as_a_process_and_ends_with_one_sentence() -> None:
    done = process("-m", "gymwire.servers.cli", "serve", "conter")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gymwire: no environment is called 'conter'. Did you mean 'counter'?")
    assert done.stderr.count("\n") == 1
