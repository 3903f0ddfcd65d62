"""Means, their standard errors, pass@k and paired differences. Plain arithmetic on rewards grouped by row.

Masked episodes have no reward and are not in here: they are counted elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, frexp, fsum, ldexp, sqrt

#: A normal interval of 95 %.
Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean with its standard error; None where there are too few values for one."""

    mean: float | None
    standard_error: float | None
    values: int
    clusters: int


def mean_of(values: Sequence[float]) -> float | None:
    """None where there are no values."""
    power = _power(values)
    return ldexp(fsum(ldexp(value, -power) for value in values) / len(values), power) if values else None


def _power(values: Sequence[float]) -> int:
    """Of the power of two below which all of them are: divided by it, which is exact, no sum or square is too large."""
    return frexp(max(map(abs, values), default=0.0))[1]


def clustered_mean(rewards: Sequence[Sequence[float]]) -> Mean:
    """The mean of all values, and its standard error clustered by row.

    Samples of one row are not independent, so the deviations of a row are summed before they are squared: equation 4
    of Miller, "Adding Error Bars to Evals" (arXiv:2411.00640), times G/(G-1) for G rows. With one value a row that is
    the usual standard deviation (n - 1) over the root of n.
    """
    values = [value for row in rewards for value in row]
    count, clusters, power = len(values), sum(map(bool, rewards)), _power(values)
    mean = mean_of(values)
    if mean is None or clusters < 2:
        return Mean(mean, None, count, clusters)
    squares = fsum(fsum(ldexp(value, -power) - ldexp(mean, -power) for value in row) ** 2 for row in rewards if row)
    return Mean(mean, ldexp(sqrt(squares * clusters / (clusters - 1)) / count, power), count, clusters)


@dataclass(frozen=True, slots=True)
class Passed:
    """An estimate over the rows that have at least k scored repeats."""

    k: int
    at: float | None
    all: float | None
    rows: int


def passed(rewards: Sequence[Sequence[float]], k: int, solved: float) -> Passed:
    """pass@k and pass^k: the chance that at least one of k attempts, or all of them, reach the reward `solved`.

    The unbiased estimators, from c successes in n attempts of a row: 1 - C(n-c, k) / C(n, k) (Chen et al., "Evaluating
    Large Language Models Trained on Code", arXiv:2107.03374) and C(c, k) / C(n, k) (Yao et al., "tau-bench",
    arXiv:2406.12045); the mean over rows.
    """
    counted = [(len(row), sum(value >= solved for value in row)) for row in rewards if len(row) >= k]
    if not counted:
        return Passed(k, None, None, 0)
    at = fsum(1 - comb(n - c, k) / comb(n, k) for n, c in counted) / len(counted)
    every = fsum(comb(c, k) / comb(n, k) for n, c in counted) / len(counted)
    return Passed(k, at, every, len(counted))


def steps_of(repeats: int) -> list[int]:
    """The k of pass@k that are shown: powers of two, and the number of repeats itself."""
    powers = [2**power for power in range(repeats.bit_length()) if 2**power < repeats]
    return [*powers, repeats]


@dataclass(frozen=True, slots=True)
class Paired:
    """Two runs on the rows they share; a difference is the second run's mean on a row minus the first's."""

    rows: int
    first: float | None
    second: float | None
    difference: float | None
    standard_error: float | None
    low: float | None
    high: float | None
    wins: int
    losses: int
    ties: int
    sign_p: float | None


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired:
    """Compare means by row. The interval is the normal one of 95 %; `sign_p` is the exact two-sided sign test's."""
    shared = sorted(first.keys() & second.keys())
    if not shared:
        return Paired(0, None, None, None, None, None, None, 0, 0, 0, None)
    differences = [second[row] - first[row] for row in shared]
    found = clustered_mean([[difference] for difference in differences])
    mean, error = found.mean, found.standard_error
    assert mean is not None
    wins, losses = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    low, high = (None, None) if error is None else (mean - Z * error, mean + Z * error)
    before, after = (mean_of([run[row] for row in shared]) for run in (first, second))
    ties = len(shared) - wins - losses
    return Paired(len(shared), before, after, mean, error, low, high, wins, losses, ties, sign_test(wins, losses))


def sign_test(wins: int, losses: int) -> float | None:
    """How often two equal runs would differ in so many rows or more; None where they differ in none."""
    total, fewer = wins + losses, min(wins, losses)
    if not total:
        return None
    below = sum(comb(total, count) for count in range(fewer + 1))
    return min(1.0, 2 * below / 2**total)
