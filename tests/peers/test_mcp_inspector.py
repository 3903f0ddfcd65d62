"""The protocol's inspector on its command line: a whole episode, as a person tries a server by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymwire.servers.environments.checkout import solve

from tests.serving import serving

from .mcp_fixture import Fixture, serving_fixture
from .processes import finished
from .venvs import node_tool, required

pytestmark = [pytest.mark.peers, pytest.mark.slow]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server") / "log", "checkout") as running:
        yield f"{running.url}/checkout/mcp"


def inspect(folder: Path, url: str, *options: str) -> dict[str, Any]:
    command = [*required(node_tool, "inspector"), "--cli", url, "--transport", "http", *options]
    status, output = finished(command, folder / "log", os.environ, folder, timeout_s=60)
    assert status == 0, output
    return json.loads(output)


def call(folder: Path, url: str, tool: str, *options: str, **arguments: Any) -> dict[str, Any]:
    given = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
    return inspect(folder, url, "--method", "tools/call", "--tool-name", tool, *given, *options)


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_an_episode_by_hand(url: str, tmp_path: Path) -> None:
    seeded = json.loads(text(call(tmp_path, url, "seed_session", split="train", index=3)))
    table = seeded["prompt"][-1]["content"]
    lines = [line.rsplit(" ", 1) for line in table.split(":\n")[1].split("\n")]
    prices = {sku: int(price.replace(".", "")) for sku, price in lines}
    budget = int(table.split("exactly ")[1].split(" ")[0].replace(".", ""))
    session = seeded["session"]
    for sku in solve(prices, budget) or ():
        assert not call(tmp_path, url, "add_item", session=session, sku=sku).get("isError")
    paid = call(tmp_path, url, "pay", session=session)
    assert paid["_meta"]["gymwire/code"] == "ok"
    assert json.loads(text(call(tmp_path, url, "verify", session=session)))["reward"] == 1.0


def test_behind_the_session_header_only_its_tools_exist(tmp_path: Path) -> None:
    """The inspector cannot send the header itself: the fixture's proxy does."""
    with serving_fixture(tmp_path / "server") as url:
        listed = inspect(tmp_path, url, "--method", "tools/list")["tools"]
        assert [tool["name"] for tool in listed] == list(Fixture.tool_specs)
        assert all("session" not in tool["inputSchema"]["properties"] for tool in listed)
        assert text(call(tmp_path, url, "test_simple_text")) == "This is a simple text response for testing."
        assert call(tmp_path, url, "verify")["_meta"]["gymwire/code"] == "unknown_tool"
