"""A seeded model of day-ahead electricity prices, for `battery`: one day is 24 whole EUR/MWh.

It has the shape of real days: a morning and an evening peak, a dip at noon that grows with the sun, lower
weekends, windy days that press everything down, negative hours where sun or wind meets little demand, and now
and then a spike. Only + - * / are used, so a seed gives the same day on every machine.
"""

from __future__ import annotations

from random import Random

HOURS = 24

#: Demand over the day, from -1 (the night's valley) to 1 (the evening peak).
WEEKDAY = (-0.7, -0.8, -0.9, -1.0, -0.9, -0.5, 0.2, 0.7, 0.8, 0.5, 0.2, 0.1)
WEEKDAY += (0.0, -0.1, 0.0, 0.1, 0.3, 0.6, 0.9, 1.0, 0.8, 0.4, 0.0, -0.4)
WEEKEND = (-0.5, -0.7, -0.8, -0.9, -0.9, -0.8, -0.6, -0.2, 0.1, 0.3, 0.3, 0.2)
WEEKEND += (0.1, -0.1, -0.2, -0.1, 0.1, 0.5, 0.8, 0.9, 0.7, 0.4, 0.1, -0.3)
#: The sun's output, in hundredths of a clear summer day's noon.
SUN = (0, 0, 0, 0, 0, 2, 8, 20, 38, 60, 80, 94, 100, 98, 88, 70, 48, 26, 10, 3, 0, 0, 0, 0)
#: The parts of the day in which demand is short enough for a spike.
SPIKE_HOURS = (7, 8, 17, 18, 19, 20)


def draw_day(rng: Random) -> tuple[int, ...]:
    """24 hourly prices."""
    weekend = rng.random() < 2 / 7
    level = 55 + 45 * rng.random() - (14 if weekend else 0)
    swing = 12 + 30 * rng.random()
    sun = 90 * rng.random() * rng.random()
    wind = _draw_wind(rng)
    shape = WEEKEND if weekend else WEEKDAY
    spike = _draw_spike(rng)
    prices, noise = [], 0.0
    for hour in range(HOURS):
        noise = 0.6 * noise + _bell(rng) * 7
        price = level + swing * shape[hour] - sun * SUN[hour] / 100 - wind + noise + spike[hour]
        prices.append(round(max(-500.0, min(4000.0, price))))
    return tuple(prices)


def _draw_wind(rng: Random) -> float:
    """EUR/MWh that wind takes off the whole day: little on most days, much on a few."""
    strength = rng.random()
    return 70 * strength * strength * strength


def _draw_spike(rng: Random) -> list[float]:
    spike = [0.0] * HOURS
    if rng.random() < 0.08:
        hour = rng.choice(SPIKE_HOURS)
        height = 80 + 320 * rng.random() * rng.random()
        spike[hour] = height
        spike[hour + 1] = height * 0.5
    return spike


def _bell(rng: Random) -> float:
    """Roughly normal with deviation 1, from sums alone: libm's logarithm differs between machines."""
    return (rng.random() + rng.random() + rng.random() - 1.5) * 2
