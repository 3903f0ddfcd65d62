"""How the doctor gives sessions back to a server that does not take them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gymwire.adapters.doctor import wire
from gymwire.adapters.doctor.gym import GymWire


class Closing:
    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self.seconds, self.error, self.is_closed = seconds, error, False

    async def close(self) -> None:
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.is_closed = True


def wire_with(*episodes: Closing) -> Any:
    made: Any = GymWire.__new__(GymWire)
    made._open = [*episodes]
    return made


async def test_closes_that_hang_cost_a_limit_together_and_no_other_its_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "CLOSING_S", 0.2)
    good = Closing(0.0)
    async with asyncio.timeout(20.0):  # one after the other they would take hours
        await wire_with(*(Closing(3600.0) for _ in range(64)), good).close_all()
    assert good.is_closed


async def test_what_a_close_raises_is_told_once_all_are_closed() -> None:
    good = Closing(0.01)
    with pytest.raises(ValueError, match="broken"):
        await wire_with(Closing(0.0, ValueError("broken")), good).close_all()
    assert good.is_closed
