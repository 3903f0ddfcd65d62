"""The calls of one turn: those that only read run at once, any other in its place, and the answers keep their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from gymwire.adapters import connect
from gymwire.servers.sessions import Limits, Sessions
from gymwire.trainer import resilient
from gymwire.trainer.resilient import ResilientSession
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook

from tests.trainer.scripted import Played, call, player_on
from tests.trainer.worlds import Peeks

BOOK = RowBook.of_rows(list(Peeks.rows("train", None, 0)))


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Peeks.heal()
    yield
    Peeks.heal()


def peeks(*numbers: int) -> str:
    return "".join(call("peek", n=n) for n in numbers)


def four(episode: Episode, turn: int, text: str) -> str:
    return [call("add", n=5), peeks(1, 2, 3, 4), call("add", n=7)][turn] if turn < 3 else "Done."


async def play(say: Any = four, **options: Any) -> tuple[Trace, Played]:
    """One episode; whatever becomes of it, its slots are free afterwards."""
    sessions = Sessions(Limits(max_sessions=8))
    async with connect(Peeks, sessions=sessions) as connection:
        played = player_on(connection, say, **{"tool_timeout_s": 0.5, "max_retries": 0, **options})
        trace = await played.player.play(BOOK.episode(BOOK.names[0], seed=7))
        assert sessions.slots.free == 8
        assert all(session.in_flight == 0 for session in sessions.store)
    return trace, played


def answers(trace: Trace) -> list[str]:
    return [message["content"] for message in trace.messages if message["role"] == "tool"]


def same(one: Trace, other: Trace) -> bool:
    parts = ("prompt_ids", "completion_ids", "sampled", "logprobs", "messages", "steps", "calls", "reward")
    return all(getattr(one, part) == getattr(other, part) for part in parts)


async def test_calls_that_only_read_overlap_and_are_answered_in_the_order_of_the_calls() -> None:
    Peeks.company, Peeks.slow = 4, Counter({1: 40, 2: 20})
    trace, _ = await play()
    assert trace.failure is None
    assert answers(trace) == ["5", "1: 5", "2: 5", "3: 5", "4: 5", "12"]
    assert Peeks.answered.index(1) == 3
    assert [step.argument for step in trace.steps][1:5] == [{"n": n} for n in (1, 2, 3, 4)]


async def test_the_tokens_are_those_of_calls_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    Peeks.company = 4
    together, _ = await play()
    Peeks.heal()
    monkeypatch.setattr(ResilientSession, "may_overlap", lambda self, name: False)
    alone, _ = await play()
    assert alone.failure is None
    assert same(together, alone)


async def test_a_call_that_writes_stays_between_those_that_read() -> None:
    def say(episode: Episode, turn: int, text: str) -> str:
        unread = "<tool_call>{</tool_call>"
        return peeks(1, 2) + call("add", n=5) + peeks(3) + unread + peeks(4, -1) if turn == 0 else "Done."

    Peeks.slow = Counter({1: 20, 4: 20})
    trace, _ = await play(say)
    seen = answers(trace)
    assert seen[:4] == ["1: 0", "2: 0", "5", "3: 5"]
    assert "not valid JSON" in seen[4] or "cut off" in seen[4]
    assert seen[5:] == ["4: 5", "-1: 5"]
    assert Peeks.answered == [2, 1, 3, -1, 4]
    assert trace.outcome is not None
    assert trace.outcome.disagreements == ()


@pytest.mark.parametrize("broken", [[1], [3], [1, 2, 3, 4]])
async def test_one_that_breaks_is_one_failure_and_the_run_is_made_again(broken: list[int]) -> None:
    clean, _ = await play()
    Peeks.heal()
    Peeks.breaks = Counter(broken)
    trace, played = await play(recover=1)
    assert trace.failure is None
    assert same(trace, clean)
    assert trace.recovered == 1
    assert [(failure.kind, tool) for _, failure, tool in played.failures] == [("peeks:exception", "peek")]
    assert Peeks.called[5] == 2  # replayed


async def test_one_that_breaks_past_the_budget_fails_the_episode() -> None:
    Peeks.breaks = Counter({2: 100})
    trace, played = await play(recover=0)
    assert trace.reward is None
    assert trace.failure is not None
    assert trace.failure.kind == "peeks:exception"
    assert len(played.failures) == 1
    assert len(trace.steps) == 1  # nothing of the broken run was answered


async def test_one_that_hangs_delays_the_others_no_longer_than_its_limit() -> None:
    Peeks.hangs = Counter({4: 1})
    trace, played = await play(recover=1)
    assert trace.failure is None
    assert answers(trace)[1:5] == ["1: 5", "2: 5", "3: 5", "4: 5"]
    assert [failure.kind for _, failure, _ in played.failures] == ["peeks:tool_timeout"]


async def test_each_call_has_a_time_limit_of_its_own_however_many_are_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resilient, "MAX_TOGETHER", 1)
    Peeks.slow = Counter({n: 120 for n in (1, 2, 3, 4)})
    trace, played = await play(tool_timeout_s=0.25)
    assert trace.failure is None
    assert Peeks.answered == [1, 2, 3, 4]
    assert played.failures == []
