"""One episode: tokens that are only appended, budgets, prompts per turn, and every way out closes its session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from gymwire.adapters import connect
from gymwire.adapters.session import WrongRequest
from gymwire.servers.environments.codebook import Codebook
from gymwire.servers.sessions import Limits, Sessions
from gymwire.servers.types import Ending, Row
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook

from tests.trainer.scripted import call, decode, player_on, playing, train_book
from tests.trainer.worlds import Frail, Talks


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Frail.heal()
    yield
    Frail.heal()


def frail_book() -> RowBook:
    return RowBook.of_rows(list(Frail.rows("train", None, 0)))


def both(episode: Episode, turn: int, text: str) -> str:
    return call("add", n=[1, 10][turn]) if turn < 2 else "Done."


async def test_an_episode_is_its_prompt_and_what_was_appended() -> None:
    book = train_book(1)
    async with playing() as played:
        trace = await played.player.play(book.episode(book.names[0], seed=2))
    assert trace.failure is None
    assert trace.reward in (0.0, 1.0)
    assert len(trace.completion_ids) == len(trace.sampled) == len(trace.logprobs)
    assert decode(trace.prompt_ids).strip() == f"user: {trace.prompt[0]['content']}"
    said = [index for index, own in zip(trace.completion_ids, trace.sampled, strict=True) if own]
    assert said.count(0) == trace.turns
    assert all((logprob == 0.0) == (own == 0) for logprob, own in zip(trace.logprobs, trace.sampled, strict=True))


async def test_equal_episodes_are_equal_and_samples_differ() -> None:
    book = train_book(1)
    async with playing() as played:
        episodes = [book.episode(book.names[0], sample=sample, seed=5) for sample in range(8)]
        first = await played.player.play_all(episodes)
        second = await played.player.play_all(episodes)
    assert [trace.completion_ids for trace in first] == [trace.completion_ids for trace in second]
    assert len({tuple(trace.completion_ids) for trace in first}) > 1


@pytest.mark.parametrize(
    ("limits", "turns"),
    [
        ({"max_turns": 1}, 1),
        ({"max_turn_tokens": 5}, 1),
        ({"max_tokens": 40}, 1),
        ({"max_tokens": len(call("add", n=1)) + 4}, 1),
    ],
)
async def test_a_spent_budget_cuts_and_is_still_scored(limits: dict[str, int], turns: int) -> None:
    book = frail_book()
    async with playing(Frail, both, **limits) as played:
        trace = await played.player.play(book.episode(book.names[0]))
    assert trace.outcome is not None
    assert trace.outcome.ending is Ending.CUT
    assert trace.turns == 1
    assert len(trace.completion_ids) <= limits.get("max_tokens", 10**9)


async def test_a_call_that_was_cut_off_is_not_made() -> None:
    book = frail_book()
    async with playing(Frail, both, max_turn_tokens=len(call("add", n=1))) as played:  # all but its end
        await played.player.play(book.episode(book.names[0]))
    assert Frail.called == {}


async def test_the_engine_is_asked_for_no_more_than_its_context_holds() -> None:
    book = frail_book()
    async with playing(Frail, both, context=30) as played:
        trace = await played.player.play(book.episode(book.names[0]))
    assert trace.outcome is not None
    assert trace.outcome.ending is Ending.CUT
    assert len(trace.prompt_ids) + len(trace.completion_ids) <= 30


async def test_prompts_per_turn_go_on_until_there_is_none() -> None:
    book = RowBook.of_rows(list(Talks.rows("train", None, 0)))
    async with playing(Talks, lambda episode, turn, text: f"word {turn}") as played:
        trace = await played.player.play(book.episode(book.names[0]))
    assert trace.reward == 4.0
    assert trace.turns == 3
    assert [message["role"] for message in trace.messages] == ["assistant", "user"] * 2 + ["assistant"]
    assert "user: Word 3?" in decode(trace.completion_ids)


async def test_several_calls_of_a_turn_are_answered_in_order() -> None:
    def say(episode: Episode, turn: int, text: str) -> str:
        return (
            f"{call('add', n=1)}{call('add', n=-1)}<tool_call>{{</tool_call>{call('add', n=2)}"
            if turn == 0
            else "Done."
        )

    book = frail_book()
    async with playing(Frail, say) as played:
        trace = await played.player.play(book.episode(book.names[0]))
    answers = [message["content"] for message in trace.messages if message["role"] == "tool"]
    assert answers[0] == "1"
    assert answers[1].startswith("Only add")
    assert "not valid JSON" in answers[2] or "cut off" in answers[2]
    assert answers[3] == "3"
    assert (trace.calls, trace.tool_errors) == (4, 2)


async def test_tools_that_are_not_allowed_are_unknown() -> None:
    book = train_book(1)
    async with playing(allowed_tools=["sub*"]) as played:
        trace = await played.player.play(book.episode(book.names[0], seed=2, sample=1))
    assert [tool["function"]["name"] for tool in trace.tools] == ["submit"]
    answers = [message["content"] for message in trace.messages if message["role"] == "tool"]
    assert all("no tool called 'lookup'" in answer for answer in answers[:-1])


async def test_long_results_are_fitted_before_the_policy_sees_them() -> None:
    book = frail_book()
    async with playing(Frail, both, limit=lambda text: f"<{text}>") as played:
        trace = await played.player.play(book.episode(book.names[0]))
    assert [message["content"] for message in trace.messages if message["role"] == "tool"] == ["<1>", "<11>"]


async def test_a_row_without_a_prompt_ends_the_run_with_the_fix() -> None:
    book = RowBook.of_rows([Row(data={"index": 1})])
    async with playing(Frail, both) as played:
        with pytest.raises(WrongRequest, match=r"no prompt.*responses_create_params"):
            await played.player.play_all([book.episode(book.names[0])])


async def test_an_error_of_the_engine_ends_everything_with_its_cause() -> None:
    def say(episode: Episode, turn: int, text: str) -> str:
        if episode.id.sample == 3:
            raise ZeroDivisionError("the engine broke")
        return both(episode, turn, text)

    book = frail_book()
    sessions = Sessions(Limits(max_sessions=64))
    async with connect(Frail, sessions=sessions) as connection:
        played = player_on(connection, say)
        with pytest.raises(ZeroDivisionError, match="the engine broke"):
            await played.player.play_all([book.episode(book.names[0], sample=sample) for sample in range(8)])
        assert sessions.slots.free == 64


async def test_no_more_sessions_are_open_than_there_are_slots() -> None:
    book = train_book(4)
    sessions = Sessions(Limits(max_sessions=64))
    most = 0
    async with connect(Codebook, sessions=sessions) as connection:
        played = player_on(connection, slots=3)
        playing_all = asyncio.ensure_future(
            played.player.play_all([book.episode(name, sample=n) for name in book.names for n in range(4)])
        )
        while not playing_all.done():
            most = max(most, 64 - sessions.slots.free)
            await asyncio.sleep(0)
        traces: list[Trace] = playing_all.result()
    assert most <= 3
    assert len(traces) == 16
    assert sessions.slots.free == 64
