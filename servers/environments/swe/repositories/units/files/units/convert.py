"""Factors are whole numbers of the kind's smallest unit, so that nothing is lost on the way."""

from fractions import Fraction

FACTORS = {
    "length": {"mm": 1, "cm": 10, "dm": 100, "m": 1000, "km": 1_000_000},
    "weight": {"mg": 1, "g": 1000, "kg": 1_000_000, "t": 1_000_000_000},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86_400},
}


class UnknownUnit(ValueError):
    pass


def kind_of(unit):
    for kind, factors in FACTORS.items():
        if unit in factors:
            return kind
    raise UnknownUnit(unit)


def convert(value, source, target):
    """The value in another unit, as an exact fraction; raises UnknownUnit, or ValueError for different kinds."""
    kind = kind_of(source)
    if kind_of(target) != kind:
        raise ValueError(f"{source} and {target} measure different things")
    return Fraction(value) * FACTORS[kind][source] / FACTORS[kind][target]
