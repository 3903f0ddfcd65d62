"""The soak's verdict, on figures that are made up: a leak is found, what merely fills or wavers is not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.soak.servers import Holding
from tests.soak.verdict import BYTES_PER_EPISODE, MEMORY_MB, growth, lines, slope

START = Holding(0.0, 0, 100.0, 20, 8, 2, 2, 0, 0, 0)
EPISODES_PER_S = 20


def loaded(mb_per_s: float, *, fills_mb: float = 0.0, noise_mb: float = 0.0) -> list[Holding]:
    rng = Random(1)
    return [
        replace(
            START,
            at=float(second),
            episodes=EPISODES_PER_S * second,
            memory_mb=100 + mb_per_s * second + fills_mb * min(second / 300, 1) + rng.uniform(0, noise_mb),
        )
        for second in range(0, 1200, 10)
    ]


def held(table: object) -> dict[str, bool]:
    return {line.what: line.held for line in table}  # type: ignore[attr-defined]


def test_a_leak_of_a_few_kilobytes_an_episode_is_found() -> None:
    leak = 4 * BYTES_PER_EPISODE * EPISODES_PER_S / 2**20
    assert not growth(loaded(leak, noise_mb=5)).held


def test_memory_that_fills_at_first_and_then_wavers_is_none() -> None:
    assert growth(loaded(0, fills_mb=50, noise_mb=10)).held


def test_one_high_sample_is_no_trend() -> None:
    during = loaded(0)
    during[-1] = replace(during[-1], memory_mb=500.0)
    assert growth(during).held
    assert slope([*((float(x), float(x)) for x in range(9)), (9.0, 900.0)]) == 1.0


def test_what_is_left_over_is_named() -> None:
    left = replace(START, at=1300.0, taken=1, keys=3, containers=3, files=99, memory_mb=100.0 + MEMORY_MB / 2)
    said = held(lines(START, loaded(0), left))
    wrong = {what for what, fine in said.items() if not fine}
    assert wrong == {"taken slots", "keys", "containers", "files"}


def test_memory_that_does_not_come_back_is_named() -> None:
    during = loaded(0)
    left = replace(START, episodes=during[-1].episodes, memory_mb=200.0)
    assert not held(lines(START, during, left))["memory, MB"]
