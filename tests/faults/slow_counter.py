"""A counter whose calls take long enough for a replica to be lost, or held up, in the middle of them."""

from __future__ import annotations

import asyncio

from gymwire.servers import tool
from gymwire.servers.environments.counter import Counter

CALL_S = 0.25


class SlowCounter(Counter):
    """Bring a hidden counter to exactly the target, slowly."""

    @tool
    async def add(self, n: int) -> str:
        """Add n to the counter.

        Args:
            n: A whole number from -10 to 10.
        """
        before = self.value
        await asyncio.sleep(CALL_S)
        self.value = before + n
        return "added"
