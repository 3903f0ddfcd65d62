"""Rows are looked at by seeds: what a server that fails or goes meanwhile leaves, and says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest
from gymwire.servers.types import PARAMS_KEY, Json

from tests.adapters.exports.command import exported, refused, rows_of

WIRES = {"nemo-gym": "/shop/gym", "openenv": "/shop/openenv", "mcp": "/shop/mcp"}
LISTING = {
    "environments": [{"name": "shop", "splits": {"train": 40}, "tools": [], "wires": WIRES}],
    "limits": {"max_sessions": 64, "idle_timeout_s": 60, "queue_timeout_s": 5, "lifetime_s": 60},
}


class Scripted(ThreadingHTTPServer):
    """A gymwire server as an export sees it. `broken` is the row whose seed fails, `gone` the one that it dies at."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.broken = self.gone = -1
        self.live: set[str] = set()
        self.lock = Lock()


class Answers(BaseHTTPRequestHandler):
    server: Scripted

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(200, LISTING)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            if self.path.endswith("/close_session"):
                self.server.live.remove(asked["resources_session_id"])
                self.answer(200, {})
            elif asked["index"] == self.server.broken:
                self.answer(503, {"error": "The session could not be started."})
            elif asked["index"] != self.server.gone:  # else nothing is answered, and the connection closed
                self.server.live.add(self.headers["Idempotency-Key"])
                self.answer(200, {PARAMS_KEY: {"input": f"row {asked['index']}"}})

    def answer(self, status: int, value: Json) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with Scripted() as made:
        thread = Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def url_of(server: Scripted) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_rows_keep_their_order_and_leave_no_session(server: Scripted, tmp_path: Path) -> None:
    out = exported("prime-rl", url_of(server), tmp_path / "out")
    assert [row[PARAMS_KEY]["input"] for row in rows_of(out / "rows.jsonl")] == [f"row {n}" for n in range(40)]
    assert not server.live


def test_a_row_that_cannot_be_seeded_is_named_and_the_others_are_closed(server: Scripted, tmp_path: Path) -> None:
    server.broken = 3
    assert "row 3 of split train cannot be seeded" in refused("prime-rl", url_of(server), tmp_path / "out")
    assert not server.live and not list(tmp_path.iterdir())


def test_a_server_that_goes_meanwhile_is_told_in_one_sentence(server: Scripted, tmp_path: Path) -> None:
    server.gone = 20
    wrong = refused("prime-rl", url_of(server), tmp_path / "out")
    assert "broke the connection" in wrong and wrong.count("\n") == 1
    assert not server.live and not list(tmp_path.iterdir())
