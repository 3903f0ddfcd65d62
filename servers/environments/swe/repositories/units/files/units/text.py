"""Amounts as texts: 1 m 20 cm."""

import re

from .convert import FACTORS, convert, kind_of

PART = re.compile(r"(-?\d+(?:[.]\d+)?)\s*([a-z]+)")


def add(text, target=None):
    """The sum of all amounts in a text, in `target` or in the unit of the first one."""
    parts = PART.findall(text)
    if not parts:
        raise ValueError("no amount in the text")
    unit = target or parts[0][1]
    return sum(convert(value, source, unit) for value, source in parts)


def pretty(value, unit):
    """A whole amount in as few and as large units as can be, such as 1 h 30 min; zero is 0 and the smallest unit."""
    factors = FACTORS[kind_of(unit)]
    smallest = min(factors, key=factors.get)
    rest = convert(value, unit, smallest)
    if rest.denominator != 1:
        raise ValueError("finer than the smallest unit")
    sign, rest = ("-" if rest < 0 else ""), abs(int(rest))
    shown = []
    for name in sorted(factors, key=factors.get, reverse=True):
        count, rest = divmod(rest, factors[name])
        if count:
            shown.append(f"{count} {name}")
    return sign + " ".join(shown) if shown else f"0 {smallest}"
