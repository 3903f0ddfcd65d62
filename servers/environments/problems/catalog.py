"""What a problem of `code_tests` is: a function that solves it, inputs for it, and known wrong ways to solve it.

The function is the reference: its docstring is the task, its signature says what goes in and out, its source is what
the oracle answers. A wrong solution is the same source with one piece replaced; the hidden tests must catch each.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

Arguments = tuple[Any, ...]
Draw = Callable[[Random, int], Arguments]
#: Problems by name, in the order of their files.
PROBLEMS: dict[str, Problem] = {}


@dataclass(frozen=True, eq=False)
class Problem:
    """draw: arguments of about a given size. edges: arguments that every row tests; the first two are shown.
    large: the size of the largest test. replacements: (piece, wrong piece) of the source."""

    function: Callable[..., Any]
    draw: Draw
    edges: Sequence[Arguments]
    replacements: Sequence[tuple[str, str]]
    large: int

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def task(self) -> str:
        """The docstring, one paragraph."""
        return " ".join((inspect.getdoc(self.function) or "").split())

    @cached_property
    def source(self) -> str:
        """The function without its decorator."""
        lines = textwrap.dedent(inspect.getsource(self.function))
        (node,) = ast.parse(lines).body
        return "\n".join(lines.split("\n")[node.lineno - 1 :]).rstrip() + "\n"

    @cached_property
    def wrong(self) -> tuple[str, ...]:
        return tuple(self.source.replace(piece, other, 1) for piece, other in self.replacements)

    @cached_property
    def parameters(self) -> dict[str, str]:
        """Names of the parameters, and their types as written."""
        return {name: str(about.annotation) for name, about in self._signature.parameters.items()}

    @cached_property
    def returns(self) -> str:
        return str(self._signature.return_annotation)

    @cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.function)

    @property
    def header(self) -> str:
        """`def name(...) -> ...:`"""
        given = ", ".join(f"{name}: {kind}" for name, kind in self.parameters.items())
        return f"def {self.name}({given}) -> {self.returns}:"


def problem(
    *, draw: Draw, edges: Sequence[Arguments], wrong: Sequence[tuple[str, str]], large: int = 20_000
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function among the problems."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        PROBLEMS[function.__name__] = Problem(function, draw, edges, wrong, large)
        return function

    return put


# What arguments are made of


def ints(rng: Random, count: int, low: int, high: int) -> list[int]:
    return [rng.randint(low, high) for _ in range(count)]


def word(rng: Random, count: int, letters: str = "abc") -> str:
    return "".join(rng.choice(letters) for _ in range(count))


def grid(rng: Random, rows: int, columns: int, low: int, high: int) -> list[list[int]]:
    return [ints(rng, columns, low, high) for _ in range(rows)]


def side(size: int) -> int:
    """The side of a square of about so many cells."""
    return max(1, int(size**0.5))


def pairs(rng: Random, count: int, nodes: int) -> list[list[int]]:
    """Different pairs of different nodes, as edges of a graph; at least one."""
    found = {tuple(sorted((rng.randrange(nodes), rng.randrange(nodes)))) for _ in range(count)}
    return [[a, b] for a, b in sorted(found) if a != b] or [[0, 1]]
