"""Where a step's seconds went: the parts add up to the step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from .rollout import Times

#: What a session's own time is split into; sessions overlap, so the wall time of a rollout is shared out by them.
SESSION_PARTS = ("decode", "tools", "wait", "verify")


class Clock:
    """Seconds by part since the last `split`; what no part claimed is training."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, float] = defaultdict(float)
        self._since = perf_counter()

    @contextmanager
    def timing(self, part: str) -> Iterator[None]:
        started = perf_counter()
        try:
            yield
        finally:
            self._parts[part] += perf_counter() - started

    def add_rollout(self, wall_s: float, times: Iterable[Times]) -> None:
        """Share a rollout's wall time out by what its sessions did."""
        each = list(times)
        summed = {part: sum(getattr(own, f"{part}_s") for own in each) for part in SESSION_PARTS}
        total = sum(summed.values())
        for part in SESSION_PARTS:
            self._parts[part] += wall_s * (summed[part] / total if total else 1 / len(SESSION_PARTS))

    def split(self) -> dict[str, float]:
        """The seconds of each part since the last call."""
        now = perf_counter()
        step_s, parts = now - self._since, dict(self._parts)
        self._since, self._parts = now, defaultdict(float)
        named = {part: parts.get(part, 0.0) for part in (*SESSION_PARTS, "sync", "eval")}
        named["train"] = max(step_s - sum(named.values()), 0.0)
        return {f"time/{part}_s": seconds for part, seconds in named.items()} | {"time/step_s": step_s}
