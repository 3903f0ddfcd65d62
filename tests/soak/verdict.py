"""Whether a server holds afterwards what it held before, and whether its memory grew while it was loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from .servers import Holding

#: What may stay of memory: arenas that are not given back, and this much of an ended episode: how it went is
#: remembered, for the 65,536 that ended last.
MEMORY_MB, BYTES_PER_EPISODE = 12.0, 1024
#: Files and threads that come and go by themselves: a kept connection, a thread of the pool.
FEW_FILES, FEW_THREADS = 8, 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    before: float
    most: float
    after: float
    allowed: float
    held: bool


def lines(before: Holding, loaded: Sequence[Holding], after: Holding) -> Iterator[Line]:
    episodes = after.episodes - before.episodes
    memory = before.memory_mb + MEMORY_MB + episodes * BYTES_PER_EPISODE / 2**20
    yield _line("memory, MB", before.memory_mb, [h.memory_mb for h in loaded], after.memory_mb, memory)
    for what, few in (("files", FEW_FILES), ("threads", FEW_THREADS)):
        values = [float(getattr(item, what)) for item in (before, *loaded, after)]
        yield _line(what, values[0], values[1:-1], values[-1], values[0] + few)
    for what in ("processes", "containers", "taken", "sessions", "keys"):
        values = [float(getattr(item, what)) for item in (before, *loaded, after)]
        yield _line(f"{what}{' slots' * (what == 'taken')}", values[0], values[1:-1], values[-1], values[0])
    yield growth(loaded)


def _line(what: str, before: float, loaded: Sequence[float], after: float, allowed: float) -> Line:
    return Line(what, before, max(loaded, default=before), after, allowed, after <= allowed)


def growth(loaded: Sequence[Holding]) -> Line:
    """The trend of memory in the second half of the load (Theil-Sen: the median of all slopes), in MB over that half.

    In the first half caches and arenas fill; after it only what is remembered of each episode may.
    """
    half = [item for item in loaded if item.at >= (loaded[0].at + loaded[-1].at) / 2]
    seconds = half[-1].at - half[0].at
    trend_mb = slope([(item.at, item.memory_mb) for item in half]) * seconds
    allowed = MEMORY_MB / 2 + (half[-1].episodes - half[0].episodes) * BYTES_PER_EPISODE / 2**20
    return Line("trend, MB", 0.0, trend_mb, trend_mb, allowed, trend_mb <= allowed)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The median slope of all pairs: outliers, such as a collection that is due, count for nothing."""
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
    return median(slopes) if slopes else 0.0
