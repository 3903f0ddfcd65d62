"""An environment whose sessions cannot move between processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gymwire.servers import Environment, Row, Transcript, tool


class Pinned(Environment):
    """Adds up, in this process alone."""

    splits = ("eval",)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for number in range(count or 8):
            yield Row.of("Add.", number=number)

    def reset(self, row: Row) -> None:
        self.total = 0

    @tool
    def add(self, n: int) -> str:
        """Add a number."""
        self.total += n
        return "added"

    @tool
    async def linger(self, seconds: float) -> str:
        """Answer late."""
        await asyncio.sleep(seconds)
        return "answered"

    @tool
    def read(self) -> str:
        """Read the total."""
        return str(self.total)

    def verify(self, transcript: Transcript) -> float:
        return float(self.total)
