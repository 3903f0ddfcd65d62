"""Token buckets."""

from __future__ import annotations

import time

import pytest
from gymwire.servers.answers import Code, Refused
from gymwire.servers.rates import REMEMBERED, Rates


def test_a_burst_is_let_through_and_then_so_many_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    rates = Rates(4)
    for _ in range(4):
        rates.take("a")
    with pytest.raises(Refused) as caught:
        rates.take("a")
    assert caught.value.code is Code.RATE_LIMITED and caught.value.retry_after_s == 1
    rates.take("b")  # another's is its own
    now += 0.25
    rates.take("a")
    assert rates.wait_s("a") == pytest.approx(0.25)
    now += 1_000
    assert [rates.wait_s("a") for _ in range(5)] == [0, 0, 0, 0, 0.25]


def test_askers_beyond_counting_take_no_more_memory() -> None:
    rates = Rates(1)
    for number in range(REMEMBERED + 10):
        rates.wait_s(str(number))
    assert len(rates._buckets) == REMEMBERED
