"""What a run came to, from its results alone: the same figures for the terminal, `summary.json` and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isfinite, nan
from typing import Any

from ...servers.failures import one_line
from ...servers.types import Ending, Json
from .results import Result
from .statistics import Mean, clustered_mean, mean_of, passed, steps_of

TOKENS = ("prompt", "completion", "reasoning")


def summary_of(results: Iterable[Result], *, planned: int, repeats: int, solved: float, wall_s: float) -> Json:
    """Every figure of a run. `planned`: how many episodes were asked for."""
    played = sorted(results, key=lambda result: result.key)
    scored = [result for result in played if not result.failed]
    failed = [result for result in played if result.failed]
    rewards = by_row(scored)
    return {
        "episodes": {"planned": planned, "played": len(played), "scored": len(scored), "masked": len(failed)},
        "reward": _mean(clustered_mean(rewards)),
        "solved_from": solved,
        "pass": [asdict(passed(rewards, k, solved)) for k in steps_of(repeats)],
        "components": _components(scored),
        "endings": {ending.value: sum(result.ending == ending for result in played) for ending in Ending},
        "cut_by": dict(Counter(result.cut_by for result in scored if result.cut_by)),
        "masked_by": dict(Counter(_kind(result) for result in failed).most_common()),
        "masked_because": _reasons(failed),
        "masked_share": len(failed) / len(played) if played else 0.0,
        "turns": mean_of([result.turns for result in scored]),
        "calls": mean_of([result.calls for result in scored]),
        "tool_errors": sum(result.tool_errors for result in scored),
        "refused": sum(result.refused for result in scored),
        "calls_as_text": sum(result.calls_as_text for result in scored),
        "tokens": _tokens(played),
        "seconds": _seconds(played, wall_s),
        "groups": _groups(played),
    }


def by_row(results: Sequence[Result]) -> list[list[float]]:
    """The rewards of each row."""
    found: dict[int, list[float]] = {}
    for result in results:
        if result.reward is not None:
            found.setdefault(result.row, []).append(result.reward)
    return list(found.values())


def _mean(found: Mean) -> Json:
    return {
        "mean": found.mean,
        "standard_error": found.standard_error,
        "episodes": found.values,
        "rows": found.clusters,
    }


def _components(scored: Sequence[Result]) -> dict[str, float]:
    """The mean of each part of the reward; an episode without it counts as 0."""
    names = {name: None for result in scored for name in result.components}
    return {name: mean_of([result.components.get(name, 0.0) for result in scored]) or 0.0 for name in names}


def _kind(result: Result) -> str:
    failure = result.failure or {}
    return f"{failure.get('kind', 'unknown')} at {failure.get('stage', 'unknown')}"


def _reasons(failed: Sequence[Result]) -> dict[str, str]:
    """Of each kind the reason that was given most."""
    reasons: dict[str, Counter[str]] = {}
    for result in failed:
        said = str((result.failure or {}).get("reason", ""))
        reasons.setdefault(_kind(result), Counter())[one_line(said)] += 1
    return {kind: counts.most_common(1)[0][0] for kind, counts in reasons.items()}


def _tokens(played: Sequence[Result]) -> dict[str, Any]:
    """Sums as the endpoint told them, and of how many episodes it told nothing."""
    sums: dict[str, Any] = {}
    for name in TOKENS:
        told = [count for result in played if (count := result.tokens.get(name)) is not None]
        sums[name] = sum(told) if told else None
    sums["untold"] = sum(result.tokens.get("completion") is None for result in played)
    return sums


def _seconds(played: Sequence[Result], wall_s: float) -> Json:
    return {
        "episode_mean": mean_of([result.seconds for result in played]),
        "model_mean": mean_of([result.model_s for result in played]),
        "wall": round(wall_s, 3),
    }


def _groups(played: Sequence[Result]) -> dict[str, Json]:
    """The reward of each group of rows, by the value of the column that was named."""
    groups: dict[str, list[Result]] = {}
    for result in played:
        if result.group is not None:
            groups.setdefault(result.group, []).append(result)
    ordered = sorted(groups.items(), key=lambda item: _place(item[0]))
    return {name: _mean(clustered_mean(by_row(part))) | _masked(part) for name, part in ordered}


def _place(name: str) -> tuple[bool, float, str]:
    """Numbers by their size, before all that are none."""
    try:
        number = float(name)
    except ValueError:
        number = nan
    return (False, number, name) if isfinite(number) else (True, 0.0, name)


def _masked(part: Sequence[Result]) -> Json:
    return {"masked": sum(result.failed for result in part)}
