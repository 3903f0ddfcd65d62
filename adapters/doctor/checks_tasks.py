"""Checks of what an episode is given and gives: tasks that repeat, sessions that do not meet, load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

from .examples import marker
from .findings import Broken, Exchange, NotApplicable
from .patient import Patient, Trace, differing, parting
from .wire import Episode, Kind, SeedRefused

#: The share of the time that may go into playing alone what was played at once.
ALONE_SHARE = 0.15
CALLS_EACH = 5


async def same_task(at: Patient) -> str:
    for task in at.tasks[:3]:
        one = await at.seed(task)
        await one.close()
        other = await at.seed(task)
        await other.close()
        if (mine := _task_of(one)) != (theirs := _task_of(other)):
            which = next(key for key in mine if mine[key] != theirs[key])
            raise Broken(f"the same row and seed gave another {which}", one.first.exchange, other.first.exchange)
    return f"{len(at.tasks[:3])} tasks, seeded twice, were the same"


def _task_of(episode: Episode) -> dict[str, Any]:
    tools = [(tool.name, tool.description, tool.parameters) for tool in episode.tools]
    return {"prompt": list(episode.prompt), "list of tools": tools}


async def repeatable(at: Patient) -> str:
    assert at.survey.twice is not None
    one, other = at.survey.twice
    if (one.answers, one.verdict) != (other.answers, other.verdict):
        raise Broken(f"equal calls of one task: {differing(one, other)}", *parting(one, other))
    return f"{len(one.answers)} equal calls, and the verdict, were answered alike"


async def admitted(at: Patient, count: int) -> list[Episode]:
    """As many sessions at once as the server takes, up to `count`; what is refused for want of a place is left."""

    async def one(_: int) -> Episode | None:
        try:
            return await at.wire.seed(at.task)
        except SeedRefused as refused:
            if refused.said.kind is Kind.FULL:
                return None
            raise Broken("a seed was refused where none should be", refused.said.exchange) from None

    return [episode for episode in await at.at_once(count, one) if episode is not None]


async def isolated(at: Patient) -> str:
    """All at once, then (some of) them alone: an episode that met another goes differently."""
    episodes = await admitted(at, sessions_of(at))
    if len(episodes) < 2:
        raise NotApplicable("the server takes one session at a time")
    traces = await at.at_once(len(episodes), lambda number: at.play(episodes[number], salt=number + 1))
    for number, trace in enumerate(traces):
        _no_others(at, number + 1, trace, len(traces))
    await asyncio.gather(*(episode.close() for episode in episodes))
    compared = await _compare_alone(at, traces)
    return f"{len(traces)} sessions at once; {compared} of them went exactly as they do alone"


def sessions_of(at: Patient) -> int:
    """At most so many that a server of ours does not queue."""
    most = at.wire.place.limits.get("max_sessions")
    return min(at.options.sessions, most) if isinstance(most, int) else at.options.sessions


def _no_others(at: Patient, salt: int, trace: Trace, count: int) -> None:
    for place, (name, kind, text, _) in enumerate(trace.answers):
        if kind in (Kind.REFUSED, Kind.BROKEN):
            raise Broken(f"{name} was {kind} in a session that had just begun", trace.evidence[place])
        for other in range(1, count + 1):
            if other != salt and marker(other, at.nonce) in text:
                raise Broken(f"{name} showed one session the value of another", trace.evidence[place])


async def _compare_alone(at: Patient, traces: Sequence[Trace]) -> int:
    until = monotonic() + max(ALONE_SHARE * at.options.seconds, 2.0)
    for number, trace in enumerate(traces):
        if number >= 2 and monotonic() > until:
            return number
        await at.went_as_alone(trace, number + 1, "an episode beside others went differently than alone")
    return len(traces)


async def latency(at: Patient) -> str:
    if not at.survey.script:
        raise NotApplicable("there is no quick tool to call")
    name = at.survey.script[0]
    alone = await _timed(at, name, await at.seed(), 0)
    limit_s = max(at.options.max_p95_s, 10 * percentile([seconds for seconds, _ in alone], 0.5))
    episodes = await admitted(at, sessions_of(at))
    if not episodes:
        raise NotApplicable("the server is full")
    rounds = await at.at_once(len(episodes), lambda number: _timed(at, name, episodes[number], number))
    measured = sorted((sample for samples in rounds for sample in samples), key=lambda sample: sample[0])
    seconds = [sample[0] for sample in measured]
    p50, p95 = percentile(seconds, 0.5), percentile(seconds, 0.95)
    said = f"{name} from {len(episodes)} sessions at once: p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms"
    if p95 > limit_s:
        raise Broken(f"{said}; more than {limit_s * 1e3:.0f} ms", measured[-1][1])
    return said


async def _timed(at: Patient, name: str, episode: Episode, salt: int) -> list[tuple[float, Exchange]]:
    samples = []
    for _ in range(CALLS_EACH):
        said = await episode.call(name, at.arguments(name, salt))
        samples.append((said.seconds, said.exchange))
        if said.kind in (Kind.BROKEN, Kind.FULL):
            raise Broken(f"{name} broke under load", said.exchange)
    await episode.close()
    return samples


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
