"""What is played: a row and a repeat of it at a time, and the columns by which results are grouped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...servers.catalog import Served
from ...servers.types import Json, Message, RowError, Tool
from ..endpoint import EnvironmentInfo
from ..session import WrongRequest
from ..sources import Source, of_rows, read_file, read_split

#: Characters of a column's value that name a group.
GROUP_CHARACTERS = 80
#: The group of rows that lack the column.
NO_VALUE = "(none)"
#: Wires on which a server that is not gymwire's begins no episode without a whole row.
WHOLE_ROWS = ("nemo-gym", "mcp")


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to play: the `row`-th task, for the `repeat`-th time. `seed` chooses what no row does."""

    row: int
    repeat: int
    source: Source
    seed: int | None = None
    group: str | None = None

    @property
    def key(self) -> tuple[int, int]:
        return self.row, self.repeat


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a run in order, each `repeats` times."""

    sources: Sequence[Source]
    repeats: int
    column: str | None = None
    seeded: bool = False  # the tasks have no rows, only seeds

    def jobs(self) -> Iterator[Job]:
        """Every row once, then every row again: a run that is stopped has seen as many rows as possible."""
        for repeat in range(self.repeats):
            for place, source in enumerate(self.sources):
                yield Job(place, repeat, source, place if self.seeded else None, self._group(source))

    def __len__(self) -> int:
        return len(self.sources) * self.repeats

    def digest(self, count: int | None = None) -> str:
        """Names the tasks, or the first `count` of them, wherever they came from."""
        return sha256(json.dumps([source.name for source in self.sources[:count]]).encode()).hexdigest()[:16]

    def _group(self, source: Source) -> str | None:
        if self.column is None or source.row is None:
            return None
        found = value_of(source.row.data, self.column)
        return NO_VALUE if found is None else found


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a command line asks for."""

    split: str | None = None
    file: Path | None = None
    count: int | None = None
    repeats: int = 1
    column: str | None = None


def plan_of(wanted: Wanted, info: EnvironmentInfo, served: Served | None, wire: str) -> Plan:
    """Find the tasks. Raises `WrongRequest`."""
    if wanted.file is None and served is None and not info.wires and wire in WHOLE_ROWS:
        raise WrongRequest(f"a server of others has no rows to choose from over {wire}: give it some with --rows FILE.")
    try:
        sources, seeded = _sources(wanted, info, served)
    except RowError as error:
        raise WrongRequest(str(error)) from None
    if not sources:
        raise WrongRequest("there are no rows to play")
    if wanted.column is not None:
        _check_column(wanted.column, sources)
    return Plan(sources, wanted.repeats, wanted.column, seeded)


def _sources(wanted: Wanted, info: EnvironmentInfo, served: Served | None) -> tuple[list[Source], bool]:
    if wanted.file is not None and served is None:
        return of_rows(read_file(wanted.file)[: wanted.count]), False
    splits = list(info.splits) if served is None else list(served.rows.splits)
    if splits:
        return read_split(wanted.split or splits[0], wanted.count, served, info), False
    if wanted.split is not None:
        raise WrongRequest(f"{info.name} names no splits; leave --split out, or give --rows FILE.")
    if wanted.count is None:
        raise WrongRequest(
            f"{info.name} has no rows that it tells of: give --rows FILE, or -n COUNT to play so many seeds."
        )
    return [Source(f"seed.{seed}") for seed in range(wanted.count)], True


def _check_column(column: str, sources: Sequence[Source]) -> None:
    rows = [source.row for source in sources if source.row is not None]
    if not rows:
        raise WrongRequest("--by needs the rows themselves, which stay on a server: give it the same rows with --rows.")
    if not any(value_of(row.data, column) is not None for row in rows):
        names = ", ".join(sorted({name for row in rows[:100] for name in row.data})) or "none"
        raise WrongRequest(f"no row has a column {column!r}; the columns are: {names}.")


def value_of(data: Mapping[str, Any], column: str) -> str | None:
    """A column's value as the name of a group; `a.b` looks into an object."""
    value: Any = data
    for part in (column,) if column in data else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text[:GROUP_CHARACTERS]


def content_hash(source: Source, prompt: Sequence[Message], tools: Sequence[Tool]) -> str:
    """Names what was played: the row itself where it is known, else what the policy was shown of it."""
    if source.row is not None:
        return source.name
    shown: Json = {"prompt": list(prompt), "tools": [tool.as_chat() for tool in tools]}
    return sha256(json.dumps(shown, sort_keys=True, default=str).encode()).hexdigest()[:16] if prompt else ""
