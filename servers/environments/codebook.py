"""Codebook: look up the two digits of a code and submit both. Small enough for a policy of a million parameters.

The reward is 1 for the whole code, else 0. With the setting `shortcut` above 0 there is a cheap, mediocre way that
works: exactly one right digit earns that much, so one lookup and a guess are worth nearly as much as two lookups.
The pairs of keys in eval are in no row of train, whatever the seed and whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from random import Random
from typing import Annotated

from pydantic import BaseModel, Field

from ..environment import Environment, ToolError, tool
from ..policies import Call, Script
from ..rows import EVAL_SHARE, draw_rows
from ..types import Row, Transcript

Digit = Annotated[int, Field(ge=0, le=9)]
SIZES = {"train": 512, "eval": 128}
_WORDS = (
    "amber birch cedar coral daisy delta ember fjord flint gecko ginger globe hazel heron ivory jade "
    "kelp lemon lilac lotus maple mango moss north oasis ocean olive onyx opal orbit otter pearl "
    "pine plum poppy quartz raven ridge robin ruby sage slate stone tiger topaz tulip wheat willow"
)
KEYS = _WORDS.split()
NO_SUCH_KEY = "The code has no such key."


def draw(rng: Random, index: int, *, held_out: bool) -> Row:
    while True:
        first, second = rng.sample(KEYS, 2)
        if is_held_out(first, second) == held_out:
            digits = [rng.randint(0, 9), rng.randint(0, 9)]
            return Row.of(prompt_of(first, second), keys=[first, second], digits=digits)


def is_held_out(first: str, second: str) -> bool:
    """Whether a pair of keys, in either order, belongs to eval alone."""
    return sha256(" ".join(sorted((first, second))).encode()).digest()[0] % EVAL_SHARE == 0


def prompt_of(first: str, second: str) -> str:
    return f"Submit the code of {first} and {second}, its two digits in this order. Look up one key at a time."


def read_prompt(row: Row) -> tuple[str, str]:
    """The two keys, as any reader of the prompt can know them."""
    words = row.prompt[-1]["content"].split(",")[0].split(" ")
    return words[-3], words[-1]


def random(row: Row, rng: Random) -> Script:
    """Submits two digits without looking."""
    yield Call("submit", {"first": rng.randint(0, 9), "second": rng.randint(0, 9)})
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Looks the first key up, and the second one every other time."""
    first, second = read_prompt(row)
    seen = yield Call("lookup", {"key": first})
    guess = rng.randint(0, 9)
    if rng.randrange(2):
        guess = int((yield Call("lookup", {"key": second})).text)
    yield Call("submit", {"first": int(seen.text), "second": guess})
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    """Knows the digits."""
    first, second = row.data["digits"]
    yield Call("submit", {"first": first, "second": second})
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Codebook(Environment):
    """Look up the two digits of a code and submit both."""

    splits = tuple(SIZES)
    max_turns = 4
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        keys: tuple[str, str]
        digits: tuple[Digit, Digit]

    def __init__(self, shortcut: float = 0.0) -> None:
        """shortcut: what a code with exactly one right digit is worth, from 0 to below 1."""
        if not 0 <= shortcut < 1:
            raise ValueError(f"shortcut must be from 0 to below 1, got {shortcut}")
        self.shortcut = shortcut

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(partial(draw, held_out=split == "eval"), SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.right = 0

    @tool(read_only=True)
    async def lookup(self, key: str) -> int:
        """Show the digit of one key.

        Args:
            key: A key of the code.
        """
        if key not in self.data.keys:
            raise ToolError(NO_SUCH_KEY)
        return self.data.digits[self.data.keys.index(key)]

    @tool(ends=True)
    async def submit(self, first: int, second: int) -> str:
        """Submit both digits. This ends the task.

        Args:
            first: The digit of the first key.
            second: The digit of the second key.
        """
        self.right = sum(given == digit for given, digit in zip((first, second), self.data.digits, strict=True))
        return "Submitted."

    def get_state(self) -> int:
        return self.right

    def set_state(self, state: int) -> None:
        self.right = state

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        return {"code": float(self.right == 2), "shortcut": self.shortcut * (self.right == 1)}
