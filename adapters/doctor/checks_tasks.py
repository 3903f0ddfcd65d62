"""Checks of what an episode is given and gives: tasks that repeat, sessions that do not meet, load."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Any

from ...servers.wording import counted
from .examples import marker
from .findings import Broken, NotApplicable
from .patient import Patient, Trace, differing, parting
from .wire import Episode, Kind, Said, SeedRefused

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
    return f"{counted(len(at.tasks[:3]), 'task')}, seeded twice, were the same"


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
    return f"{counted(len(traces), 'session')} at once; {compared} of them went exactly as they do alone"


def sessions_of(at: Patient) -> int:
    """At most so many that a server of ours does not queue."""
    most = at.wire.place.limits.get("max_sessions")
    return min(at.options.sessions, most) if isinstance(most, int) else at.options.sessions


def _no_others(at: Patient, salt: int, trace: Trace, count: int) -> None:
    for place, (name, kind, text, _) in enumerate(trace.answers):
        if kind in (Kind.REFUSED, Kind.FULL, Kind.BROKEN):
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
    if rate := at.wire.place.limits.get("rate_limit"):
        raise NotApplicable(
            f"the server makes a client wait that asks more than {rate:g} times a second: examine a copy"
        )
    name, alone = await _served(at)
    limit_s = max(at.options.max_p95_s, 10 * percentile([said.seconds for said in alone], 0.5))
    episodes = await admitted(at, sessions_of(at))
    if not episodes:
        raise NotApplicable("the server is full")
    rounds = await at.at_once(len(episodes), lambda number: _timed(at, name, episodes[number], len(alone)))
    measured = sorted((said for samples in rounds for said in samples), key=lambda said: said.seconds)
    seconds = [said.seconds for said in measured]
    p50, p95 = percentile(seconds, 0.5), percentile(seconds, 0.95)
    said = f"{name} from {counted(len(episodes), 'session')} at once: p50 {p50 * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms"
    if p95 > limit_s:
        raise Broken(f"{said}; more than {limit_s * 1e3:.0f} ms", measured[-1].exchange)
    return said


async def _served(at: Patient) -> tuple[str, list[Said]]:
    """A tool that answers with a result from the beginning, and its results in an episode alone."""
    for name in dict.fromkeys(at.survey.script):
        if results := await _timed(at, name, await at.seed(), 0):
            return name, results
    raise NotApplicable("no quick tool answers with a result at once: name a call that does with --call")


async def _timed(at: Patient, name: str, episode: Episode, due: int) -> list[Said]:
    """The results of the same call, again and again; so many are due, since an episode alone had them."""
    results = []
    for place in range(CALLS_EACH):
        said = await episode.call(name, at.arguments(name, 0))
        if said.kind is Kind.OK:
            results.append(said)
        elif said.kind in (Kind.BROKEN, Kind.FULL) or place < due:
            raise Broken(f"{name} broke under load", said.exchange)
        if said.done or said.kind is not Kind.OK:
            break
    await episode.close()
    return results


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
