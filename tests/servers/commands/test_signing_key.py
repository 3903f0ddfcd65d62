"""`gymwire serve --signing-key-file`: one process, workers, and what is said of a file that cannot be used."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
from gymwire.adapters import connect
from gymwire.servers.signing import Signer

from tests.servers.test_workers import installed, until
from tests.serving import ROOT, serving


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "key"
    made.write_text(f"{secrets.token_hex(32)}\n")
    made.chmod(0o600)
    return made


def seeded(url: str) -> str:
    """The handle of a new session."""
    body = json.dumps({"split": "eval", "index": 0}).encode()
    request = urllib.request.Request(f"{url}/counter/gym/seed_session", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Set-Cookie"].partition("=")[2].partition(";")[0]


@pytest.mark.parametrize("more", [(), ("--workers", "2")])
async def test_handles_are_signed_with_the_files_key(tmp_path: Path, file: Path, more: Sequence[str]) -> None:
    installed(*(("redis-server",) if more else ()))
    with serving(tmp_path / "log", "counter", "--signing-key-file", str(file), *more) as running:
        until(lambda: not more or "2 workers at" in running.log_text())
        signer = Signer(file.read_bytes().strip())
        assert all(signer.is_ours(seeded(running.url)) for _ in range(4))
        async with connect(running.url, wire="mcp") as connection, connection.session(split="eval", index=0) as session:
            before = int((await session.call("read")).text)
            await session.call("add", {"n": 2})
            assert int((await session.call("read")).text) == before + 2
        said = running.log_text()
    assert file.read_text().strip() not in said and "chmod" not in said


def test_a_file_that_anybody_reads_is_warned_of_once(tmp_path: Path, file: Path) -> None:
    installed("redis-server")
    file.chmod(0o644)
    with serving(tmp_path / "log", "counter", "--signing-key-file", str(file), "--workers", "2") as running:
        until(lambda: "2 workers at" in running.log_text())
        assert running.log_text().count(f"chmod 600 {file}") == 1


def test_a_short_key_is_said(tmp_path: Path) -> None:
    short = tmp_path / "key"
    short.write_text("short\n")
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", "counter", "--signing-key-file", str(short)]
    done = subprocess.run([*command, "--port", "0"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    said = f"gymwire: signing key file {short}, line 1: a key has at least 32 bytes, not 5; "
    assert done.stderr == said + "`openssl rand -hex 32` makes one\n"
