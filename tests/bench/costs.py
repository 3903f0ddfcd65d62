"""Server CPU per operation of several servers, in rounds: the minimum of each, an echo before and after."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from .fleet import Bench, MakeServer
from .load import Connection, Crowd, Load, MakeFlow, Timing, drive

#: Two echoes of one round that differ by more say that the machine was disturbed: the round is run again.
DRIFT = 1.25
MOST_REPEATS = 2  # of one measurement: a machine that stays busy must not make it endless


@dataclass(frozen=True, slots=True)
class Subject:
    """A server, and a load for it. `echo` marks what the others are compared with."""

    name: str
    server: MakeServer
    connection: type[Connection]
    flow: MakeFlow
    echo: bool = False
    #: Too slow for a larger crowd: measured at the smallest alone.
    slow: bool = False


class Costs:
    """The lowest cost of every subject at every number of sessions."""

    def __init__(self) -> None:
        self.loads: dict[str, dict[str, Load]] = defaultdict(dict)
        self.repeated = 0

    def add(self, name: str, crowd: int, load: Load) -> None:
        best = self.loads[name].get(str(crowd))
        if best is None or load.cpu_ms < best.cpu_ms:
            self.loads[name][str(crowd)] = load

    def of(self, name: str) -> dict[str, float] | None:
        """Milliseconds by number of sessions; None where it was not measured."""
        loads = self.loads.get(name)
        return {crowd: load.cpu_ms for crowd, load in loads.items()} if loads else None

    def rates(self, name: str) -> dict[str, float]:
        return {crowd: load.per_s for crowd, load in self.loads[name].items()}


async def measure(bench: Bench, what: str, subjects: Sequence[Subject]) -> Costs:
    """All subjects at all numbers of sessions. Echoes run first and once more at the end of each round."""
    costs = Costs()
    for crowd in bench.size.crowds:
        for number in range(bench.size.rounds):
            bench.say(f"{what}: {crowd} sessions, round {number + 1} of {bench.size.rounds}")
            drift = await _round(bench, subjects, crowd, costs)
            if drift > DRIFT and costs.repeated < MOST_REPEATS:
                costs.repeated += 1
                await _round(bench, subjects, crowd, costs)
    if costs.repeated:
        bench.say(f"{what}: {costs.repeated} rounds repeated, since their echoes differed by more than 25 %")
    return costs


async def _round(bench: Bench, subjects: Sequence[Subject], crowd: int, costs: Costs) -> float:
    """One round; how far the echoes before and after are apart."""
    echoes = [subject for subject in subjects if subject.echo]
    before = [await _one(bench, echo, crowd, costs) for echo in echoes]
    for subject in subjects:
        if not subject.echo and not (subject.slow and crowd > min(bench.size.crowds)):
            await _one(bench, subject, crowd, costs)
    after = [await _one(bench, echo, crowd, costs) for echo in echoes]
    pairs = [(one, two) for one, two in zip(before, after, strict=True) if one and two]
    return max((max(pair) / min(pair) for pair in pairs), default=1.0)


async def _one(bench: Bench, subject: Subject, crowd: int, costs: Costs) -> float | None:
    server = bench.server(subject.server)
    if server is None:
        return None
    load = await drive(server, Crowd(subject.connection, subject.flow, crowd), Timing(timed_s=bench.size.timed_s))
    costs.add(subject.name, crowd, load)
    return load.cpu_ms
