"""Held-out rows, played at temperature 1 and greedily: the mean reward with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from .collect import ALONE, Share
from .rollout import Player, Trace
from .rows import RowBook

#: Every evaluation of a run plays the same episodes, so that they differ by the policy alone.
SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Score:
    """The mean of the rewards there are; failed sessions have none and are counted."""

    mean: float
    standard_error: float
    rewards: int
    failed: int

    @classmethod
    def of(cls, rewards: Sequence[float | None]) -> Score:
        scored = [reward for reward in rewards if reward is not None]
        error = stdev(scored) / sqrt(len(scored)) if len(scored) > 1 else float("nan")
        return cls(fmean(scored) if scored else float("nan"), error, len(scored), len(rewards) - len(scored))


class Evaluator:
    """Plays every held-out row once, sampled and once greedily. `player` samples at temperature 1."""

    def __init__(self, player: Player, book: RowBook, share: Share = ALONE) -> None:
        self.player, self.book, self.share = player, book, share
        #: What the last evaluation played in this process, sampled episodes first.
        self.traces: list[Trace] = []

    async def evaluate(self) -> dict[str, float]:
        """The step log's figures."""
        self.traces = []
        sampled, greedy = await self._score(greedy=False), await self._score(greedy=True)
        return {
            "eval/reward": sampled.mean,
            "eval/reward_se": sampled.standard_error,
            "eval/greedy_reward": greedy.mean,
            "eval/greedy_reward_se": greedy.standard_error,
            "eval/rows": len(self.book),
            "eval/failed": sampled.failed + greedy.failed,
        }

    async def _score(self, *, greedy: bool) -> Score:
        own = self._own()
        traces = await self.player.play_all([self.book.episode(name, seed=SEED, greedy=greedy) for name in own])
        self.traces += traces
        rewards = self.share.gather([trace.reward for trace in traces])
        return Score.of([reward for part in rewards for reward in part])

    def _own(self) -> list[str]:
        """This process's part of the rows."""
        processes = len(self.share.gather(None))
        return self.book.names[self.share.index :: processes]
