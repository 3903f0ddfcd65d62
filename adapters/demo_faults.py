"""The demo's broken round: any environment, with tools that raise in every tenth of its rows.

`gymwire serve gymwire.adapters.demo_faults:counter` serves the installed `counter` as `counter_broken`: its rows are
numbered, and a session of row 0, 10, 20 … breaks at its first tool call, as by a fault of our own side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, wraps
from typing import Any

from ..servers.catalog import find
from ..servers.environment import Environment, ToolSpec
from ..servers.types import Row

EVERY = 10
NUMBER = "_ng_task_index"  # NeMo Gym's own key for a row's number


def __getattr__(name: str) -> type[Environment]:
    """Every installed environment, broken, under its own name."""
    if name.startswith("_"):
        raise AttributeError(name)
    return broken_twin(name)


def broken_name(name: str) -> str:
    """What the broken twin of an environment is called in URLs."""
    return f"{name}_broken"


def breaks(index: int) -> bool:
    """Whether sessions of this row break."""
    return index % EVERY == 0


@cache
def broken_twin(name: str) -> type[Environment]:
    """The environment of that name, of which a tenth of the sessions break."""
    sound = find(name)

    def rows(cls: type[Environment], split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index, row in enumerate(sound.rows(split, count, seed)):
            yield replace(row, framework={**row.framework, NUMBER: index})

    twin = type(f"Broken{sound.__name__}", (sound,), {"name": broken_name(sound.name), "rows": classmethod(rows)})
    twin.tool_specs = {name: replace(spec, function=_breaking(spec)) for name, spec in sound.tool_specs.items()}
    return twin


def _breaking(spec: ToolSpec) -> Any:
    """The tool's function, behind a fault."""
    if not spec.bound:
        return spec.function

    @wraps(spec.function)
    def tool(environment: Environment, **arguments: Any) -> Any:
        if breaks(environment.row.framework[NUMBER]):
            raise ConnectionResetError("broken on purpose")
        return spec.function(environment, **arguments)

    return tool
