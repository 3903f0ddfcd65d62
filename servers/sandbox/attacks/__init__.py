"""Programs that attack the sandbox they run in: what `gymwire sandbox check` and the tests prove every limit with."""

from __future__ import annotations

from . import exhaust, linger, reach, spy
from .attack import Attack, Limit

__all__ = ["ATTACKS", "Attack", "Limit"]

ATTACKS: tuple[Attack, ...] = (*reach.ATTACKS, *exhaust.ATTACKS, *linger.ATTACKS, *spy.ATTACKS)
