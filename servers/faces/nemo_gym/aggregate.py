"""NeMo Gym's `aggregate_metrics` (0.7.0): statistics over verify answers, masked samples left out.

Coverage says how much was measured, so that an outage reads as missing data and never as a mean of zeros.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import fmean, median, quantiles, stdev
from typing import Any

from ...types import Json

_NOT_FIELDS = ("_ng_task_index", "_ng_rollout_index", "mask_sample")
Z_95 = 1.96
#: Larger values, infinite ones and NaN are no measurements: their sums and squares do not fit a float.
MAX_VALUE = 1e100


def aggregate(responses: Sequence[Json]) -> Json:
    """The five keys of `AggregateMetrics`."""
    measured = [item for item in responses if not item.get("mask_sample")]
    coverage = _coverage(responses, measured)
    agent = _agent_metrics(measured) | coverage
    return {
        "group_level_metrics": _groups(responses, measured),
        "agent_metrics": agent,
        "key_metrics": {key: value for key, value in agent.items() if key.startswith("mean/")} | coverage,
        "perf_summary": None,
        "repeat_level_metrics": _repeats(measured),
    }


def _coverage(responses: Sequence[Json], measured: Sequence[Json]) -> Json:
    """Said only when something was masked."""
    if len(measured) == len(responses):
        return {}
    tasks, seen = {_task(item) for item in responses}, {_task(item) for item in measured}
    return {
        "coverage/measured_rollouts": len(measured),
        "coverage/masked_rollouts": len(responses) - len(measured),
        "coverage/measured_tasks": len(seen),
        "coverage/fully_masked_tasks": len(tasks - seen),
    }


def _agent_metrics(measured: Sequence[Json]) -> Json:
    metrics: Json = {}
    for field, values in _fields(measured).items():
        metrics |= {f"{name}/{field}": value for name, value in _statistics(values).items()}
    repeats = _by(measured, _repeat)
    if measured:
        metrics["num_repeats"] = len(repeats)
    if len(repeats) > 1:
        means: dict[str, list[float]] = defaultdict(list)
        for items in repeats.values():
            for field, values in _fields(items).items():
                means[field].append(fmean(values))
        for field, values in means.items():
            spread = _statistics(values) | _interval(values)
            metrics |= {f"{name}_across_repeats/mean/{field}": value for name, value in spread.items()}
    return metrics


def _groups(responses: Sequence[Json], measured: Sequence[Json]) -> list[Json]:
    groups = _by(measured, _task)
    expected = _by(responses, _task)
    rows = []
    for task, items in sorted(expected.items(), key=lambda pair: str(pair[0])):
        counted = groups.get(task, [])
        row: Json = {
            "_ng_task_index": task,
            "num_rollouts": len(counted),
            "expected_num_rollouts": len(items),
            "missing_num_rollouts": len(items) - len(counted),
            "reward_profile_completion_pct": 100.0 * len(counted) / len(items),
        }
        for field, values in _fields(counted).items():
            row |= {f"{name}/{field}": value for name, value in _statistics(values).items()}
        rows.append(row)
    return rows


def _repeats(measured: Sequence[Json]) -> list[Json]:
    rows = []
    for repeat, items in sorted(_by(measured, _repeat).items(), key=lambda pair: str(pair[0])):
        row: Json = {"_ng_rollout_index": repeat, "sample_count": len(items), "missing_count": 0}
        for field, values in _fields(items).items():
            spread = _statistics(values) | _interval(values) | _quartiles(values)
            row |= {f"{'sem' if name == 'se' else name}/{field}": value for name, value in spread.items()}
        rows.append(row)
    return rows


def _fields(items: Iterable[Json]) -> dict[str, list[float]]:
    """Every numeric top-level field, and the tokens of `response.usage`."""
    fields: dict[str, list[float]] = defaultdict(list)
    for item in items:
        usage = (item.get("response") or {}).get("usage") if isinstance(item.get("response"), Mapping) else None
        for source in (item, usage or {}):
            for name, value in source.items():
                if isinstance(value, int | float) and name not in _NOT_FIELDS and abs(value) <= MAX_VALUE:
                    fields[name].append(float(value))
    return fields


def _statistics(values: Sequence[float]) -> dict[str, float]:
    spread = stdev(values) if len(values) > 1 else 0.0
    return {
        "mean": fmean(values),
        "max": max(values),
        "min": min(values),
        "median": median(values),
        "std": spread,
    }


def _interval(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"se": 0.0}
    error, middle = stdev(values) / sqrt(len(values)), fmean(values)
    return {"se": error, "ci_low_95": middle - Z_95 * error, "ci_high_95": middle + Z_95 * error}


def _quartiles(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"p25": values[0], "p75": values[0]}
    low, _, high = quantiles(values, n=4, method="inclusive")
    return {"p25": low, "p75": high}


def _by(items: Iterable[Json], key: Any) -> dict[Any, list[Json]]:
    found: dict[Any, list[Json]] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def _task(item: Json) -> Any:
    value = item.get("_ng_task_index", 0)
    return value if isinstance(value, int | str) else str(value)


def _repeat(item: Json) -> Any:
    value = item.get("_ng_rollout_index", 0)
    return value if isinstance(value, int | str) else str(value)
