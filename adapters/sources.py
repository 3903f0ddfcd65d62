"""The tasks of a run, by name: rows of a file, of an environment in this process, or places of a served split.

A whole row is named by a hash of itself, so that the name survives a changed order. A served split is only known by
its places (`train.17`), because what its rows hold beside the prompt stays on the server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..servers.catalog import Served
from ..servers.rows import read_rows
from ..servers.types import Row, RowError
from .endpoint import EnvironmentInfo
from .session import WrongRequest


@dataclass(frozen=True, slots=True)
class Source:
    """One task: a whole row, or a place in a split."""

    name: str
    row: Row | None = None
    split: str | None = None
    index: int | None = None


def name_of(row: Row) -> str:
    """A row's name: a hash of all of it."""
    text = json.dumps(row.to_json(), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def of_rows(rows: Sequence[Row]) -> list[Source]:
    return [Source(name_of(row), row) for row in rows]


def of_split(split: str, count: int) -> list[Source]:
    return [Source(f"{split}.{index}", None, split, index) for index in range(count)]


def read_file(file: Path) -> list[Row]:
    """A file's rows, at least one. Raises `RowError`."""
    rows = read_rows(file)
    if not rows:
        raise RowError(f"{file}: has no rows")
    return rows


def read_split(split: str, count: int | None, served: Served | None, info: EnvironmentInfo) -> list[Source]:
    """A split's first `count` rows, whole where they are here. Raises `WrongRequest` and `RowError`."""
    splits = info.splits if served is None else {name: 0 for name in served.rows.splits}
    if split not in splits:
        names = ", ".join(splits) or "none"
        raise WrongRequest(f"{info.name} has no split {split!r} (it has: {names}); name another, or a rows file")
    total = info.splits[split] if served is None else served.rows.count(split)
    chosen = total if count is None else min(count, total)
    return of_split(split, chosen) if served is None else of_rows([served.rows.get(split, i) for i in range(chosen)])
