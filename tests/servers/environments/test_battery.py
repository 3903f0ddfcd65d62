from __future__ import annotations

from itertools import product
from statistics import mean
from typing import Any

import pytest
from gymwire.servers import Row
from gymwire.servers.environments.battery import (
    Battery,
    Unit,
    best_plan,
    bounds_cents,
    earned_cents,
    problem_of,
    read_prompt,
    score,
)

HOLD = [0] * 24
PRICES = [10] * 12 + [60] * 12
ROW = Row.of("", prices=PRICES, power=2, capacity=4, efficiency=100)
UNIT = Unit(2, 4, 90)
BEST = [2, 2] + [0] * 10 + [-2, -2] + [0] * 10
WORST = [0] * 20 + [2, 2, 0, 0]


async def test_the_anchors(Episode: Any) -> None:
    episode = Episode(Battery, ROW)
    assert await episode.reward() == 0.0
    await episode.call("submit_plan", mwh=WORST)
    assert await episode.reward() == pytest.approx(0.1)
    await episode.call("submit_plan", mwh=HOLD)
    assert await episode.reward() == 0.2
    await episode.call("submit_plan", mwh=BEST)
    assert await episode.reward() == 1.0


async def test_between_the_anchors_the_reward_is_a_line(Episode: Any) -> None:
    episode = Episode(Battery, ROW)
    half = [2] + [0] * 11 + [-2] + [0] * 11
    assert (await episode.call("submit_plan", mwh=half)).text == "The plan is taken. It earns 100.00 EUR."
    assert await episode.parts() == {"feasible": 0.2, "profit": pytest.approx(0.4)}
    await episode.call("submit_plan", mwh=[0] * 23 + [2])
    assert await episode.parts() == {"feasible": 0.2, "profit": pytest.approx(-0.05)}


async def test_the_last_feasible_plan_counts(Episode: Any) -> None:
    episode = Episode(Battery, ROW)
    await episode.call("submit_plan", mwh=BEST)
    assert (await episode.call("submit_plan", mwh=[-1, *HOLD[1:]])).is_error
    assert await episode.reward() == 1.0
    await episode.call("submit_plan", mwh=HOLD)
    assert await episode.reward() == 0.2


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        ([0, -1], "Hour 1: 0 MWh are stored, 1 cannot be discharged"),
        ([2, 2, 1], "Hour 2: 4 MWh are stored, charging 1 more exceeds 4 MWh"),
        ([0, 0, 3], "Hour 2: at most 2 MWh can be moved in an hour"),
        ([-(10**30)], "Hour 0: at most 2 MWh can be moved in an hour"),
    ],
)
async def test_an_infeasible_plan_is_told_the_hour_and_why(Episode: Any, start: list[int], problem: str) -> None:
    episode = Episode(Battery, ROW)
    result = await episode.call("submit_plan", mwh=start + [0] * (24 - len(start)))
    assert result.is_error
    assert result.text == f"The plan is not feasible. {problem}. It was not taken."
    assert await episode.reward() == 0.0


@pytest.mark.parametrize(
    "plan",
    [[], HOLD[1:], [*HOLD, 0], [0.0, *HOLD[1:]], [True, *HOLD[1:]], ["0", *HOLD[1:]], [None, *HOLD[1:]], "0" * 24, {}],
)
async def test_a_plan_is_exactly_24_whole_numbers(Episode: Any, plan: Any) -> None:
    episode = Episode(Battery, ROW)
    assert (await episode.call("submit_plan", mwh=plan)).is_error
    assert await episode.reward() == 0.0


def test_on_a_day_without_a_spread_holding_is_the_optimum() -> None:
    prices = (50,) * 24
    assert score(UNIT, prices, tuple(HOLD)) == {"feasible": 0.2, "profit": 0.8}
    losing = score(UNIT, prices, (1, -1, *HOLD[2:]))
    assert 0.1 < sum(losing.values()) < 0.2
    assert best_plan(UNIT, prices) == tuple(HOLD)


def test_the_programme_finds_what_trying_every_plan_finds() -> None:
    unit = Unit(1, 2, 85)
    for prices in [(30, -20, 55, 10, 90, -5), (5, 5, 5, 5, 5, 5), (-9, -3, -8, -1, -7, -2), (90, 60, 40, 20, 9, 1)]:
        earned = [
            earned_cents(unit, prices, plan)
            for plan in product((-1, 0, 1), repeat=len(prices))
            if not problem_of(unit, plan)
        ]
        assert bounds_cents(unit, prices) == (min(earned), max(earned))
        assert earned_cents(unit, prices, best_plan(unit, prices)) == max(earned)


def test_every_score_lies_between_0_and_1_and_grows_with_what_is_earned() -> None:
    unit = Unit(1, 2, 85)
    prices = (30, -20, 55, 10, 90, -5)
    plans = [plan for plan in product((-1, 0, 1), repeat=6) if not problem_of(unit, plan)]
    plans.sort(key=lambda plan: earned_cents(unit, prices, plan))
    scores = [sum(score(unit, prices, plan).values()) for plan in plans]
    assert scores == sorted(scores)
    assert scores[0] == pytest.approx(0.1)
    assert scores[-1] == 1.0


def test_the_prompt_says_all_there_is_to_know() -> None:
    for row in Battery.rows("eval", 50, 0):
        unit, prices = read_prompt(row)
        assert {"prices": list(prices), **unit._asdict()} == row.data


def test_the_optimum_is_written_nowhere() -> None:
    for row in Battery.rows("eval", 50, 0):
        assert set(row.data) == {"prices", "power", "capacity", "efficiency"}


def test_days_have_two_peaks_a_dip_negative_hours_and_spikes() -> None:
    days = [row.data["prices"] for row in Battery.rows("train", None, 0)]
    average = [mean(day[hour] for day in days) for hour in range(24)]
    assert average[3] < average[8] > average[13] < average[19] > average[23]
    assert average[19] > average[8]
    assert 0.1 < mean(min(day) < 0 for day in days) < 0.4
    assert 0.02 < mean(max(day) > 180 for day in days) < 0.1
    assert all(type(price) is int for day in days for price in day)
