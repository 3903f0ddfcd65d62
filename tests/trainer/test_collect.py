"""From rows to groups: the order of rows, retired rows, refills, and when a run stops loudly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import connect
from gymwire.adapters.session import SessionFailed
from gymwire.trainer.collect import Batch, Collector, Drawing, Group, Progress, Share, TooManyFailures
from gymwire.trainer.config import Failures
from gymwire.trainer.evaluate import Evaluator, Score
from gymwire.trainer.ledger import Ledger
from gymwire.trainer.rollout import seed_of
from gymwire.trainer.rows import Episode, RowBook

from tests.trainer.scripted import call, player_on, playing, train_book
from tests.trainer.worlds import Frail


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Frail.heal()
    yield
    Frail.heal()


# ---- drawing


def test_every_epoch_is_a_new_order_of_all_rows() -> None:
    book = train_book(8)
    drawing = Drawing(book, Progress(), seed=1)
    first, second = drawing.draw(8), drawing.draw(8)
    assert sorted(first) == sorted(second) == sorted(book.names)
    assert first != second


def test_the_order_goes_on_where_a_checkpoint_was(tmp_path: Path) -> None:
    book = train_book(8)
    whole = Drawing(book, Progress(), seed=1).draw(20)
    part = Drawing(book, Progress(), seed=1)
    begun = part.draw(7)
    part.progress.save(tmp_path / "progress.json")
    resumed = Drawing(book, Progress.load(tmp_path / "progress.json"), seed=1)
    assert begun + resumed.draw(13) == whole


def test_retired_rows_are_drawn_no_more_until_all_are() -> None:
    book = train_book(4)
    drawing = Drawing(book, Progress(retired=book.names[:3]), seed=1)
    assert set(drawing.draw(6)) == {book.names[3]}
    drawing.progress.retired.append(book.names[3])
    assert set(drawing.draw(8)) == set(book.names)


def test_a_row_keeps_its_name_when_the_order_changes() -> None:
    names = train_book(8).names
    assert names[:4] == train_book(4).names
    assert len(set(names)) == 8


# ---- collecting


def collector(player: Any, book: RowBook, *, group_size: int = 4, **options: Any) -> Collector:
    failures = Failures(**{key: options.pop(key) for key in list(options) if key in Failures.model_fields})
    drawing = Drawing(book, options.pop("progress", Progress()), seed=3)
    return Collector(player, drawing, failures, group_size=group_size, **options)


async def test_a_batch_is_groups_of_one_row_each() -> None:
    async with playing() as played:
        batch = await collector(played.player, train_book()).collect(3)
    assert len(batch.groups) == 3
    for group in batch.groups:
        episodes = [trace.episode for trace in group.traces]
        assert {episode.id.row for episode in episodes} == {group.row}
        assert len({episode.id.seed for episode in episodes}) == 1
        assert [episode.id.sample for episode in episodes] == [0, 1, 2, 3]
    assert batch.figures()["sessions/trainable"] == 12


async def test_equal_runs_play_equal_episodes_and_no_two_groups_are_equal() -> None:
    async with playing() as played:
        one, again = collector(played.player, train_book(1)), collector(played.player, train_book(1))
        ids = [
            [str(trace.episode.id) for trace in (await run.collect(1)).groups[0].traces] for run in (one, again, one)
        ]
    assert ids[0] == ids[1]
    assert not set(ids[0]) & set(ids[2])


def lucky(episode: Episode, turn: int, text: str) -> str:
    """Some rows are always worth 0, others differ between the samples of a group."""
    if int(episode.id.row, 16) % 2:
        return "No."
    return call("add", n=episode.id.sample) if turn == 0 else "Done."


async def test_groups_without_variance_are_replaced_by_fresh_rows() -> None:
    book = RowBook.of_rows(list(Frail.rows("train", 32, 0)))
    async with playing(Frail, lucky) as played:
        without = await collector(played.player, book).collect(8)
        with_refill = await collector(played.player, book, max_refill=3).collect(8)
    assert without.figures()["groups/zero_variance"] > 0
    assert with_refill.figures()["groups/zero_variance"] < without.figures()["groups/zero_variance"]
    assert with_refill.figures()["groups/refilled"] > 0
    assert len(with_refill.groups) == 8
    kept = [group.row for group in without.groups if group.has_signal]
    assert set(kept) <= {group.row for group in with_refill.groups}


async def test_refills_and_retired_rows_survive_a_resume() -> None:
    book = RowBook.of_rows(list(Frail.rows("train", 32, 0)))
    options: dict[str, Any] = {"max_refill": 2, "retire_above": 1.5}
    async with playing(Frail, lucky) as played:
        whole = collector(played.player, book, **options)
        consumed = [[group.row for group in (await whole.collect(4)).played] for _ in range(3)]
        half = collector(played.player, book, **options)
        before = [[group.row for group in (await half.collect(4)).played]]
        resumed = collector(played.player, book, progress=half.progress.copy(), **options)
        after = [[group.row for group in (await resumed.collect(4)).played] for _ in range(2)]
    assert before + after == consumed
    assert whole.progress == resumed.progress
    assert whole.progress.retired


async def test_two_processes_play_what_one_would_draw() -> None:
    """The second process's part comes after the first one's, whatever each of them refills."""
    names = [str(number) for number in range(7)]
    first, second = Share(0), Share(1)
    assert first.part(names, [3, 4]) + second.part(names, [3, 4]) == names
    assert second.part(names, [7, 0]) == []


# ---- failures


def one_add(episode: Episode, turn: int, text: str) -> str:
    return call("add", n=1 + episode.id.sample) if turn == 0 else "Done."


async def test_a_failed_session_has_no_vote_and_is_counted() -> None:
    Frail.breaks[2] = 10**6
    book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
    async with playing(Frail, one_add, recover=0, max_retries=0) as played:
        batch = await collector(played.player, book).collect(2)
    assert [len(group.rewards) for group in batch.groups] == [3, 3]
    assert batch.figures()["sessions/masked"] == 2
    assert batch.figures()["sessions/trainable"] == 6


async def test_drop_group_takes_the_whole_group_out() -> None:
    Frail.breaks[2] = 1
    book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
    async with playing(Frail, one_add, recover=0, max_retries=0) as played:
        batch = await collector(played.player, book, on_failure="drop_group").collect(2)
    assert sorted(group.dropped for group in batch.groups) == [False, True]
    assert batch.figures()["sessions/masked"] == 4
    assert batch.figures()["sessions/failed"] == 1
    assert all(trace.reward is not None for group in batch.groups for trace in group.traces if trace.failure is None)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_failure": "stop"}, "failures.on_failure is stop"),
        ({"stop_after": 8}, "8 sessions failed in a row"),
        ({"stop_share": 0.5}, "8 of 8 sessions of a batch failed: frail:exception .8."),
    ],
)
async def test_a_run_whose_side_is_broken_stops_loudly(options: dict[str, Any], says: str) -> None:
    Frail.breaks.update(dict.fromkeys(range(1, 5), 10**6))
    book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
    async with playing(Frail, one_add, recover=0, max_retries=0) as played:
        with pytest.raises(TooManyFailures, match=says) as caught:
            await collector(played.player, book, **options).collect(2)
    assert "failures.jsonl" in str(caught.value)


async def test_failures_in_a_row_are_counted_over_steps() -> None:
    Frail.breaks.update(dict.fromkeys(range(1, 5), 10**6))
    book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
    async with playing(Frail, one_add, recover=0, max_retries=0) as played:
        collecting = collector(played.player, book, stop_after=12, stop_share=1.0)
        await collecting.collect(2)
        assert collecting.progress.failed_in_a_row == 8
        with pytest.raises(TooManyFailures, match="12 sessions"):
            await collecting.collect(2)


def test_the_ledger_has_a_line_for_every_failure_and_warns_where_they_gather(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = Ledger(tmp_path / "failures.jsonl", "mcp")
    book = train_book(16)
    for number, name in enumerate(book.names):
        ledger.write(book.episode(name), SessionFailed("codebook:exception", f"number {number}", "call"), "lookup")
    lines = (tmp_path / "failures.jsonl").read_text().splitlines()
    assert len(lines) == 16
    assert '"tool": "lookup"' in lines[0]
    assert [record.args[:4] for record in caplog.records] == [  # type: ignore[index]
        (8, 8, "tool", "lookup"),
        (16, 16, "tool", "lookup"),
    ]


# ---- evaluating


async def test_an_evaluation_plays_every_row_sampled_and_greedily() -> None:
    book = train_book(12)
    async with playing() as played:
        figures = await Evaluator(played.player, book).evaluate()
        again = await Evaluator(played.player, book).evaluate()
    assert figures == again
    assert figures["eval/rows"] == 12
    won = [seed_of(trace_id(book, name), 0) % 3 == 2 for name in book.names]
    assert figures["eval/reward"] >= sum(won) / 12


def trace_id(book: RowBook, name: str) -> Any:
    from gymwire.trainer.evaluate import SEED

    return book.episode(name, seed=SEED).id


def test_a_score_leaves_failed_sessions_out() -> None:
    score = Score.of([1.0, 0.0, None, 1.0])
    assert (round(score.mean, 4), round(score.standard_error, 4)) == (0.6667, 0.3333)
    assert (score.rewards, score.failed) == (3, 1)


def test_a_group_with_one_vote_has_no_signal() -> None:
    assert not Group("row", []).has_signal
    assert Batch([], 0, []).figures()["sessions/masked"] == 0


async def test_connections_are_shared_by_players() -> None:
    async with connect(Frail) as connection:
        one, other = player_on(connection, one_add), player_on(connection, one_add)
        book = RowBook.of_rows(list(Frail.rows("train", None, 0)))
        traces = await one.player.play_all([book.episode(book.names[0])])
        assert traces[0].reward == (await other.player.play_all([book.episode(book.names[0])]))[0].reward
