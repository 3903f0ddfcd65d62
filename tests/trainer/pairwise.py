"""Few combinations of options in which every two values of two options meet."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

Pair = tuple[tuple[str, int], tuple[str, int]]


def pairwise(options: dict[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The same ones each time: greedily, of some drawn combinations the one with the most pairs not yet met."""
    draw = random.Random(1)
    left = {
        ((one, i), (other, j))
        for one, other in combinations(options, 2)
        for i in range(len(options[one]))
        for j in range(len(options[other]))
    }
    made = []
    while left:
        best = max((_drawn(options, min(left), draw) for _ in range(60)), key=lambda at: len(left & _pairs(at)))
        left -= _pairs(best)
        made.append({name: options[name][at] for name, at in best.items()})
    return made


def _drawn(options: dict[str, Sequence[Any]], pair: Pair, draw: random.Random) -> dict[str, int]:
    return {name: draw.randrange(len(values)) for name, values in options.items()} | dict(pair)


def _pairs(at: dict[str, int]) -> set[Pair]:
    return set(combinations(at.items(), 2))
