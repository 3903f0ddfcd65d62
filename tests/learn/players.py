"""The naive way to treat a failed session, as a player. gymwire itself has no such option."""

from __future__ import annotations

from gymwire.servers.types import Ending, Outcome
from gymwire.trainer.rollout import Player, Trace
from gymwire.trainer.rows import Episode


class FailedIsZero(Player):
    """A failed session ends where it broke, with the reward 0: it votes and is trained on like any other."""

    async def play(self, episode: Episode) -> Trace:
        trace = await super().play(episode)
        if trace.failure is not None:
            trace.failure, trace.outcome = None, Outcome(Ending.FINISHED, 0.0)
        return trace
