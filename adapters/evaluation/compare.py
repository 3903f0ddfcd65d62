"""Two runs on the rows that both of them scored, paired by place and content."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from math import fsum
from pathlib import Path

from ...servers.types import Json
from ..session import WrongRequest
from .results import MANIFEST, RESULTS, Folder, Result, read_results
from .statistics import paired

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
    ours, theirs = _Rows(this[1]), _Rows(other[1])
    both = ours.means.keys() & theirs.means.keys()
    same = {row for row in both if ours.hashes[row] == theirs.hashes[row]}
    first = {row: theirs.means[row] for row in same}
    second = {row: ours.means[row] for row in same}
    changed = sorted((row for row in same if first[row] != second[row]), key=lambda r: (-abs(second[r] - first[r]), r))
    return {
        "this": {"name": this[0], "rows": len(ours.means)},
        "other": {"name": other[0], "rows": len(theirs.means)},
        "only_this": len(ours.means.keys() - both),
        "only_other": len(theirs.means.keys() - both),
        "different": len(both - same),
        "paired": asdict(paired(first, second)),
        "changed": [
            {
                "row": row,
                "name": f"{row} ({ours.names[row]})",
                "first": first[row],
                "second": second[row],
                "difference": second[row] - first[row],
            }
            for row in changed[:MOST_CHANGED]
        ],
    }


class _Rows:
    """A run's mean reward by row, with what each row was."""

    def __init__(self, results: Iterable[Result]) -> None:
        rewards: dict[int, list[float]] = {}
        self.hashes: dict[int, str] = {}
        self.names: dict[int, str] = {}
        for result in results:
            if result.reward is not None:
                rewards.setdefault(result.row, []).append(result.reward)
                self.hashes[result.row], self.names[result.row] = result.hash, result.name
        self.means = {row: fsum(values) / len(values) for row, values in rewards.items()}
