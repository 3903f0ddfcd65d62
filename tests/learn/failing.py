"""Codebook whose lookups break the session: the first never, each further one more often.

Held-out rows never break, so that whatever was trained is judged on the same healthy environment.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from gymwire.servers.environment import tool
from gymwire.servers.environments.codebook import Codebook, is_held_out
from gymwire.servers.failures import SessionFailure
from gymwire.servers.types import Row

#: A group's samples share row and seed, and a repeated call repeats all it says: the n-th draw is a draw of its own.
_drawn: Counter[tuple[str, int]] = Counter()


def chance(risk: float, lookup: int) -> float:
    """How likely the n-th lookup of a session, counted from 1, breaks it: 0, `risk`, then as if risked again."""
    return 1 - (1 - risk) ** (lookup - 1)


class FailingCodebook(Codebook):
    """Look up the two digits of a code and submit both."""

    def __init__(self, shortcut: float = 0.0, risk: float = 0.0, outages: int = 0) -> None:
        """risk: of a session's second lookup; 0: nothing breaks. outages: the seed of what breaks."""
        super().__init__(shortcut)
        if not 0 <= risk < 1:
            raise ValueError(f"risk must be from 0 to below 1, got {risk}")
        self.risk, self.outages = risk, outages

    async def reset(self, row: Row) -> None:
        await super().reset(row)
        self.lookups = 0

    @tool
    async def lookup(self, key: str) -> int:
        self.lookups += 1
        if not is_held_out(*self.data.keys) and self._breaks():
            raise SessionFailure(f"the code's keeper was away at lookup {self.lookups}", "outage")
        return await super().lookup(key)

    lookup.__doc__ = Codebook.lookup.__doc__  # the policy is offered the same tools

    def _breaks(self) -> bool:
        """Drawn anew for every call: a repeated one may well succeed, as after a real outage."""
        place = f"{self.outages}:{' '.join(self.data.keys)}:{self.seed}", self.lookups
        _drawn[place] += 1
        return Random(f"{place}:{_drawn[place]}").random() < chance(self.risk, self.lookups)
