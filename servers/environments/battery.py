"""Battery: one storage unit, one day in the day-ahead market, 24 known prices, one plan.

The last feasible plan counts. Its reward lies on a line through fixed points of that day:

    0     no feasible plan was handed in
    0.1   the day's worst feasible plan
    0.2   a plan that earns nothing, such as holding all day
    1     the day's optimum, found by a dynamic programme over whole MWh

so every feasible plan beats having none, and every plan that loses money is below holding. On a day whose
optimum is to earn nothing, a plan that earns nothing scores 1. Money is counted in whole cents, so that the
optimum scores exactly 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from random import Random
from typing import Annotated, NamedTuple

from pydantic import BaseModel, Field

from ..environment import Environment, ToolError, tool
from ..policies import Call, Script
from ..rows import draw_rows
from ..types import Row, Transcript
from .market import HOURS, draw_day

SIZES = {"train": 2048, "eval": 256}
HOLDING = 0.2
WORST = 0.1

Plan = tuple[int, ...]


class Unit(NamedTuple):
    """What the storage unit can do."""

    power: int  # MWh that an hour can move
    capacity: int  # MWh
    efficiency: int  # percent of the discharged energy that is sold

    def cents(self, move: int, price: int) -> int:
        """Cents earned by one hour of a plan; negative is spent. A positive move charges."""
        return -100 * move * price if move > 0 else -self.efficiency * move * price


def problem_of(unit: Unit, plan: Sequence[int]) -> str:
    """Why a plan is not feasible, with the first hour that breaks a rule; empty when it is."""
    stored = 0
    for hour, move in enumerate(plan):
        if abs(move) > unit.power:
            return f"hour {hour}: at most {unit.power} MWh can be moved in an hour"
        if stored + move > unit.capacity:
            return f"hour {hour}: {stored} MWh are stored, charging {move} more exceeds {unit.capacity} MWh"
        if stored + move < 0:
            return f"hour {hour}: {stored} MWh are stored, {-move} cannot be discharged"
        stored += move
    return ""


def earned_cents(unit: Unit, prices: Sequence[int], plan: Sequence[int]) -> int:
    return sum(unit.cents(move, price) for move, price in zip(plan, prices, strict=True))


@lru_cache(maxsize=4096)
def bounds_cents(unit: Unit, prices: tuple[int, ...]) -> tuple[int, int]:
    """What the day's worst and its best feasible plan earn."""
    return -_values(unit, prices, sign=-1)[0][0], _values(unit, prices, sign=1)[0][0]


def best_plan(unit: Unit, prices: Sequence[int]) -> Plan:
    values, stored, plan = _values(unit, prices, sign=1), 0, []
    for hour, price in enumerate(prices):
        rest = values[hour + 1]
        totals = {move: unit.cents(move, price) + rest[stored + move] for move in _moves(unit, stored)}
        move = max(totals, key=totals.__getitem__)
        plan.append(move)
        stored += move
    return tuple(plan)


def _values(unit: Unit, prices: Sequence[int], sign: int) -> list[list[int]]:
    """values[hour][stored]: the most that can still be earned (sign 1) or lost (sign -1), in cents."""
    values = [[0] * (unit.capacity + 1)]
    for price in reversed(prices):
        rest = values[-1]
        gain = {move: sign * unit.cents(move, price) for move in range(-unit.power, unit.power + 1)}
        values.append(
            [max(gain[m] + rest[stored + m] for m in _moves(unit, stored)) for stored in range(unit.capacity + 1)]
        )
    return values[::-1]


def _moves(unit: Unit, stored: int) -> range:
    return range(-min(unit.power, stored), min(unit.power, unit.capacity - stored) + 1)


def score(unit: Unit, prices: tuple[int, ...], plan: Plan | None) -> dict[str, float]:
    """The reward's parts: `feasible` for having a plan, `profit` for what it earns."""
    if plan is None:
        return {"feasible": 0.0, "profit": 0.0}
    earned = earned_cents(unit, prices, plan)
    worst, best = bounds_cents(unit, prices)
    if earned < 0:
        return {"feasible": HOLDING, "profit": (WORST - HOLDING) * (earned / worst)}
    return {"feasible": HOLDING, "profit": (1 - HOLDING) * (earned / best if best else 1.0)}


def draw(rng: Random, index: int) -> Row:
    prices = draw_day(rng)
    power = rng.randint(1, 5)
    capacity = rng.randint(power, 4 * power)
    unit = Unit(power, capacity, rng.choice((80, 85, 90, 95)))
    return Row.of(_prompt(unit, prices), prices=list(prices), **unit._asdict())


def _prompt(unit: Unit, prices: Sequence[int]) -> str:
    table = " ".join(f"{hour}:{price}" for hour, price in enumerate(prices))
    return (
        f"Plan one day of a battery. It moves at most {unit.power} MWh an hour, stores at most {unit.capacity} "
        "MWh and starts empty. Charging buys at the hour's price; of the energy discharged "
        f"{unit.efficiency}% is sold at the hour's price. Energy left at the end is worth nothing. "
        "Earn as much as possible: hand in 24 whole numbers of MWh, positive to charge, negative to discharge, "
        "0 to hold.\n"
        f"Prices in EUR/MWh by hour: {table}"
    )


def read_prompt(row: Row) -> tuple[Unit, tuple[int, ...]]:
    """The unit and the prices, as any reader of the prompt can know them."""
    about, table = row.prompt[-1]["content"].split("Prices in EUR/MWh by hour: ")
    power, capacity, efficiency = (int(number) for number in re.findall(r"(\d+) ?(?:MWh (?:an|and)|%)", about))
    return Unit(power, capacity, efficiency), tuple(int(item.split(":")[1]) for item in table.split())


def random(row: Row, rng: Random) -> Script:
    """Hands in up to three plans at random, holding in most hours."""
    unit, _ = read_prompt(row)
    for _ in range(3):
        moves = [rng.randint(-unit.power, unit.power) if rng.random() < 0.3 else 0 for _ in range(HOURS)]
        result = yield Call("submit_plan", {"mwh": moves})
        if not result.is_error:
            break
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Fills up once in the cheapest hours before 16, sells in the dearest ones after; holds if that loses."""
    unit, prices = read_prompt(row)
    hours = unit.capacity // unit.power
    buy = sorted(range(16), key=lambda hour: prices[hour])[:hours]
    later = range(max(buy) + 1, HOURS)
    sell = sorted(later, key=lambda hour: -prices[hour])[:hours]
    moves = [unit.power if hour in buy else -unit.power if hour in sell else 0 for hour in range(HOURS)]
    if earned_cents(unit, prices, moves) < 0:
        moves = [0] * HOURS
    yield Call("submit_plan", {"mwh": moves})
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    unit = Unit(row.data["power"], row.data["capacity"], row.data["efficiency"])
    yield Call("submit_plan", {"mwh": list(best_plan(unit, row.data["prices"]))})
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Battery(Environment):
    """Trade one day of a battery in the day-ahead market, as close to the optimum as possible."""

    splits = tuple(SIZES)
    max_turns = 4
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        prices: Annotated[list[Annotated[int, Field(ge=-10_000, le=10_000)]], Field(min_length=24, max_length=24)]
        power: Annotated[int, Field(ge=1, le=50)]  # the programme's work grows with power times capacity
        capacity: Annotated[int, Field(ge=1, le=200)]
        efficiency: Annotated[int, Field(ge=1, le=100)]

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.set_state(None)

    @tool
    async def submit_plan(self, mwh: Annotated[list[int], Field(min_length=HOURS, max_length=HOURS)]) -> str:
        """Hand in the day's plan. A later feasible plan replaces an earlier one.

        Args:
            mwh: 24 whole numbers, one an hour: positive charges, negative discharges, 0 holds.
        """
        if problem := problem_of(self.unit, mwh):
            raise ToolError(f"The plan is not feasible. {problem[0].upper()}{problem[1:]}. It was not taken.")
        self.plan = tuple(mwh)
        return f"The plan is taken. It earns {earned_cents(self.unit, self.prices, mwh) / 100:.2f} EUR."

    def get_state(self) -> Plan | None:
        return self.plan

    def set_state(self, state: Sequence[int] | None) -> None:
        self.unit = Unit(self.data.power, self.data.capacity, self.data.efficiency)
        self.prices: tuple[int, ...] = tuple(self.data.prices)
        self.plan: Plan | None = None if state is None else tuple(state)

    def verify(self, transcript: Transcript) -> dict[str, float]:
        return score(self.unit, self.prices, self.plan)
