"""An environment whose every tool call takes a quarter of a second, and in which an episode is four calls long."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from gymwire.servers import Environment, Row, tool

TURNS = 4
TOOL_S = 0.25
ROWS = 512


class SlowTools(Environment):
    """Look something up four times."""

    splits = ("train",)
    max_turns = TURNS

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        """No two prompts are alike, so that no episode is decoded with another one's cache."""
        for index in range(ROWS if count is None else count):
            yield Row.of(f"Case {index}: look it up.")

    def reset(self, row: Row) -> None:
        self.calls = 0

    @tool
    async def lookup(self, key: str) -> str:
        """Look up a key."""
        await asyncio.sleep(TOOL_S)
        self.calls += 1
        return f"{self.calls}"

    def verify(self, transcript: object) -> float:
        return float(self.calls == TURNS)
