"""Scripted policies: what an environment ships to show that its reward can be earned, and by whom.

A policy is a generator: it yields what it does, receives what came back, and returns its final answer.
It knows no wire; a driver (demo, tests) plays it over any of them. `oracle` alone may read `row.data`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .types import Row, ToolResult


@dataclass(frozen=True, slots=True)
class Call:
    """Call one tool; the generator receives its `ToolResult`."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndTurn:
    """End the turn with this text; the generator receives the next prompt as a `ToolResult` (`done`: none)."""

    text: str


Script = Generator[Call | EndTurn, ToolResult, str]
Policy = Callable[[Row, Random], Script]
