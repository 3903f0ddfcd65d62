"""A person plays an episode: input through a pipe, output as a terminal would show it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from gymwire.adapters.calls import BadToolCall
from gymwire.adapters.commands.play import read_line, signature
from gymwire.servers import Tool

TOOL = Tool(
    "put",
    "",
    {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "plan": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["name"],
    },
)
ONE = Tool("say", "", {"type": "object", "properties": {"text": {"type": "string"}}})


def play(*arguments: str, lines: str) -> tuple[int, str, str]:
    plain = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "gymwire.servers.cli", "play", *arguments]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=60, env=plain)
    return done.returncode, done.stdout, done.stderr


def test_an_episode_in_this_process() -> None:
    lines = 'help\ntools\nread\nadd 3\nadd n=-3\nadd {"n": 99}\nnosuch a=1\nadd n\nadd a=\'\n\ndone That is it.\n'
    status, shown, said = play("counter", "--row", "0", lines=lines)
    assert (status, said) == (0, "")
    for part in (
        "Bring the counter to exactly",
        "n=integer",
        "done [ANSWER]",
        "n must be from -10 to 10",
        "There is no tool called 'nosuch'",
        "nothing was sent",
        "verdict",
        "reward",
        "closer",
        "finished",
    ):
        assert part in shown


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
def test_an_episode_on_a_server(server: str, wire: str) -> None:
    arguments = (server, "--env", "checkout", "--wire", wire, "--split", "eval", "--row", "1")
    status, shown, _ = play(*arguments, lines="view_basket\npay\ndone\n")
    assert status == 0
    assert '"items":[]' in shown and "The basket is empty." in shown and "verdict" in shown


def test_the_end_of_the_input_leaves_without_a_verdict() -> None:
    status, shown, _ = play("counter", "--seed", "1", lines="read\n")
    assert status == 0 and "left without a verdict" in shown and "reward" not in shown


def test_the_turn_limit_cuts_the_episode() -> None:
    status, shown, _ = play("counter", lines="read\n" * 9)
    assert status == 0 and "turn 8 of 8" in shown and "cut" in shown and "verdict" in shown


def test_a_failed_session_shows_no_reward() -> None:
    status, shown, _ = play("tests.adapters.trouble:Trouble", lines="crash\n")
    assert status == 1 and "trouble:exception" in shown and "No reward exists" in shown


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nosuch",), "no environment is called 'nosuch'"),
        (("http://127.0.0.1:9/counter",), "is the server running?"),
        (("counter", "--wire", "mcp"), "needs the URL of a server"),
        (("counter", "--split", "nosuch"), "no split 'nosuch'"),
        (("counter", "--row", "99999"), "no row 99999"),
    ],
)
def test_a_wrong_call_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    status, _, said = play(*arguments, lines="")
    assert status == 2 and sentence in said and "Traceback" not in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        ('{"name": "a"}', {"name": "a"}),
        ("name=5 count=5", {"name": "5", "count": 5}),
        ("name='a b' plan=[1,2]", {"name": "a b", "plan": [1, 2]}),
        ("note=null count=many", {"note": "null", "count": "many"}),
        ("other=true", {"other": True}),
    ],
)
def test_lines_are_read(text: str, arguments: dict[str, object]) -> None:
    assert read_line(text, TOOL) == arguments


def test_one_parameter_needs_no_name() -> None:
    assert read_line("hello there = you", ONE) == {"text": "hello there = you"}
    assert read_line("text=hello", ONE) == {"text": "hello"}


@pytest.mark.parametrize("text", ["name", "name='a", '{"name": '])
def test_a_line_that_cannot_be_read(text: str) -> None:
    with pytest.raises(BadToolCall):
        read_line(text, TOOL)


def test_a_signature_shows_what_may_be_left_out() -> None:
    assert signature(TOOL) == "name=string [count=integer] [note=string|null] [plan=[integer, ...]]"
