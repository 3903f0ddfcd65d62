"""An environment that does whatever a test wants to see: fails, hangs, ends, shows pictures, asks again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from gymwire.servers import Environment, Media, Row, ToolError, Transcript, tool
from pydantic import BaseModel

PNG = "iVBORw0KGgo="


class Trouble(Environment):
    """Whatever a test wants to see."""

    splits = ("train",)
    max_turns = 50
    tool_timeout_s = 1.0

    class Data(BaseModel):
        verdict: str = "score"
        start: str = "well"

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for number in range(4 if count is None else count):
            yield Row.of(f"Task {number}.")

    def reset(self, row: Row) -> str | None:
        if self.data.start == "broken":
            raise RuntimeError("no luck today")
        self.calls = 0
        self.prompts = ["Second.", "Third."]
        return "A last word." if self.data.start == "talkative" else None

    @tool
    async def echo(self, text: str) -> str:
        """Say it again."""
        self.calls += 1
        return text

    @tool
    async def now(self) -> int:
        """Count the calls."""
        self.calls += 1
        return self.calls

    @tool
    async def number(self, value: float | int | None = None) -> Any:
        """Show a number."""
        return {"value": value}

    @tool
    async def refuse(self) -> str:
        """Never works."""
        raise ToolError("not like this")

    @tool
    async def crash(self) -> str:
        """Break."""
        raise RuntimeError("boom")

    @tool
    async def hang(self) -> str:
        """Take for ever."""
        await asyncio.sleep(60)
        return "never"

    @tool
    async def nap(self, seconds: float) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)
        return "awake"

    @tool
    async def picture(self) -> Any:
        """Draw."""
        return ["a picture:", Media("image", PNG, "image/png")]

    @tool(ends=True)
    async def finish(self) -> str:
        """End the task."""
        return "finished"

    def end_turn(self) -> str | None:
        return self.prompts.pop(0) if self.prompts else None

    def verify(self, transcript: Transcript) -> Any:
        match self.data.verdict:
            case "nan":
                return float("nan")
            case "raise":
                raise RuntimeError("the grader broke")
            case "answer":
                return 1.0 if transcript.answer == "yes" else 0.0
            case _:
                return {"calls": 0.1 * self.calls, "cut": 0.5 * (transcript.ending.value == "cut")}
