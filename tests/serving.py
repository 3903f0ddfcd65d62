"""A gymwire server as a process of its own, on a free port, ended by its pid and checked to have ended well."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
#: Never a proxy between a test and its server.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@dataclass
class Running:
    """A server that answers. `kill` ends it without a farewell; then its exit is not checked."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    killed: bool = False

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        self.process.wait()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def serving(log: Path, *arguments: str, port: int | None = None, command: str = "serve") -> Iterator[Running]:
    """`gymwire serve ARGUMENTS` (or another `command`) until the block ends.

    Afterwards it must have exited by SIGTERM, without a trace.
    """
    port = port or free_port()
    words = [sys.executable, "-m", "gymwire.servers.cli", command, *arguments, "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT, env=os.environ
        )
    running = Running(f"http://127.0.0.1:{port}", process, log)
    try:
        _wait_until_it_answers(running)
        yield running
    finally:
        _stop(running)
    if not running.killed:
        assert process.returncode in (0, -signal.SIGTERM), running.log_text()[-4000:]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_it_answers(running: Running) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if running.process.poll() is not None:
            break
        try:
            with _open(f"{running.url}/health", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{running.log_text()[-4000:]}")


def _stop(running: Running) -> None:
    if running.process.poll() is not None:
        return
    running.process.terminate()
    try:
        running.process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        running.process.kill()
        running.process.wait()
        raise AssertionError(f"the server did not stop:\n{running.log_text()[-4000:]}") from None
