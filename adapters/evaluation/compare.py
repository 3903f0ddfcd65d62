"""Two runs on the rows that both of them scored, paired by what was played.

A row at the same place with the same content is the same row; what is left over is paired by its content alone, where
that is no one else's: rows that were shuffled or filtered are found again, and rows that only look alike are not mixed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...servers.types import Json
from ..session import WrongRequest
from .results import MANIFEST, RESULTS, Folder, Result, read_results
from .statistics import mean_of, paired

#: Rows that changed most, as many as are shown.
MOST_CHANGED = 20


def read_run(path: Path) -> tuple[str, list[Result]]:
    """A run's name (its model's, where a manifest tells it) and its results. Raises `WrongRequest`."""
    file = path / RESULTS if path.is_dir() else path
    if not file.is_file():
        raise WrongRequest(f"{path} holds no results: name the --out of another run, or its {RESULTS}")
    name = file.parent.name or str(file)
    if (file.parent / MANIFEST).exists():
        settings = (Folder(file.parent).manifest() or {}).get("settings") or {}
        name = f"{settings.get('model', '')} ({name})"
    return name, list(read_results(file).values())


def compare(this: tuple[str, Iterable[Result]], other: tuple[str, Iterable[Result]]) -> Json:
    """The second run is the earlier one; differences are this run's reward minus that one's."""
    ours, theirs = _rows(this[1]), _rows(other[1])
    pairs = [(row, theirs[place]) for row, place in _paired(ours, theirs) if row.scored and theirs[place].scored]
    first = {row.place: before.mean for row, before in pairs}
    second = {row.place: row.mean for row, _ in pairs}
    changed = sorted(
        (row for row, before in pairs if row.mean != before.mean),
        key=lambda row: -abs(second[row.place] - first[row.place]),
    )
    return {
        "this": {"name": this[0], "rows": sum(row.scored for row in ours.values())},
        "other": {"name": other[0], "rows": sum(row.scored for row in theirs.values())},
        "only_this": sum(row.scored for row in ours.values()) - len(pairs),
        "only_other": sum(row.scored for row in theirs.values()) - len(pairs),
        "paired": asdict(paired(first, second)),
        "changed": [
            {
                "row": row.place,
                "name": f"{row.place} ({row.name})",
                "first": first[row.place],
                "second": second[row.place],
                "difference": second[row.place] - first[row.place],
            }
            for row in changed[:MOST_CHANGED]
        ],
    }


@dataclass(slots=True)
class _Row:
    """What a run made of one row; `hash` names its content, where anybody saw it."""

    place: int
    name: str = ""
    hash: str = ""
    rewards: list[float] = field(default_factory=list)

    @property
    def scored(self) -> bool:
        return bool(self.rewards)

    @property
    def mean(self) -> float:
        mean = mean_of(self.rewards)
        assert mean is not None
        return mean


def _rows(results: Iterable[Result]) -> dict[int, _Row]:
    rows: dict[int, _Row] = {}
    for result in sorted(results, key=lambda result: result.key):
        row = rows.setdefault(result.row, _Row(result.row))
        row.name, row.hash = result.name, result.hash or row.hash
        if result.reward is not None:
            row.rewards.append(result.reward)
    return rows


def _paired(ours: Mapping[int, _Row], theirs: Mapping[int, _Row]) -> Iterator[tuple[_Row, int]]:
    """Each of our rows that is one of theirs, with its place there."""
    same = {place for place in ours.keys() & theirs.keys() if ours[place].hash == theirs[place].hash != ""}
    rest = _alone(row for row in theirs.values() if row.place not in same)
    found = _alone(row for row in ours.values() if row.place not in same)
    for row in ours.values():
        if row.place in same:
            yield row, row.place
        elif row.hash in rest and row.hash in found:
            yield row, rest[row.hash].place


def _alone(rows: Iterable[_Row]) -> dict[str, _Row]:
    """The rows whose content no other one has."""
    rows = [row for row in rows if row.hash]
    counts = Counter(row.hash for row in rows)
    return {row.hash: row for row in rows if counts[row.hash] == 1}
