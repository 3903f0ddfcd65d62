"""An environment whose tool waits, as one does that asks another service, and whose sessions can move."""

from __future__ import annotations

import time

from gymwire.servers import Environment, Transcript, tool

WAIT_S = 0.05


class Waiting(Environment):
    """Adds up, slowly."""

    name = "counter"
    replayable = True
    total = 0

    @tool
    def add(self, n: int) -> str:
        """Add a number, after a wait."""
        time.sleep(WAIT_S)
        self.total += n
        return "added"

    def verify(self, transcript: Transcript) -> float:
        return float(self.total)

    def get_state(self) -> int:
        return self.total

    def set_state(self, state: int) -> None:
        self.total = state
