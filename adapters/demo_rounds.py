"""The demo's rounds: 64 episodes at once of one environment, by one scripted policy, over one wire."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice, pairwise
from math import fsum
from random import Random
from time import perf_counter

from ..servers.environment import Environment
from ..servers.policies import Script
from ..servers.types import Json, Row
from ..servers.wording import counted
from .connect import Connection
from .demo_faults import breaks
from .drive import Played, drive
from .session import SessionFailed

EPISODES = 64
WIRES = ("nemo-gym", "openenv", "mcp", "local")
POLICIES = ("random", "rule", "oracle")  # from the worst to the best
BROKEN_POLICY = "rule"


@dataclass(frozen=True, slots=True)
class Round:
    """What one round came to; `rewards` by row, None where the session was masked."""

    environment: str
    wire: str
    policy: str
    broken: bool
    rewards: tuple[float | None, ...]
    failures: tuple[str, ...]
    seconds: float

    @property
    def masked(self) -> int:
        return self.rewards.count(None)

    @property
    def mean_reward(self) -> float | None:
        """Over the episodes that have a reward: a masked one has no say."""
        scored = [reward for reward in self.rewards if reward is not None]
        return fsum(scored) / len(scored) if scored else None

    @property
    def episodes_per_s(self) -> float:
        return len(self.rewards) / self.seconds

    def record(self) -> Json:
        return {
            "environment": self.environment,
            "wire": self.wire,
            "policy": self.policy,
            "round": "broken" if self.broken else "clean",
            "episodes": len(self.rewards),
            "mean_reward": self.mean_reward,
            "masked": self.masked,
            "episodes_per_s": round(self.episodes_per_s, 1),
        }


class Rows:
    """The rows that every round of one environment plays: the same on each wire, with the same luck."""

    def __init__(self, environment: type[Environment]) -> None:
        self.environment = environment
        self.split = environment.splits[0]
        self.rows = list(islice(environment.rows(self.split, None, 0), EPISODES))

    def script(self, policy: str, index: int, prompt: Sequence[Json]) -> Script:
        """The policy on the prompt as it came over the wire; only the oracle sees the row's data."""
        row = self.rows[index % len(self.rows)]
        seen = replace(row, prompt=prompt) if policy == "oracle" else Row(prompt=prompt)
        return self.environment.policies[policy](seen, Random(f"{policy}:{index}"))


async def play_round(
    connection: Connection, rows: Rows, policy: str, *, broken: bool, advance: Callable[[], None]
) -> Round:
    """All episodes of one round, at once."""
    started = perf_counter()
    played = await asyncio.gather(*(_episode(connection, rows, policy, i, advance) for i in range(EPISODES)))
    return Round(
        environment=rows.environment.name,
        wire=connection.wire,
        policy=policy,
        broken=broken,
        rewards=tuple(episode.reward for episode in played),
        failures=tuple(str(episode.failure) for episode in played if episode.failure is not None),
        seconds=perf_counter() - started,
    )


async def _episode(connection: Connection, rows: Rows, policy: str, index: int, advance: Callable[[], None]) -> Played:
    try:
        async with connection.session(split=rows.split, index=index % len(rows.rows), seed=index) as session:
            return await drive(session, rows.script(policy, index, session.prompt))
    except SessionFailed as failure:
        return Played(failure=failure)
    finally:
        advance()


# What must hold


def complaints(rounds: Sequence[Round]) -> Iterator[str]:
    """One sentence for each promise that a round breaks."""
    clean = [item for item in rounds if not item.broken]
    yield from _unequal(rounds)
    yield from _out_of_order(clean)
    for item in clean:
        if item.masked:
            what = f"{item.environment}, {item.policy} over {item.wire}"
            failed = counted(item.masked, "session")
            yield f"{what}: {failed} failed though none was broken; the first: {item.failures[0]}"
    yield from _broken_wrongly(rounds)


def _unequal(rounds: Sequence[Round]) -> Iterator[str]:
    """The same policy on the same rows scores the same on every wire, row by row."""
    for (environment, policy, broken), group in groupby(sorted(rounds, key=_task), key=_task):
        same = list(group)
        for item in same[1:]:
            if item.rewards != same[0].rewards:
                which = "broken" if broken else "clean"
                yield (
                    f"{environment}, {policy}, {which} round: {item.wire} scored {_figures(item)} and {same[0].wire} "
                    f"{_figures(same[0])}; the first row that differs is {_first_difference(item, same[0])}"
                )


def _task(item: Round) -> tuple[str, str, bool]:
    return item.environment, item.policy, item.broken


def _figures(item: Round) -> str:
    mean = "nothing" if item.mean_reward is None else f"{item.mean_reward:.6f}"
    return f"{mean} with {item.masked} masked"


def _first_difference(one: Round, other: Round) -> int:
    return next(i for i, pair in enumerate(zip(one.rewards, other.rewards, strict=True)) if pair[0] != pair[1])


def _out_of_order(clean: Sequence[Round]) -> Iterator[str]:
    means = {(item.environment, item.wire, item.policy): item.mean_reward or 0.0 for item in clean}
    for environment, wire in dict.fromkeys((item.environment, item.wire) for item in clean):
        for worse, better in pairwise(POLICIES):
            low, high = means[environment, wire, worse], means[environment, wire, better]
            if low > high:
                yield f"{environment} over {wire}: {worse} earned {low:.4f}, more than {better} with {high:.4f}"


def _broken_wrongly(rounds: Sequence[Round]) -> Iterator[str]:
    """Exactly the sessions broken on purpose are masked, and the others score as in the clean round."""
    sound = {(item.environment, item.wire): item for item in rounds if not item.broken and item.policy == BROKEN_POLICY}
    for item in rounds:
        if not item.broken:
            continue
        what = f"{item.environment} over {item.wire}, broken round"
        expected = sound[item.environment, item.wire].rewards
        wrong = Counter(
            "masked though not broken" if reward is None else "not masked though broken" if breaks(index) else "changed"
            for index, reward in enumerate(item.rewards)
            if reward != (None if breaks(index) else expected[index])
        )
        for how, count in wrong.items():
            yield f"{what}: {counted(count, 'session')} {how}"
        if not item.masked:
            yield f"{what}: no session is masked"
