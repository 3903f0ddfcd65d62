"""Ranges: "^1.2.3" stays below 2.0.0 (and "^0.2.3" below 0.3.0), "~1.2.3" below 1.3.0, ">=1.2.0 <1.5.0" is both."""

from functools import cmp_to_key

from .number import compare, parse

OPERATORS = {
    ">=": lambda order: order >= 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    "<": lambda order: order < 0,
    "=": lambda order: order == 0,
}


def fits(version, wanted):
    """Whether a version lies in a range; a trial version never does, unless the range names exactly it."""
    if parse(version)[1]:
        return wanted.strip().lstrip("=") == version
    return all(_fits_one(version, part) for part in wanted.split())


def _fits_one(version, part):
    if part == "*":
        return True
    if part[0] in "^~":
        (major, minor, _), _ = parse(part[1:])
        if part[0] == "^" and major > 0:
            above = f"{major + 1}.0.0"
        else:
            above = f"{major}.{minor + 1}.0"
        return compare(version, part[1:]) >= 0 and compare(version, above) < 0
    for sign, holds in OPERATORS.items():
        if part.startswith(sign):
            return holds(compare(version, part[len(sign) :]))
    return compare(version, part) == 0


def choose(versions, wanted):
    """The highest version that fits, or None."""
    fitting = [version for version in versions if fits(version, wanted)]
    return max(fitting, key=cmp_to_key(compare), default=None)
