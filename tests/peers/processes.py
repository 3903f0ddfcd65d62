"""Peers as processes: their servers and their commands, in process groups that are ended for good."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15
Process = subprocess.Popen[bytes]


@contextmanager
def started(command: Sequence[str | Path], log: Path, env: Mapping[str, str], cwd: Path) -> Iterator[Process]:
    """A process in a group of its own; the whole group is ended afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: Process) -> None:
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def finished(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str], cwd: Path, timeout_s: float
) -> tuple[int, str]:
    """Run a command to its end; its exit status and what it printed."""
    with started(command, log, env, cwd) as process:
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{command[0]} took longer than {timeout_s:g} s:\n{tail(log)}") from None
    return status, log.read_text(errors="replace")


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-4000:]


def wait_until(condition: Callable[[], Any], process: Process, log: Path, timeout_s: float = START_TIMEOUT_S) -> Any:
    """Ask again until the answer is true; an ended process or the deadline fails with the end of its log."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        if process.poll() is not None:
            raise AssertionError(f"{process.args} ended with {process.returncode}:\n{tail(log)}")
        if time.monotonic() > deadline:
            raise AssertionError(f"{process.args} was not ready in {timeout_s:g} s:\n{tail(log)}")
        time.sleep(0.05)
    return answer


def answers(url: str) -> bool:
    """Whether somebody speaks HTTP there, with whatever status."""
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False
