"""What `make learn` compares: sessions that break as drawn, four ways that differ by the way alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import connect
from gymwire.servers.environments.codebook import Codebook
from gymwire.servers.types import Ending
from gymwire.trainer.config import as_json
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook

from tests.learn.arms import ARMS, RISK, SHORTCUT, config_of
from tests.learn.failing import FailingCodebook, chance
from tests.learn.players import FailedIsZero
from tests.trainer.scripted import call, codebook, player_on

SAMPLES = 400


def lookups(count: int) -> Any:
    """A script that looks so often before it submits."""

    def say(episode: Episode, turn: int, text: str) -> str:
        first, second = text.split("code of ")[1].split(",")[0].split(" and ")
        keys = [first, second, first, second]
        return call("lookup", key=keys[turn]) if turn < count else call("submit", first=0, second=0)

    return say


async def play(say: Any, *, split: str = "train", samples: int = 8, risk: float = RISK, **options: Any) -> list[Trace]:
    """Samples of the first row of a split. `options`: as for `player_on`; `player`: the class that plays."""
    kind = options.pop("player", None)
    options = {"recover": 0, "max_retries": 0, **options}
    book = RowBook.of_rows(list(Codebook.rows(split, 1, 0)))
    settings = {"shortcut": SHORTCUT, "risk": risk}
    async with connect(FailingCodebook, settings=settings) as connection:
        player = player_on(connection, say, **options).player
        player = player if kind is None else kind(player.seat, player.policy, 16)
        return await player.play_all([book.episode(book.names[0], sample=number, seed=3) for number in range(samples)])


def broken(traces: list[Trace]) -> int:
    return sum(trace.failure is not None for trace in traces)


def test_the_chance_grows_with_every_lookup() -> None:
    assert [chance(0.6, lookup) for lookup in (1, 2, 3)] == pytest.approx([0.0, 0.6, 0.84])
    assert [chance(0.0, lookup) for lookup in (1, 2, 3)] == [0.0, 0.0, 0.0]


def test_the_policy_is_offered_what_codebook_offers() -> None:
    failing, own = (
        [spec.tool.as_chat() for spec in environment.tool_specs.values()] for environment in (FailingCodebook, Codebook)
    )
    assert failing == own


@pytest.mark.parametrize(("count", "share"), [(0, 0.0), (1, 0.0), (2, 0.6), (3, 1 - 0.4 * 0.16)])
async def test_sessions_break_as_often_as_drawn(count: int, share: float) -> None:
    traces = await play(lookups(count), samples=SAMPLES)
    error = (share * (1 - share) / SAMPLES) ** 0.5
    assert broken(traces) / SAMPLES == pytest.approx(share, abs=4 * error)
    assert {trace.failure.kind for trace in traces if trace.failure} <= {"failing_codebook:outage"}


async def test_nothing_breaks_on_held_out_rows_or_without_risk() -> None:
    assert broken(await play(lookups(3), split="eval", samples=64)) == 0
    assert broken(await play(lookups(3), risk=0.0, samples=64)) == 0


async def test_a_recovered_session_is_the_undisturbed_one() -> None:
    clean = await play(codebook, risk=0.0, samples=32)
    recovered = await play(codebook, samples=32, recover=ARMS["recovered"].recover)
    assert sum(trace.recovered > 0 for trace in recovered) > 0
    assert [trace.completion_ids for trace in recovered] == [trace.completion_ids for trace in clean]
    assert [trace.reward for trace in recovered] == [trace.reward for trace in clean]


async def test_the_naive_way_ends_where_it_broke_with_a_reward_of_zero() -> None:
    traces = await play(lookups(2), player=FailedIsZero, samples=32)
    assert broken(traces) == 0
    zeroed = [trace for trace in traces if trace.turns == 2]
    assert 0 < len(zeroed) < 32
    for trace in zeroed:
        assert trace.outcome is not None
        assert (trace.reward, trace.outcome.ending) == (0.0, Ending.FINISHED)
        assert trace.completion_ids[-1] == 0 and trace.sampled[-1] == 1  # its last token is the policy's own


def test_the_ways_differ_by_what_becomes_of_a_failure_alone() -> None:
    configs = {}
    for arm in ARMS.values():
        made = as_json(config_of(arm, seed=1, steps=3, policy=Path("p"), url="http://127.0.0.1:1", folder=Path("f")))
        assert made["failures"].pop("recover") == arm.recover
        configs[arm.name] = made
    assert all(made == configs["clean"] for made in configs.values())
    assert configs["clean"]["trl"]["max_steps"] == 3
    assert configs["clean"]["failures"]["max_retries"] == 0
    served = {arm.name: arm.served(1) for arm in ARMS.values()}
    assert served["recovered"] == served["masked"] == served["zero"]
    assert [arm.name for arm in ARMS.values() if arm.risk == 0] == ["clean"]
    assert [arm.name for arm in ARMS.values() if arm.recover] == ["recovered"]
    assert [arm.name for arm in ARMS.values() if arm.failed_is_zero] == ["zero"]
