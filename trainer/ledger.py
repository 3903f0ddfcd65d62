"""Every failure of a session as a line of `failures.jsonl`, as it happens, and a warning where failures gather.

A line is one event: a session that is then recovered or retried has lines, too. What became of an episode is in its
trajectory.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from pathlib import Path

from ..adapters.session import SessionFailed
from .rows import Episode

logger = logging.getLogger("gymwire.train")
#: Failures on one tool or row that are worth a warning, if they are this share of all.
GATHERED, GATHERED_SHARE = 8, 0.5


class Ledger:
    """Where failures are written down. `step` is the step that is being played."""

    def __init__(self, path: Path, wire: str) -> None:
        self.path, self.wire, self.step = path, wire, 0
        self.total = 0
        self.by_tool: Counter[str] = Counter()
        self.by_row: Counter[str] = Counter()
        self._warned: dict[str, int] = {}

    def write(self, episode: Episode, failure: SessionFailed, tool: str) -> None:
        line = {
            "step": self.step,
            "episode": str(episode.id),
            "row": episode.id.row,
            "wire": self.wire,
            "stage": failure.stage,
            "tool": tool,
            "kind": failure.kind,
            "reason": failure.reason,
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self.total += 1
        self.by_row[episode.id.row] += 1
        if tool:
            self.by_tool[tool] += 1
            self._warn("tool", tool, self.by_tool[tool], failure)
        self._warn("row", episode.id.row, self.by_row[episode.id.row], failure)

    def _warn(self, what: str, name: str, count: int, failure: SessionFailed) -> None:
        """Once, and again whenever the count has doubled."""
        last = self._warned.get(f"{what} {name}", GATHERED // 2)
        if count < 2 * last or count < GATHERED_SHARE * self.total:
            return
        self._warned[f"{what} {name}"] = count
        logger.warning(
            "%d of %d failures are on the %s %s (last: %s at %s: %s); a policy can learn to break what it should use",
            count, self.total, what, name, failure.kind, failure.stage, failure.reason,
        )  # fmt: skip
