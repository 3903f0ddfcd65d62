"""An environment that breaks when a test says so, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from gymwire.servers import Environment, Row, ToolError, tool


class Frail(Environment):
    """Adds what it is given. Class attributes say what breaks: a test sets them, and a fixture puts them back."""

    splits = ("train",)
    max_turns = 6
    tool_timeout_s = 0.3
    verify_timeout_s = 0.3
    #: How many of the next calls with an argument break or hang, and how many of the next verdicts.
    breaks: Counter[int] = Counter()
    hangs: Counter[int] = Counter()
    verdicts = 0
    #: Whether it answers otherwise when it is asked again.
    forgetful = False
    seeded = 0
    called: Counter[int] = Counter()

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index in range(8 if count is None else count):
            yield Row.of(f"Add {index} and 10.", index=index)

    def reset(self, row: Row) -> None:
        type(self).seeded += 1
        self.total = 0
        self.number = self.seeded if self.forgetful else 0

    @tool
    async def add(self, n: int) -> str:
        """Add a number."""
        type(self).called[n] += 1
        if self.breaks[n] > 0:
            self.breaks[n] -= 1
            raise RuntimeError("the disk is full")
        if self.hangs[n] > 0:
            self.hangs[n] -= 1
            await asyncio.sleep(60)
        if n < 0:
            raise ToolError("Only add what is there.")
        self.total += n
        return f"{self.total + self.number}"

    def verify(self, transcript: object) -> float:
        if self.verdicts > 0:
            type(self).verdicts -= 1
            raise RuntimeError("the grader is away")
        return float(self.total)

    @classmethod
    def heal(cls) -> None:
        cls.breaks, cls.hangs, cls.called = Counter(), Counter(), Counter()
        cls.verdicts = cls.seeded = 0
        cls.forgetful = False


class Peeks(Frail):
    """Also shows the total: to nobody before so many look at once."""

    company = 0
    #: Milliseconds that a look takes, by its argument.
    slow: Counter[int] = Counter()
    #: Arguments of looks as they were answered, in that order.
    answered: ClassVar[list[int]] = []

    def reset(self, row: Row) -> None:
        super().reset(row)
        self.here, self.all_here = 0, asyncio.Event()

    @tool(read_only=True)
    async def peek(self, n: int) -> str:
        """Look at the total."""
        self.called[n] += 1
        self.here += 1
        try:
            if self.here >= self.company:
                self.all_here.set()
            await self.all_here.wait()
            await asyncio.sleep(self.slow[n] / 1000)
            if self.breaks[n] > 0:
                self.breaks[n] -= 1
                raise RuntimeError("the glass is broken")
            if self.hangs[n] > 0:
                self.hangs[n] -= 1
                await asyncio.sleep(60)
        finally:
            self.here -= 1
        self.answered.append(n)
        return f"{n}: {self.total}"

    @classmethod
    def heal(cls) -> None:
        super().heal()
        cls.company, cls.slow, cls.answered = 0, Counter(), []


class Talks(Environment):
    """Asks for three words, one prompt after another."""

    splits = ("train",)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        yield Row.of("Say a word.")

    def reset(self, row: Row) -> None:
        self.asked = 1

    async def end_turn(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.asked += 1
        return f"Word {self.asked}?" if self.asked <= 3 else None

    def verify(self, transcript: object) -> float:
        return float(self.asked)
