"""The backend without isolation: limits of time, memory and output, and nothing that a program could not get around.

A job is a process of the user who serves. It has the network, every file and every process that this user has; it can
read secrets, kill the server and stay when it is told to go. For programs of one's own, while an environment is being
written: `--allow-unsafe-sandbox` permits it, and nothing chooses it by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path

from .frames import SOURCE
from .jobs import Limits, SandboxUnavailable
from .seccomp import job_filter
from .slots import Slot

logger = logging.getLogger("gymwire.sandbox")
WARNING = (
    "UNSAFE: the subprocess sandbox isolates nothing. Programs run as this user, with its files, its network and its "
    "secrets; serve nothing to anybody whose programs you have not read."
)
#: How long a worker may take to end its job by itself, once its stream has ended.
LEAVE_S = 1.0


class Subprocess:
    """Starts workers as plain processes. Linux only."""

    name = "subprocess"

    def __init__(self, ceiling: Limits) -> None:
        self.ceiling = ceiling

    async def open(self) -> None:
        """Warn. Raises `SandboxUnavailable` where it is not Linux."""
        if not sys.platform.startswith("linux"):
            raise SandboxUnavailable("the subprocess sandbox needs Linux")
        logger.warning(WARNING)

    async def start(self) -> Slot:
        """Start a worker with a folder of its own. Raises `SandboxUnavailable`."""
        try:
            root = tempfile.mkdtemp(prefix="gymwire-sandbox-")
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(SOURCE), root, "0", job_filter().hex()),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd=root,
                env={"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(f"a worker cannot be started: {error}") from error
        assert process.stdin and process.stdout
        writer = process.stdin

        async def kill() -> None:
            writer.close()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), LEAVE_S)
            await _end(process)
            await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)

        return Slot(f"subprocess-{process.pid}", process.stdout, writer, kill)

    async def close(self) -> None:
        """Nothing is held beside the slots."""


async def _end(process: Process) -> None:
    """Kill a worker that does not leave, and what it has started: stopped first, so that nothing new is born of it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGSTOP)
    for pid in _descendants(process.pid):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


def _descendants(ancestor: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
    found = [ancestor]
    for pid in found:
        found += children.get(pid, [])
    return found[1:]
