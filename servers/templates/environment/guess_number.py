"""The environment: rows, tools, verify, and three scripted policies that show what the reward is worth.

A start to change, not to keep: the task here is to find a hidden number in as few guesses as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from gymwire.servers import Environment, Row, ToolError, Transcript, tool
from gymwire.servers.policies import Call, Script
from gymwire.servers.rows import draw_rows
from pydantic import BaseModel

GUESSES = 10
SIZES = {"train": 64, "eval": 16}  # rows of each split


def draw(rng: Random, index: int) -> Row:
    """One task: the prompt that the policy reads, and data that it never sees."""
    highest = rng.randint(50, 500)
    secret = rng.randint(1, highest)
    prompt = (
        f"Find the hidden whole number from 1 to {highest}. `guess` says whether it is higher or lower. "
        f"There are {GUESSES} guesses; fewer score more."
    )
    return Row.of(prompt, highest=highest, secret=secret)


class GuessNumber(Environment):
    """Find a hidden number in as few guesses as possible."""

    name = "guess_number"  # in URLs, and for every command
    splits = tuple(SIZES)
    max_turns = GUESSES + 2

    class Data(BaseModel):  # every row's data is checked against this when a session is seeded
        highest: int
        secret: int

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    def reset(self, row: Row) -> None:
        # One object is one session: what belongs to the episode lives on self.
        self.used = 0
        self.found = False

    @tool
    async def guess(self, n: int) -> str:
        """Guess the number.

        Args:
            n: A whole number.
        """
        # ToolError is the policy's mistake: it is told, and the episode goes on. Any other exception is
        # this environment's own fault: the session is masked and teaches nothing.
        if self.found:
            raise ToolError("The number is found already.")
        if self.used == GUESSES:
            raise ToolError("There are no guesses left.")
        self.used += 1
        self.found = n == self.data.secret
        if self.found:
            return "right"
        return "higher" if n < self.data.secret else "lower"

    def verify(self, transcript: Transcript) -> dict[str, float]:
        # Components by name; their sum is the reward. A single float does as well.
        saved = (GUESSES - self.used) / (GUESSES - 1)
        return {"found": 0.5 * self.found, "quick": 0.5 * self.found * saved}


# Scripted policies: each yields calls, gets what the tool answered, and returns its final answer.


def random(row: Row, rng: Random) -> Script:
    """Guesses anything, five times."""
    for _ in range(5):
        yield Call("guess", {"n": rng.randint(1, 500)})
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Halves what is left, each time."""
    low, high = 1, int(row.prompt[-1]["content"].split("from 1 to ")[1].split(".")[0])
    while True:
        middle = (low + high) // 2
        result = yield Call("guess", {"n": middle})
        if result.text == "right" or result.is_error:
            return "Done."
        low, high = (middle + 1, high) if result.text == "higher" else (low, middle - 1)


def oracle(row: Row, rng: Random) -> Script:
    """Alone may read the row's data: the most that can be earned."""
    yield Call("guess", {"n": row.data["secret"]})
    return "Done."


GuessNumber.policies = {"random": random, "rule": rule, "oracle": oracle}
