"""The rows of a run, by name: those of a file, of an environment in this process, or of a served split.

A whole row is named by a hash of itself, so that the name survives a changed order. A served split is only known by
its places (`train.17`), because what its rows hold beside the prompt stays on the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..adapters.endpoint import EnvironmentInfo
from ..adapters.session import WrongRequest
from ..adapters.sources import Source, of_rows, of_split, read_file, read_split
from ..servers.catalog import Served
from ..servers.types import EpisodeId, Row, RowError
from .config import ConfigError


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
        return cls(of_rows(rows))

    @classmethod
    def of_split(cls, split: str, count: int) -> RowBook:
        return cls(of_split(split, count))

    def __or__(self, other: RowBook) -> RowBook:
        """The tasks of both."""
        return RowBook([*self.by_name.values(), *other.by_name.values()])

    def __len__(self) -> int:
        return len(self.names)

    def episode(self, name: str, *, sample: int = 0, seed: int = 0, greedy: bool = False) -> Episode:
        return Episode(EpisodeId(name, sample=sample, seed=seed), self.by_name[name], greedy)


def read_book(
    file: Path | None, split: str, count: int | None, served: Served | None, info: EnvironmentInfo, key: str
) -> RowBook:
    """The rows of a file, or of a split: whole where the environment is in this process. Raises `ConfigError`.

    `key` is how the config calls them, for its errors.
    """
    if file is not None:
        return RowBook.of_rows(_of_file(file)[:count])
    try:
        return RowBook(read_split(split, count, served, info))
    except (WrongRequest, RowError) as error:
        raise ConfigError(f"{key}: {error}") from None


def _of_file(file: Path) -> list[Row]:
    try:
        return read_file(file)
    except RowError as error:
        raise ConfigError(str(error)) from None
