"""Counter: bring a hidden counter to exactly the target. The reference: read this environment first.

Half of the reward is the share of the distance that was covered, the other half is for standing exactly
on the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from pydantic import BaseModel

from ..environment import Environment, ToolError, tool
from ..policies import Call, Script
from ..rows import draw_rows
from ..types import Row, Transcript

STEP = 10  # the most that one call may add
SIZES = {"train": 64, "eval": 32}


def draw(rng: Random, index: int) -> Row:
    start = rng.randint(-99, 99)
    target = start + rng.choice((-1, 1)) * rng.randint(1, 4 * STEP)
    prompt = (
        f"Bring the counter to exactly {target}. `read` shows where it stands; `add` changes it by at most "
        f"{STEP} in either direction. Stop when it stands on {target}."
    )
    return Row.of(prompt, start=start, target=target)


def random(row: Row, rng: Random) -> Script:
    """Adds anything, three times, without looking."""
    for _ in range(3):
        yield Call("add", {"n": rng.randint(-STEP, STEP)})
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Looks once and takes one step, however far away the target is."""
    target = int(row.prompt[-1]["content"].split("exactly ")[1].split(".")[0])
    result = yield Call("read")
    yield Call("add", {"n": _step(target - int(result.text))})
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    """Knows where the counter starts, and steps until it stands on the target."""
    gap = row.data["target"] - row.data["start"]
    while gap:
        yield Call("add", {"n": _step(gap)})
        gap -= _step(gap)
    return "Done."


def _step(gap: int) -> int:
    return max(-STEP, min(STEP, gap))


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Counter(Environment):
    """Bring a hidden counter to exactly the target."""

    splits = tuple(SIZES)
    max_turns = 8
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        start: int
        target: int

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.value: int = self.data.start

    @tool
    async def add(self, n: int) -> str:
        """Add n to the counter.

        Args:
            n: A whole number from -10 to 10.
        """
        if abs(n) > STEP:
            raise ToolError(f"n must be from -{STEP} to {STEP}; the counter is unchanged")
        self.value += n
        return "added"

    @tool(read_only=True)
    async def read(self) -> int:
        """Read the counter."""
        return self.value

    def get_state(self) -> int:
        return self.value

    def set_state(self, state: int) -> None:
        self.value = state

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        whole = abs(self.data.target - self.data.start)
        left = abs(self.data.target - self.value)
        covered = max(0.0, 1 - left / whole) if whole else float(left == 0)
        return {"closer": 0.5 * covered, "exact": 0.5 * (left == 0)}
