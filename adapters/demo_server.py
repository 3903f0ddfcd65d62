"""`gymwire serve` as a process on a free port, for as long as a block runs. Ended by its process id, always."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_ANNOUNCED = re.compile(r"docs at http://([0-9.]+):(\d+)/docs")


class NotServing(Exception):
    """The server did not start; the message holds the end of its log."""


@asynccontextmanager
async def serving(environments: Sequence[str], *options: str) -> AsyncIterator[str]:
    """Serve the environments on a free port of this machine; yields the server's URL. Raises `NotServing`."""
    command = [sys.executable, "-m", "gymwire.servers.cli", "serve", *environments, "--port", "0", *options]
    with TemporaryDirectory(prefix="gymwire-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            yield await _ready(process, log)
        finally:
            await _stop(process)


async def _ready(process: asyncio.subprocess.Process, log: Path) -> str:
    """The server's URL, once it answers."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while process.returncode is None:
                if (found := _ANNOUNCED.search(log.read_text(errors="replace"))) and await _answers(found):
                    return f"http://{found[1]}:{found[2]}"
                await asyncio.sleep(0.05)
    except TimeoutError:
        pass
    end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise NotServing(f"the server did not start (exit status {process.returncode}); the end of its log:\n{end}")


async def _answers(found: re.Match[str]) -> bool:
    try:
        _, writer = await asyncio.open_connection(found[1], int(found[2]))
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
