"""From the rows of a generation batch to its samples: groups, fresh rows for groups without signal, what failed.

A group is `num_generations` episodes of one row. What a run remembers between steps (rows that are retired, rows
already drawn, failures in a row) lives in `Progress`, which a checkpoint keeps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from ..servers.types import Ending
from .config import Failures
from .rollout import Player, Trace
from .rows import Episode, RowBook


class TooManyFailures(RuntimeError):
    """So much of our side is broken that going on would waste the run."""


@dataclass(slots=True)
class Progress:
    """What a resumed run must know. Equal in every process of a run."""

    drawn: int = 0
    retired: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0

    def copy(self) -> Progress:
        return replace(self, retired=list(self.retired))

    def take(self, other: Progress) -> None:
        """Become what another one is."""
        self.drawn, self.retired, self.failed_in_a_row = other.drawn, list(other.retired), other.failed_in_a_row

    def save(self, path: Path) -> None:
        """Whole or not at all: a checkpoint with this file in it is complete."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)), encoding="utf-8")
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Progress:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class Drawing:
    """An endless, seeded order of rows: every epoch a new shuffle. `Progress.drawn` is the place in it."""

    def __init__(self, book: RowBook, progress: Progress, seed: int) -> None:
        self.book, self.progress, self.seed = book, progress, seed

    def draw(self, count: int) -> list[str]:
        """The next rows that are not retired; when all are, every row is drawn again."""
        names: list[str] = []
        retired = set(self.progress.retired)
        alive = len(self.book.names) > len(retired)
        while len(names) < count:
            name = self._at(self.progress.drawn)
            self.progress.drawn += 1
            if not alive or name not in retired:
                names.append(name)
        return names

    def _at(self, place: int) -> str:
        epoch, position = divmod(place, len(self.book.names))
        order = list(range(len(self.book.names)))
        Random(f"{self.seed}:{epoch}").shuffle(order)
        return self.book.names[order[position]]


@dataclass(frozen=True, slots=True)
class Group:
    """The episodes of one row, played. `dropped` takes all of them out of the update."""

    row: str
    traces: list[Trace]
    dropped: bool = False

    @property
    def rewards(self) -> list[float]:
        """The votes: failed sessions have none."""
        if self.dropped:
            return []
        return [trace.reward for trace in self.traces if trace.reward is not None]

    @property
    def has_signal(self) -> bool:
        rewards = self.rewards
        return len(rewards) > 1 and max(rewards) > min(rewards)

    @property
    def masked(self) -> int:
        return len(self.traces) if self.dropped else sum(trace.failure is not None for trace in self.traces)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one generation step brought home; `played` has the groups that were replaced, too."""

    groups: list[Group]
    refilled: int
    played: list[Group]

    def figures(self) -> dict[str, float]:
        """The step log's counts."""
        traces = [trace for group in self.played for trace in group.traces]
        total = sum(len(group.traces) for group in self.groups)
        masked = sum(group.masked for group in self.groups)
        return {
            "sessions/played": len(traces),
            "sessions/total": total,
            "sessions/trainable": total - masked,
            "sessions/masked": masked,
            "sessions/failed": sum(trace.failure is not None for trace in traces),
            "sessions/recovered": sum(trace.recovered for trace in traces),
            "sessions/retried": sum(trace.retried for trace in traces),
            "sessions/cut": sum(_is_cut(trace) for trace in traces),
            "sessions/tool_calls": sum(trace.calls for trace in traces),
            "sessions/tool_errors": sum(trace.tool_errors for trace in traces),
            "sessions/turns": sum(trace.turns for trace in traces),
            "groups/refilled": self.refilled,
            "groups/no_signal": sum(len(group.rewards) < 2 for group in self.groups),
            "groups/zero_variance": sum(len(g.rewards) > 1 and not g.has_signal for g in self.groups),
        }

    def components(self) -> dict[str, float]:
        """Means of the rewards' parts over the sessions that have them."""
        found: dict[str, list[float]] = {}
        for trace in (trace for group in self.groups for trace in group.traces):
            for name, value in (trace.outcome.components if trace.outcome else {}).items():
                found.setdefault(name, []).append(value)
        return {f"components/{name}": fmean(values) for name, values in found.items()}


def _is_cut(trace: Trace) -> bool:
    return trace.outcome is not None and trace.outcome.ending is Ending.CUT


#: Brings an object of every process to all of them, in the processes' order.
Gather = Callable[[Any], list[Any]]


@dataclass(frozen=True, slots=True)
class Share:
    """Which process of how many this is. All draw the same rows and play their own part of them."""

    index: int = 0
    gather: Gather = lambda own: [own]

    def part(self, names: Sequence[str], counts: Sequence[int]) -> list[str]:
        """This process's of `names`, given how many each process plays."""
        ends = list(accumulate(counts))
        return list(names[ends[self.index] - counts[self.index] : ends[self.index]])


ALONE = Share()


class Collector:
    """Plays generation batches of groups."""

    def __init__(
        self,
        player: Player,
        drawing: Drawing,
        failures: Failures,
        *,
        group_size: int,
        max_refill: int = 0,
        retire_above: float | None = None,
        seed: int = 0,
        share: Share = ALONE,
        on_played: Callable[[Batch], None] = lambda batch: None,
    ) -> None:
        """on_played: told of every batch, before it is judged whether too much of it failed."""
        self.on_played = on_played
        self.player, self.drawing, self.failures, self.share = player, drawing, failures, share
        self.group_size, self.max_refill, self.retire_above, self.seed = group_size, max_refill, retire_above, seed

    @property
    def progress(self) -> Progress:
        return self.drawing.progress

    async def collect(self, group_count: int) -> Batch:
        """Play `group_count` groups of fresh rows in this process. Raises `TooManyFailures`."""
        groups = await self._play(group_count)
        played, refilled = list(groups), 0
        for _ in range(self.max_refill):
            dull = [place for place, group in enumerate(groups) if not group.has_signal]
            if not any(self.share.gather(len(dull))):
                break
            fresh = await self._play(len(dull))
            played += fresh
            for place, group in zip(dull, fresh, strict=True):
                if group.has_signal:
                    groups[place] = group
                    refilled += 1
        batch = Batch(groups, refilled, played)
        self.on_played(batch)
        self._judge([trace for group in played for trace in group.traces])
        return batch

    async def _play(self, group_count: int) -> list[Group]:
        counts = self.share.gather(group_count)
        names = self.share.part(self.drawing.draw(sum(counts)), counts)
        traces = await self.player.play_all(list(self._episodes(names)))
        size = self.group_size
        groups = [self._group(name, traces[place * size :][:size]) for place, name in enumerate(names)]
        self._retire(groups)
        return groups

    def _group(self, row: str, traces: list[Trace]) -> Group:
        """With `on_failure: drop_group` one failed session takes its whole group out of the update."""
        failed = any(trace.failure is not None for trace in traces)
        return Group(row, traces, dropped=failed and self.failures.on_failure == "drop_group")

    def _episodes(self, names: Sequence[str]) -> Iterator[Episode]:
        """A group shares its row and the environment's seed; its samples are told apart. No two groups are equal."""
        for place, name in enumerate(names):
            text = f"{self.seed}:{self.progress.drawn}:{self.share.index}:{place}:{name}"
            seed = int(sha256(text.encode()).hexdigest()[:8], 16)
            for sample in range(self.group_size):
                yield self.drawing.book.episode(name, sample=sample, seed=seed)

    def _retire(self, groups: Sequence[Group]) -> None:
        if self.retire_above is None:
            return
        solved = [
            group.row
            for group in groups
            if len(group.rewards) == self.group_size and fmean(group.rewards) >= self.retire_above
        ]
        for row in (row for rows in self.share.gather(solved) for row in rows):
            if row not in self.progress.retired:
                self.progress.retired.append(row)

    def _judge(self, traces: Sequence[Trace]) -> None:
        """Stop loudly, in every process, when our side is broken rather than unlucky."""
        ends = [None if trace.failure is None else (trace.failure.kind, str(trace.failure)) for trace in traces]
        ends = [end for own in self.share.gather(ends) for end in own]
        failed = [end for end in ends if end is not None]
        for end in ends:
            self.progress.failed_in_a_row = self.progress.failed_in_a_row + 1 if end is not None else 0
            if self.progress.failed_in_a_row >= self.failures.stop_after:
                raise TooManyFailures(_sentence(f"{self.failures.stop_after} sessions failed in a row", failed))
        if failed and self.failures.on_failure == "stop":
            raise TooManyFailures(_sentence("a session failed and failures.on_failure is stop", failed))
        if len(failed) > self.failures.stop_share * len(ends):
            raise TooManyFailures(_sentence(f"{len(failed)} of {len(ends)} sessions of a batch failed", failed))


def _sentence(what: str, failed: Sequence[tuple[str, str]]) -> str:
    kinds = Counter(kind for kind, _ in failed).most_common()
    causes = ", ".join(f"{kind} ({count})" for kind, count in kinds)
    return f"{what}: {causes}. The last said: {failed[-1][1]}. The run folder's failures.jsonl has all of them."
