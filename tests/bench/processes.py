"""Servers as processes: started on a free port, measured through /proc, stopped by process id."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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


def gymwire(*arguments: str, env: Mapping[str, str] | None = None) -> Server:
    """`gymwire serve` in this Python."""
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", *arguments, "--port", "{port}"]
    return Server("gymwire", command, env)


async def output_of(
    name: str,
    command: Sequence[str],
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    meanwhile: Callable[[int], Coroutine[Any, Any, None]] | None = None,
) -> bytes:
    """What a process prints; `meanwhile` is given its id and runs as long. Raises `BenchError` where it fails.

    It ends with everything it started, also when this is cancelled.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )
    watching = asyncio.create_task(meanwhile(process.pid)) if meanwhile else None
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        raise BenchError(f"{name} did not end within {timeout_s:g} s") from None
    finally:
        if watching is not None:
            watching.cancel()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    if process.returncode:
        raise BenchError(f"{name}: {(err or out)[-600:].decode(errors='replace')}")
    return out


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
