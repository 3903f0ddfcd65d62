"""`gymwire eval` on servers of others: what it can play, and the one sentence where it cannot."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from gymwire.servers import Row
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in
from tests.endpoint_thread import in_thread

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


def in_debug(rpc: bool, status: int) -> Starlette:
    """A server whose errors show what it was asked, as a JSON-RPC error or as they are."""

    async def answer(request: Request) -> Response:
        said, asked = f"debug: {request.headers.get('Authorization')}", await request.body()
        if request.url.path.endswith("/environments"):
            return JSONResponse({}, 404)
        if not rpc:
            return JSONResponse({"error": said}, status)
        error = {"code": -32000, "message": said}
        return JSONResponse({"jsonrpc": "2.0", "id": json.loads(asked).get("id"), "error": error}, status)

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


@pytest.mark.parametrize(
    ("wire", "rpc", "status", "shown"),
    [("nemo-gym", False, 500, "debug: Bearer [token]"), ("nemo-gym", False, 404, "debug: Bearer [token]"),
     ("mcp", True, 200, "debug: Bearer [token]"), ("mcp", False, 200, "does not answer: "),
     ("mcp", False, 500, "does not answer: ")],
)  # fmt: skip
def test_a_server_that_shows_what_it_was_asked_does_not_give_the_token_away(
    wire: str, rpc: bool, status: int, shown: str, rows: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, in_thread(listening, in_debug(rpc, status)):
        server = f"http://127.0.0.1:{listening.getsockname()[1]}"
        options = ("--wire", wire, "--token", "tok-secret", "--rows", rows, "--out", str(tmp_path / "run"))
        reward = ("--reward-tool", "grade") if wire == "mcp" else ()
        done = evaluate(server, "http://127.0.0.1:9/v1", *options, *reward, "--retries", "0")
    said = done.output + "".join(file.read_text() for file in (tmp_path / "run").glob("*"))
    assert shown in " ".join(said.split()) and "tok-secret" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        ("/counter", ("--wire", "local"), "wire 'local' runs an environment in this process"),
        (
            "/counter",
            ("--reward-tool", "grade"),
            "on all wires already; a bridge, and mcp= and openenv= (--state-tool, ",
        ),
        ("/counter", ("--reward", "sum"), "on all wires already; a bridge, and mcp= and openenv= (--state-tool, "),
        ("/counter", ("--env", "ledger"), "the URL names the environment 'counter', but env= (--env) says 'ledger'"),
        ("counter", ("--reward-tool", "grade"), "'counter' runs in this process; a bridge, and mcp= and openenv= "),
        ("counter", ("--env", "ledger"), "env= (--env) 'ledger' belongs to a URL; 'counter' is an environment already"),
    ],
)
def test_what_belongs_to_others_is_one_sentence(
    server: str, target: str, options: tuple[str, ...], sentence: str
) -> None:
    done = evaluate(f"{server}{target}" if target.startswith("/") else target, "http://127.0.0.1:9/v1", *options)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert sentence in done.stderr


@pytest.mark.parametrize("target", [("node server.js stdio",), ("shop", "--wire", "mcp")])
def test_a_command_is_sent_to_the_bridge(target: tuple[str, ...]) -> None:
    done = evaluate(target[0], "http://127.0.0.1:9/v1", *target[1:])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "gymwire bridge 'COMMAND' --from mcp" in done.stderr
