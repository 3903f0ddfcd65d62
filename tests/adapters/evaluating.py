"""`gymwire eval` as the tests call it: in this process, with what it printed and wrote."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gymwire.servers.types import Json
from typer.testing import CliRunner, Result

from tests.adapters.chat_endpoint import ChatEndpoint, Turn, chat_endpoint
from tests.test_cli import PLAIN

ENV = {**PLAIN, "OPENAI_API_KEY": "sk-secret"}


def evaluate(target: str, url: str, *options: str) -> Result:
    from gymwire.servers.cli import build

    return CliRunner(env=ENV).invoke(build("eval"), words(target, url, *options))


def words(target: str, url: str, *options: str) -> list[str]:
    return ["eval", target, "--model", "scripted", "--base-url", url, *options]


def summary(result: Result) -> dict[str, Any]:
    return json.loads(result.stdout)


def lines_in(folder: Path) -> list[Json]:
    """The episodes that a run kept, in the order of their rows."""
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return sorted(lines, key=lambda line: (line["row"], line["repeat"]))


def play(turns: Sequence[Turn], *options: str) -> tuple[Json, ChatEndpoint, Result]:
    """Play row 0 of counter with these turns; the last one is repeated."""
    with chat_endpoint(lambda body, number: turns[min(number, len(turns) - 1)]) as endpoint:
        done = evaluate("counter", endpoint.url, "-n", "1", "--json", *options)
    return (json.loads(done.stdout) if done.stdout else {}), endpoint, done
