"""Servers as processes: started on a free port, measured through /proc, stopped by process id."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class BenchError(Exception):
    """A measurement that cannot be taken, and why."""


class Server:
    """A server's process; `{port}` in its command stands for the port it was given."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.name, self.port = name, free_port()
        self._command = [part.format(port=self.port) for part in command]
        self._env = dict(os.environ if env is None else env)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the server)
        self._elsewhere = tempfile.TemporaryDirectory()  # so that nothing of the checkout is imported by accident
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process without waiting for it."""
        self._process = subprocess.Popen(
            self._command, stdout=self._log, stderr=subprocess.STDOUT, env=self._env, cwd=self._elsewhere.name
        )

    def wait(self) -> None:
        """Wait until the port accepts. Raises `BenchError` with the end of the log."""
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with socket.socket() as probe:
                if probe.connect_ex((HOST, self.port)) == 0:
                    return
            time.sleep(0.005)
        tail = self.log_tail()
        self.stop()
        raise BenchError(f"{self.name} did not start: {tail}")

    def log_tail(self, size: int = 600) -> str:
        self._log.seek(0)
        return self._log.read()[-size:].decode(errors="replace").strip()

    def cpu_s(self) -> float:
        """User plus system time of the process so far, all threads, in steps of a clock tick."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def rss_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise BenchError(f"{self.name} has ended")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._log.close()
            self._elsewhere.cleanup()

    def __enter__(self) -> Self:
        self.start()
        self.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def gymwire(*arguments: str) -> Server:
    """`gymwire serve` in this Python."""
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", *arguments, "--port", "{port}"]
    return Server("gymwire", command)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def many_files() -> Iterator[int]:
    """Raise the limit of open files to what this user may have; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
