"""`gymwire eval` on servers of others: what it can play, and the one sentence where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gymwire.servers import Row

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in

SHOP = ("--wire", "mcp", "--state-tool", "open_shop", "--state-arg", "session_id", "--reset-field", "level")
GRADED = (*SHOP, "--reward-tool", "grade")
BUY = Turn(calls=[("add_item", '{"sku": "apple"}'), ("grade", "{}"), ("view", "")])


@pytest.fixture
def rows(tmp_path: Path) -> str:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(Row.of(f"Buy {n}.", level=n).to_json()) + "\n" for n in range(2)))
    return str(file)


def test_an_mcp_server_with_a_reward_tool_is_played_by_its_url(shop: str, rows: str, tmp_path: Path) -> None:
    """The handle and the reward tool stay hidden; a reward tool that breaks masks its episode."""
    said = {"Buy 0.": "done", "Buy 1.": "break"}
    with chat_endpoint(
        lambda body, number: BUY if len(body["messages"]) == 1 else Turn(said[body["messages"][0]["content"]])
    ) as endpoint:
        done = evaluate(shop, endpoint.url, *GRADED, "--rows", rows, "--out", str(tmp_path))
    assert done.exit_code == 3, done.output
    bought, broken = lines_in(tmp_path)
    assert (bought["reward"], bought["calls"], bought["tool_errors"]) == (1.5, 3, 1)
    assert [message["content"] for message in bought["messages"] if message["role"] == "tool"][2] == "level 0\napple"
    assert (broken["reward"], broken["failure"]["kind"]) == (None, "verifier_error")
    offered = {tool["function"]["name"] for tool in endpoint.requests[0]["tools"]}
    assert offered.isdisjoint({"grade", "open_shop"}) and "session_id" not in json.dumps(endpoint.requests[0]["tools"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "say what it speaks with wire= (--wire): nemo-gym, openenv or mcp"),
        ((*SHOP, "-n", "2"), "Name the server's --reward-tool; where it has none, serve it with `gymwire bridge "),
        ((*GRADED, "-n", "2"), "a server of others has no rows to choose from over mcp: give it some with --rows FILE"),
        (("--wire", "nemo-gym", "--split", "train"), "no rows to choose from over nemo-gym"),
        ((*SHOP, "--reward-tool", "score", "-n", "2"), "reward_tool 'score' is no tool of the server; it has: "),
        (("--wire", "openenv", "-n", "2"), "is this an OpenEnv server?"),
    ],
)
def test_what_is_missing_is_one_sentence(shop: str, options: tuple[str, ...], sentence: str) -> None:
    done = evaluate(shop, "http://127.0.0.1:9/v1", *options)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sentence in done.stderr


@pytest.mark.parametrize("target", [("node server.js stdio",), ("shop", "--wire", "mcp")])
def test_a_command_is_sent_to_the_bridge(target: tuple[str, ...]) -> None:
    done = evaluate(target[0], "http://127.0.0.1:9/v1", *target[1:])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "gymwire bridge 'COMMAND' --from mcp" in done.stderr
