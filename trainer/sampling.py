"""The colocated engine as a policy. Sampling is seeded per request, from the episode's name and the turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .engine import Engine, Sampled
from .rollout import seed_of
from .rows import Episode


@dataclass(frozen=True, slots=True)
class EnginePolicy:
    """Samples turns. Greedy episodes take the likeliest token whatever the temperature."""

    engine: Engine
    stop_token_ids: Sequence[int]
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float | None = None

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Sampled:
        return await self.engine.sample(
            ids,
            max_tokens=max_tokens,
            seed=seed_of(episode.id, turn),
            temperature=0.0 if episode.greedy else self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p or 0.0,
            stop_token_ids=list(self.stop_token_ids),
        )
