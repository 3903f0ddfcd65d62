"""The command line: help that reads well, and one sentence that names the fix for every wrong call."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest
import typer
from click.testing import Result
from gymwire.servers import cli
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


def test_ctrl_c_while_a_command_is_imported_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(wanted: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130


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


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ("exact", "needs 'expected_answer'"),
        ('{"name": "exact", "expected_answer": "x", "speed": 3}', "takes no argument 'speed'"),
        ("[]", "no grader is named"),
        ("5", "is a grader's name, an entry"),
    ],
)
def test_a_grader_that_cannot_score_the_rows_of_a_bridge_is_said_at_the_start(
    grader: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"responses_create_params": {"input": "hi"}}\n')
    words = ("bridge", "http://127.0.0.1:9", "--from", "mcp", "--grader", grader)
    for rows in (f"{file}", f"mcp={file}"):
        assert "rows.jsonl: row 1: " in (sentence := refused(*words, "--rows", rows))
        assert said in sentence


EVAL = ("eval", "http://127.0.0.1:9", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--wire")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bridge", "http://127.0.0.1:9", "--from", "openenv", "--allow", "x"), "--allow is for mcp, not for openenv"),
        (("bridge", "x:Y", "--from", "openenv-class", "--reward", "sum"), "--reward is for openenv, not for openenv-c"),
        (("bridge", "yes", "--from", "jsonl-worker", "--call-timeout", "3"), "--call-timeout is for mcp and openenv"),
        ((*EVAL, "openenv", "--state-tool", "open"), "--state-tool is for mcp, not for openenv"),
        ((*EVAL, "nemo-gym", "--reset-field", "level"), "--reset-field is for mcp and openenv, not for nemo-gym"),
        (("check", "http://127.0.0.1:9", "--wire", "nemo-gym", "--reward-tool", "x"), "--reward-tool is for mcp, not"),
    ],
)  # fmt: skip
def test_an_option_of_another_wire_is_told(words: tuple[str, ...], said: str) -> None:
    """It was taken, and did nothing."""
    assert said in refused(*words)


@pytest.mark.parametrize("called", ["counter", "gymwire.servers.environments.counter:Counter"])
def test_an_environment_is_called_as_in_urls_or_as_on_the_command_line(called: str) -> None:
    """A class was known by its path alone, and the sentence that said so named both, one after the other."""
    words = ("serve", "gymwire.servers.environments.counter:Counter", "battery")
    assert "takes no setting 'speed'" in refused(*words, "--set", f"{called}:speed=3")
    assert (
        refused(*words, "--rows", f"{called}=no.jsonl")
        == "gymwire: no.jsonl: cannot be read: No such file or directory"
    )
    assert "environment: counter=no.jsonl" in refused(*words, "--rows", "no.jsonl")


def test_an_environment_twice_is_told() -> None:
    assert "two environments are called 'counter'" in refused("serve", "counter", "counter")


@pytest.mark.parametrize("option", ["--idle-timeout", "--lifetime"])
def test_a_limit_is_above_zero(option: str) -> None:
    assert option in refused("serve", "counter", option, "0")


@pytest.mark.parametrize("value", ["inf", "nan", "-1"])
@pytest.mark.parametrize("option", ["--idle-timeout", "--lifetime", "--queue-timeout", "--body-timeout"])
def test_a_limit_is_a_number_that_clients_can_read(option: str, value: str) -> None:
    assert f"{option} must be a number" in refused("serve", "counter", option, value)


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


def subcommands() -> list[str]:
    """Every command that has options of its own."""
    listed = []
    for name in COMMANDS:
        below = getattr(typer.main.get_command(build(name)).commands[name], "commands", {})
        listed += [f"{name} {inner}" for inner in below] or [name]
    return listed


@pytest.mark.parametrize("command", subcommands())
def test_no_option_is_cut_on_a_narrow_terminal(command: str) -> None:
    done = CliRunner(env=PLAIN | {"COLUMNS": "80"}).invoke(build(command.split()[0]), [*command.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert "…" not in done.stdout.replace("{…}", "")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("export prime-rl URL --target-version", {"0.10.0", "0.9"}),
        ("export --out DIR nemo-rl URL --target-version", {"main", "2025"}),
        ("export --target-version", set()),
        ("rows make battery --split", {"train", "eval"}),
        ("rows make battery --split e", {"eval"}),
        ("rows make no.such:Class --split", set()),
        ("eval battery --split", {"train", "eval"}),
        ("play battery --split", {"train", "eval"}),
        ("serve battery --sandbox", {"docker", "bubblewrap", "subprocess"}),
        ("sandbox check --backend", {"docker", "bubblewrap", "subprocess"}),
        ("token new --scope", {"admin", "play"}),
    ],
)
def test_tab_offers_what_an_option_takes(words: str, offered: set[str]) -> None:
    line = ["gymwire", *words.split()]
    asked = {"_GYMWIRE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(line), "COMP_CWORD": str(len(line))}
    if len(line[-1]) == 1:  # it is begun
        asked["COMP_CWORD"] = str(len(line) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "gymwire.servers.cli"],
        capture_output=True, text=True, timeout=60, env={**os.environ, **PLAIN, **asked},
    )  # fmt: skip
    assert set(done.stdout.split()) == offered, done.stderr
