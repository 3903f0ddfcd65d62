"""From the rows of a generation batch to its samples: groups, fresh rows for groups without signal, what failed.

A group is `num_generations` episodes of one row. What a run remembers between steps (rows that are retired, rows
already drawn, failures in a row) lives in `Progress`, which a checkpoint keeps.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from ..adapters.session import SessionFailed
from ..servers.types import EpisodeId, Row
from .config import Failures
from .rollout import Episode, Player, Trace


class TooManyFailures(RuntimeError):
    """So much of our side is broken that going on would waste the run."""


class RowBook:
    """The rows to train on, by name. A name is a hash of the row, so that it survives a changed order."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.by_name = {name_of(row): row for row in rows}
        self.names = list(self.by_name)


def name_of(row: Row) -> str:
    text = json.dumps(row.to_json(), sort_keys=True, ensure_ascii=False)
    return sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(slots=True)
class Progress:
    """What a resumed run must know."""

    drawn: int = 0
    retired: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

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


class Ledger:
    """One line for every session that failed, as it happens; and a warning when failures gather."""

    def __init__(self, path: Path, wire: str) -> None:
        self.path, self.wire = path, wire
        self.by_tool: Counter[str] = Counter()

    def write(self, episode: Episode, failure: SessionFailed, tool: str) -> None:
        line = {
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
        self.by_tool[tool] += 1


@dataclass(frozen=True, slots=True)
class Group:
    """The episodes of one row, played."""

    row: str
    traces: list[Trace]

    @property
    def rewards(self) -> list[float]:
        return [trace.reward for trace in self.traces if trace.reward is not None]

    @property
    def has_signal(self) -> bool:
        rewards = self.rewards
        return len(rewards) > 1 and max(rewards) > min(rewards)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one generation step brought home, in the order in which it was asked for."""

    groups: list[Group]
    refilled: int
    played: list[Trace]

    @property
    def traces(self) -> list[Trace]:
        return [trace for group in self.groups for trace in group.traces]

    def figures(self) -> dict[str, float]:
        """The step log's figures."""
        traces = self.played
        return {
            "sessions/played": len(traces),
            "sessions/masked": sum(trace.failure is not None for trace in self.traces),
            "sessions/recovered": sum(trace.recovered for trace in traces),
            "sessions/retried": sum(trace.retried for trace in traces),
            "sessions/tool_errors": sum(trace.tool_errors for trace in traces),
            "groups/refilled": self.refilled,
            "groups/no_signal": sum(len(group.rewards) < 2 for group in self.groups),
            "groups/zero_variance": sum(len(g.rewards) > 1 and not g.has_signal for g in self.groups),
        }


class Collector:
    """Plays generation batches. `sample_base` numbers the attempts at one row apart, over the whole run."""

    def __init__(
        self,
        player: Player,
        drawing: Drawing,
        failures: Failures,
        *,
        group_size: int,
        max_refill: int,
        retire_above: float | None,
        seed: int,
    ) -> None:
        self.player, self.drawing, self.failures = player, drawing, failures
        self.group_size, self.max_refill, self.retire_above, self.seed = group_size, max_refill, retire_above, seed
        self.step = 0

    @property
    def progress(self) -> Progress:
        return self.drawing.progress

    async def collect(self, group_count: int, step: int) -> Batch:
        """Play `group_count` groups of fresh rows. Raises `TooManyFailures`."""
        self.step = step
        groups = await self._play(self.drawing.draw(group_count), step, 0)
        played = [trace for group in groups for trace in group.traces]
        refilled = 0
        for refill in range(1, self.max_refill + 1):
            dull = [place for place, group in enumerate(groups) if not group.has_signal]
            if not dull:
                break
            fresh = await self._play(self.drawing.draw(len(dull)), step, refill)
            played += [trace for group in fresh for trace in group.traces]
            refilled += len(dull)
            for place, group in zip(dull, fresh, strict=True):
                if group.has_signal:
                    groups[place] = group
        self._judge(played)
        return Batch([self._masked(group) for group in groups], refilled, played)

    async def _play(self, names: Sequence[str], step: int, refill: int) -> list[Group]:
        episodes = list(self._episodes(names, step, refill))
        traces = await self.player.play_all(episodes)
        size = self.group_size
        groups = [Group(name, traces[place * size : (place + 1) * size]) for place, name in enumerate(names)]
        self._retire(groups)
        return groups

    def _episodes(self, names: Sequence[str], step: int, refill: int) -> Iterator[Episode]:
        """A group shares its row and the environment's seed; its samples are told apart."""
        for name in names:
            seed = int(sha256(f"{self.seed}:{step}:{refill}:{name}".encode()).hexdigest()[:8], 16)
            for sample in range(self.group_size):
                yield Episode(EpisodeId(name, sample=sample, seed=seed), self.drawing.book.by_name[name])

    def _retire(self, groups: Sequence[Group]) -> None:
        if self.retire_above is None:
            return
        for group in groups:
            rewards = group.rewards
            solved = len(rewards) == self.group_size and sum(rewards) / len(rewards) >= self.retire_above
            if solved and group.row not in self.progress.retired:
                self.progress.retired.append(group.row)

    def _masked(self, group: Group) -> Group:
        """With `on_failure: drop_group` one failed session takes its whole group out of the update."""
        if self.failures.on_failure != "drop_group" or all(trace.failure is None for trace in group.traces):
            return group
        failure = next(trace.failure for trace in group.traces if trace.failure is not None)
        for trace in group.traces:
            trace.outcome, trace.failure = None, failure
        return group

    def _judge(self, traces: Sequence[Trace]) -> None:
        """Stop loudly when our side is broken rather than unlucky."""
        failed = [trace for trace in traces if trace.failure is not None]
        for trace in traces:
            self.progress.failed_in_a_row = self.progress.failed_in_a_row + 1 if trace.failure is not None else 0
            if self.progress.failed_in_a_row >= self.failures.stop_after:
                raise TooManyFailures(_sentence(f"{self.failures.stop_after} sessions failed in a row", failed))
        if failed and self.failures.on_failure == "stop":
            raise TooManyFailures(_sentence("a session failed and failures.on_failure is stop", failed))
        if len(failed) > self.failures.stop_share * len(traces):
            raise TooManyFailures(_sentence(f"{len(failed)} of {len(traces)} sessions of a batch failed", failed))


def _sentence(what: str, failed: Sequence[Trace]) -> str:
    kinds: Mapping[str, int] = Counter(trace.failure.kind for trace in failed if trace.failure is not None)
    causes = ", ".join(f"{kind} ({count})" for kind, count in sorted(kinds.items(), key=lambda pair: -pair[1]))
    last: Any = failed[-1].failure
    return f"{what}: {causes}. The last said: {last.reason} (at {last.stage}). The ledger in the run folder has all."
