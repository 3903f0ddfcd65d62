"""What a test sees of a server from outside: its slots, its memory, and its log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.serving import Running


class Watched:
    """A server process and its figures."""

    def __init__(self, server: Running, http: aiohttp.ClientSession) -> None:
        self.url, self.server, self.http = server.url, server, http

    async def figures(self) -> dict[str, float]:
        async with self.http.get(f"{self.url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    async def figure(self, name: str) -> float:
        return (await self.figures())[name]

    async def until_free(self, slots: int, timeout_s: float = 10.0) -> None:
        """Wait until that many slots are free and nobody queues."""
        await self.until(lambda now: now["gymwire_slots_free"] == slots and now["gymwire_seeds_queued"] == 0, timeout_s)

    async def until(self, holds: Callable[[dict[str, float]], bool], timeout_s: float = 10.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not holds(now := await self.figures()):
            assert time.monotonic() < deadline, {key: now[key] for key in now if "bucket" not in key}
            await asyncio.sleep(0.05)

    def memory_mb(self) -> float:
        for line in Path(f"/proc/{self.server.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the process is gone")

    def traces(self) -> int:
        """How many requests ended as a mistake of the server's own."""
        return self.server.log_text().count("failed\nTraceback") + self.server.log_text().count("Exception in ASGI")


@asynccontextmanager
async def watching(server: Running) -> AsyncIterator[Watched]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=20)) as http:
        yield Watched(server, http)
