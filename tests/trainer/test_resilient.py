"""A session that breaks is recovered by replay, with the very tokens it had; else it begins anew; else it is failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gymwire.adapters.session import SessionFailed
from gymwire.servers.types import FailureKind, Stage
from gymwire.trainer import resilient
from gymwire.trainer.resilient import seed_patiently
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook

from tests.trainer.scripted import Played, call, playing
from tests.trainer.worlds import Frail

BOOK = RowBook.of_rows(list(Frail.rows("train", None, 0)))


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Frail.heal()
    yield
    Frail.heal()


def adds(episode: Episode, turn: int, text: str) -> str:
    return call("add", n=[1, 10, 100][turn]) if turn < 3 else "Done."


async def play(**options: int) -> tuple[Trace, Played]:
    async with playing(Frail, adds, tool_timeout_s=0.5, **options) as played:
        return await played.player.play(BOOK.episode(BOOK.names[0], seed=7)), played


async def undisturbed() -> Trace:
    trace, _ = await play()
    Frail.heal()
    return trace


def same(one: Trace, other: Trace) -> bool:
    tokens = (one.prompt_ids, one.completion_ids, one.sampled, one.logprobs, one.messages)
    return tokens == (other.prompt_ids, other.completion_ids, other.sampled, other.logprobs, other.messages)


@pytest.mark.parametrize("n", [1, 10, 100])
async def test_a_call_that_breaks_is_made_again_in_a_replayed_session(n: int) -> None:
    clean = await undisturbed()
    Frail.breaks[n] = 1
    trace, played = await play(recover=1, max_retries=0)
    assert trace.failure is None
    assert same(trace, clean)
    assert trace.reward == clean.reward == 111.0
    assert (trace.recovered, trace.retried) == (1, 0)
    assert [(failure.stage, tool) for _, failure, tool in played.failures] == [(Stage.CALL, "add")]
    assert len(played.policy.asked) == clean.turns  # nothing was sampled twice


async def test_a_hung_call_is_recovered_too() -> None:
    clean = await undisturbed()
    Frail.hangs[10] = 1
    trace, played = await play(recover=1, max_retries=0)
    assert same(trace, clean)
    assert [failure.kind for _, failure, _ in played.failures] == ["frail:tool_timeout"]


async def test_a_verdict_that_breaks_is_asked_for_again() -> None:
    clean = await undisturbed()
    Frail.verdicts = 1
    trace, _ = await play(recover=1, max_retries=0)
    assert same(trace, clean)
    assert trace.reward == 111.0


async def test_a_session_is_recovered_as_often_as_is_allowed() -> None:
    Frail.breaks[10] = 2
    trace, _ = await play(recover=2, max_retries=0)
    assert trace.reward == 111.0
    assert trace.recovered == 2


async def test_without_recovery_the_episode_begins_anew() -> None:
    clean = await undisturbed()
    Frail.breaks[10] = 1
    trace, played = await play(recover=0, max_retries=1)
    assert same(trace, clean)
    assert (trace.recovered, trace.retried) == (0, 1)
    assert len(played.policy.asked) == clean.turns + 2


async def test_past_its_budget_an_episode_is_failed_and_has_no_reward() -> None:
    Frail.breaks[10] = 100
    trace, played = await play(recover=1, max_retries=1)
    assert trace.outcome is None
    assert trace.reward is None
    assert trace.failure is not None
    assert trace.failure.kind == "frail:exception"
    assert len(played.failures) == 4
    assert Frail.called[1] == 4


async def test_an_environment_that_does_not_repeat_itself_is_not_recovered() -> None:
    Frail.forgetful = True
    Frail.breaks[10] = 1
    trace, _ = await play(recover=1, max_retries=0)
    assert trace.failure is not None
    assert trace.failure.reason.startswith("not replayable after")


async def test_what_the_policy_did_wrong_breaks_nothing() -> None:
    async with playing(Frail, lambda episode, turn, text: call("add", n=-1) if turn < 2 else "Done.") as played:
        trace = await played.player.play(BOOK.episode(BOOK.names[0]))
    assert trace.reward == 0.0
    assert trace.tool_errors == 2
    assert played.failures == []


# ---- a server that is away


class Away:
    """A seed that cannot reach its server so many times."""

    def __init__(self, times: int, kind: str = FailureKind.TRANSPORT_UNREACHABLE) -> None:
        self.times, self.kind = times, kind
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.times:
            raise SessionFailed(self.kind, "connection refused", Stage.SEED)
        return "a session"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resilient, "PAUSES_S", (0.001,))


@pytest.mark.usefixtures("quick")
async def test_a_server_that_comes_back_is_waited_for() -> None:
    away, reported = Away(5), []
    assert await seed_patiently(away, 10.0, reported.append) == "a session"  # type: ignore[arg-type]
    assert len(reported) == 1


@pytest.mark.usefixtures("quick")
async def test_nobody_waits_for_ever() -> None:
    with pytest.raises(SessionFailed, match="connection refused"):
        await seed_patiently(Away(10**9), 0.05, lambda failure: None)  # type: ignore[arg-type]


async def test_a_seed_that_fails_for_another_reason_is_not_repeated() -> None:
    away = Away(1, "frail:exception")
    with pytest.raises(SessionFailed):
        await seed_patiently(away, 10.0, lambda failure: None)  # type: ignore[arg-type]
    assert away.tries == 1
