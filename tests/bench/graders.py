"""How many math answers a second are checked: numbers, and formulas that need algebra; beside comparing texts.

Checks are made as a server makes them, one call of the grader each, no two with the same formulas. The algebra's
workers are started before; they use the processors that are there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from gymwire.servers.graders.math import math

from .figures import Figure, at_least
from .fleet import Bench
from .processes import BenchError

SECTION = "graders"
NUMERIC, SYMBOLIC = 500.0, 50.0
NUMBERS, FORMULAS = 4_000, 400
#: What a checker that reads nothing would do.
BARE = 200_000


async def figures(bench: Bench) -> list[Figure]:
    """Checks a second, the best of the rounds."""
    await _per_second([_formula(index) for index in range(8)])
    numbers = await _best(bench, _number, NUMBERS)
    formulas = await _best(bench, _formula, FORMULAS)
    note = f"bare comparison {_bare():,.0f}/s"
    return [
        Figure(
            SECTION, "math, numbers", "checks/s", {"": numbers}, {}, (at_least(NUMERIC, numbers, "checks/s"),), note
        ),
        Figure(SECTION, "math, formulas", "checks/s", {"": formulas}, {}, (at_least(SYMBOLIC, formulas, "checks/s"),)),
    ]


def _number(index: int) -> tuple[str, str]:
    """An answer and what is expected: the same fraction, written in two ways."""
    return (
        f"Reckoned with care, it comes to \\boxed{{\\frac{{{index}}}{{{index + 7}}}}}.",
        f"{2 * index}/{2 * index + 14}",
    )


def _formula(index: int) -> tuple[str, str]:
    shapes: Sequence[Callable[[int], tuple[str, str]]] = (
        lambda n: (f"(x+{n})^2", f"x^2+{2 * n}x+{n * n}"),
        lambda n: (f"\\frac{{{n}}}{{\\sqrt{{2}}}}", f"\\frac{{{n}\\sqrt{{2}}}}{{2}}"),
        lambda n: (f"\\{{{n}, {n + 1}\\}}", f"\\{{{n + 1}, {n}\\}}"),
        lambda n: (f"{n}\\pi + 1", f"1 + {n}\\pi"),
    )
    given, expected = shapes[index % len(shapes)](index + 2)
    return f"So \\boxed{{{given}}}.", expected


async def _best(bench: Bench, make: Callable[[int], tuple[str, str]], count: int) -> float:
    """The best round; each has answers of its own, which no cache has seen."""
    starts = [100 + number * count for number in range(bench.size.rounds)]
    return max([await _per_second([make(start + index) for index in range(count)]) for start in starts])


async def _per_second(pairs: Sequence[tuple[str, str]]) -> float:
    started = time.perf_counter()
    scores = [math(completion, expected) for completion, expected in pairs]
    waited = await asyncio.gather(*(score for score in scores if not isinstance(score, float)))
    seconds = time.perf_counter() - started
    if {*waited, *(score for score in scores if isinstance(score, float))} != {1.0}:
        raise BenchError("a right answer was not found right")
    return len(pairs) / seconds


def _bare() -> float:
    started = time.perf_counter()
    for number in range(BARE):
        _ = str(number) == "17"
    return BARE / (time.perf_counter() - started)
