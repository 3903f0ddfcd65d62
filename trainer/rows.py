"""The rows of a run, by name: those of a file, of an environment in this process, or of a served split.

A whole row is named by a hash of itself, so that the name survives a changed order. A served split is only known by
its places (`train.17`), because what its rows hold beside the prompt stays on the server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ..adapters.endpoint import EnvironmentInfo
from ..servers.catalog import Served
from ..servers.rows import read_rows
from ..servers.types import EpisodeId, Row, RowError
from .config import ConfigError


@dataclass(frozen=True, slots=True)
class Source:
    """One task: a whole row, or a place in a split."""

    name: str
    row: Row | None = None
    split: str | None = None
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """What is to be played: a task, under a name that makes its sampling reproducible."""

    id: EpisodeId
    source: Source
    greedy: bool = False

    @property
    def row(self) -> Row | None:
        return self.source.row


class RowBook:
    """The tasks to draw from, by name."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.by_name = {source.name: source for source in sources}
        self.names = list(self.by_name)

    @classmethod
    def of_rows(cls, rows: Sequence[Row]) -> RowBook:
        return cls([Source(name_of(row), row) for row in rows])

    @classmethod
    def of_split(cls, split: str, count: int) -> RowBook:
        return cls([Source(f"{split}.{index}", None, split, index) for index in range(count)])

    def __or__(self, other: RowBook) -> RowBook:
        """The tasks of both."""
        return RowBook([*self.by_name.values(), *other.by_name.values()])

    def __len__(self) -> int:
        return len(self.names)

    def episode(self, name: str, *, sample: int = 0, seed: int = 0, greedy: bool = False) -> Episode:
        return Episode(EpisodeId(name, sample=sample, seed=seed), self.by_name[name], greedy)


def name_of(row: Row) -> str:
    text = json.dumps(row.to_json(), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def read_book(
    file: Path | None, split: str, count: int | None, served: Served | None, info: EnvironmentInfo, key: str
) -> RowBook:
    """The rows of a file, or of a split: whole where the environment is in this process. Raises `ConfigError`.

    `key` is how the config calls them, for its errors.
    """
    if file is not None:
        rows = list(_of_file(file))
        return RowBook.of_rows(rows[:count])
    splits = info.splits if served is None else {name: 0 for name in served.rows.splits}
    if split not in splits:
        names = ", ".join(splits) or "none"
        raise ConfigError(f"{key}: {info.name} has no split {split!r} (it has: {names}); name another, or a rows file")
    try:
        if served is None:
            total = info.splits[split]
            return RowBook.of_split(split, total if count is None else min(count, total))
        total = served.rows.count(split)
        indices = range(total if count is None else min(count, total))
        return RowBook.of_rows([served.rows.get(split, index) for index in indices])
    except RowError as error:
        raise ConfigError(f"{key}: {error}") from None


def _of_file(file: Path) -> Iterator[Row]:
    try:
        rows = read_rows(file)
    except RowError as error:
        raise ConfigError(str(error)) from None
    if not rows:
        raise ConfigError(f"{file}: has no rows")
    yield from rows
