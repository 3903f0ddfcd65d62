"""Seeding, finding, forgetting: the rules that hold across sessions."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from gymwire.servers import Environment, Row, Transcript, tool
from gymwire.servers import sessions as sessions_module
from gymwire.servers.answers import Code
from gymwire.servers.catalog import Served
from gymwire.servers.seeding import SeedRequest, fingerprint
from gymwire.servers.types import Ending, FailureKind, SessionState
from pydantic import BaseModel

from tests.servers.engine import Engine, Notes, call, refused, until

ROW = Row.of("Write.", mood="good")


# Seeding


async def test_a_repeated_seed_of_one_id_answers_the_same_session(engine: Engine) -> None:
    served = Served(Notes)
    first = await engine.start(served, ROW, caller_id="a")
    await call(first, "note", text="kept")
    assert await engine.start(served, ROW, caller_id="a") is first
    assert engine.slots.free == 63


async def test_seeds_of_one_id_at_the_same_time_begin_one_session(engine: Engine) -> None:
    class Slow(Notes):
        begun = 0

        async def reset(self, row: Row) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(0.01)
            super().reset(row)
            Slow.begun += 1

    served = Served(Slow)
    made = await asyncio.gather(*(engine.start(served, ROW, caller_id="a") for _ in range(8)))
    assert len(set(map(id, made))) == 1 and Slow.begun == 1


async def test_an_id_seeded_with_another_task_is_a_conflict(engine: Engine) -> None:
    served = Served(Notes)
    session = await engine.start(served, ROW, caller_id="a")
    other = Row.of("Write.", mood="bad")
    assert (await refused(engine.start(served, other, caller_id="a"))).code is Code.SEED_CONFLICT
    assert (await call(session, "note", text="x")).code is Code.OK


async def test_an_id_that_was_closed_is_used_up(engine: Engine) -> None:
    served = Served(Notes)
    session = await engine.start(served, ROW, caller_id="a")
    await engine.close(session)
    assert (await refused(engine.start(served, ROW, caller_id="a"))).code is Code.SEED_REFUSED
    await engine.close_caller(served, "", "never seen")
    assert (await refused(engine.start(served, ROW, caller_id="never seen"))).code is Code.SEED_REFUSED


async def test_a_repeated_seed_of_an_ended_session_says_how_it_ended(engine: Engine) -> None:
    class Breaks(Notes):
        @tool
        def bang(self) -> str:
            raise RuntimeError("bang")

    served = Served(Breaks)
    verified = await engine.start(served, ROW, caller_id="verified")
    await verified.verify()
    assert (await refused(engine.start(served, ROW, caller_id="verified"))).code is Code.SEED_REFUSED
    failed = await engine.start(served, ROW, caller_id="failed")
    await call(failed, "bang")
    refusal = await refused(engine.start(served, ROW, caller_id="failed"))
    assert refusal.code is Code.SESSION_FAILED and refusal.failure is failed.failure


async def test_a_seed_that_broke_may_be_tried_again(engine: Engine) -> None:
    class Once(Notes):
        broken = True

        def reset(self, row: Row) -> None:
            if Once.broken:
                Once.broken = False
                raise OSError("no disk")
            super().reset(row)

    served = Served(Once)
    refusal = await refused(engine.start(served, ROW, caller_id="a"))
    assert refusal.failure is not None and "no disk" in refusal.failure.reason and engine.all_free
    assert (await engine.start(served, ROW, caller_id="a")).state is SessionState.SEEDED


@pytest.mark.parametrize("odd", [10**40, "\ud800", float("nan"), {1: 2}, b"raw", [[], {}]])
async def test_a_row_of_any_values_can_be_seeded_under_an_id(engine: Engine, odd: Any) -> None:
    served, row = Served(Notes), Row.of("Write.", odd=odd)
    session = await engine.start(served, row, caller_id="a")
    assert await engine.start(served, row, caller_id="a") is session


def test_fingerprints_ignore_the_order_of_keys() -> None:
    one, two = Row(data={"a": 1, "b": {"c": 1, "d": 2}}), Row(data={"b": {"d": 2, "c": 1}, "a": 1})
    assert fingerprint(SeedRequest(row=one)) == fingerprint(SeedRequest(row=two))
    assert fingerprint(SeedRequest(row=one)) != fingerprint(SeedRequest(row=one, seed=1))


async def test_an_endless_id_is_refused(engine: Engine) -> None:
    assert (await refused(engine.start(Notes, caller_id="x" * 10_000))).code is Code.INVALID_REQUEST


class Rows(Notes):
    splits = ("train", "eval")

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index in range(32 if count is None else count):
            yield Row.of(f"{split} {index}", place=[split, index])


async def test_a_row_is_named_by_split_and_index_or_chosen_by_seed(engine: Engine) -> None:
    served = Served(Rows)
    assert (await engine.start(served, split="eval", index=3)).row.data["place"] == ["eval", 3]
    assert (await engine.start(served, index=3)).row.data["place"] == ["train", 3]
    assert (await engine.start(served, split="eval")).row.data["place"] == ["eval", 0]
    one, two = [(await engine.start(served, seed=7)).row.data["place"] for _ in range(2)]
    assert one == two and one[0] == "train"
    inside = [(await engine.start(served, split="eval", seed=7)).row.data["place"] for _ in range(2)]
    assert inside[0] == inside[1] and inside[0][0] == "eval"
    seeds = {tuple((await engine.start(served, seed=seed)).row.data["place"]) for seed in range(12)}
    assert len(seeds) > 3


@pytest.mark.parametrize("asked", [{"split": "test"}, {"split": "eval", "index": 99}, {"index": -1}])
async def test_a_place_that_is_not_there_is_an_invalid_row(engine: Engine, asked: dict[str, Any]) -> None:
    refusal = await refused(engine.start(Rows, **asked))
    assert refusal.code is Code.INVALID_ROW and engine.all_free


def raising(split: str, count: int | None, seed: int) -> Iterator[Row]:
    raise KeyError("generator")


@pytest.mark.parametrize("rows", [raising, lambda *_: iter(()), lambda *_: iter([{"no": "row"}])])
async def test_rows_that_cannot_be_made_are_our_failure(engine: Engine, rows: Any) -> None:
    class Broken(Notes):
        pass

    Broken.rows = rows
    refusal = await refused(engine.start(Broken, seed=1))
    assert refusal.code is Code.SESSION_FAILED and refusal.failure is not None and engine.all_free


async def test_row_data_is_checked_before_a_slot_is_taken(engine: Engine) -> None:
    class Checked(Notes):
        class Data(BaseModel):  # pyright: ignore[reportIncompatibleVariableOverride]
            budget: int

    refusal = await refused(engine.start(Checked, Row.of("x", budget="many")))
    assert refusal.code is Code.INVALID_ROW and "budget" in refusal.text
    session = await engine.start(Checked, Row.of("x", budget=3))
    assert session.environment is not None and session.environment.data.budget == 3


async def test_what_one_session_writes_into_its_row_never_reaches_the_next(engine: Engine) -> None:
    class Scribbles(Rows):
        def reset(self, row: Row) -> None:
            super().reset(row)
            self.notes = list(map(str, row.data["place"]))
            row.data["place"].append("scribble")

    served, own = Served(Scribbles), Row.of("own", place=["own"])
    for _ in range(2):
        session = await engine.start(served, split="train", index=1)
        assert (await session.verify()).reward == 2.0
        assert (await (await engine.start(served, own)).verify()).reward == 1.0
    assert own.data["place"] == ["own"]


# Finding


async def test_an_unknown_handle_is_lost_and_never_a_fresh_session(engine: Engine) -> None:
    served = Served(Notes)
    assert (await refused(_get(engine, "nobody.00", served))).code is Code.SESSION_LOST
    assert len(engine.store) == 0


async def _get(engine: Engine, handle: str, served: Served, owner: str = "") -> Any:
    return engine.get(handle, served, owner)


async def test_a_handle_serves_its_owner_and_its_environment_alone(engine: Engine) -> None:
    served, other = Served(Notes), Served(Rows)
    session = await engine.start(served, owner="ann")
    assert engine.get(session.handle, served, "ann") is session
    assert (await refused(_get(engine, session.handle, served, "bob"))).code is Code.SESSION_LOST
    assert (await refused(_get(engine, session.handle, served))).code is Code.SESSION_LOST
    assert (await refused(_get(engine, session.handle, other, "ann"))).code is Code.SESSION_LOST


async def test_owners_do_not_meet_in_ids_either(engine: Engine) -> None:
    served = Served(Notes)
    hers = await engine.start(served, caller_id="a", owner="ann")
    his = await engine.start(served, caller_id="a", owner="bob")
    assert hers is not his
    await engine.close_caller(served, "bob", "a")
    assert engine.of_caller(served, "ann", "a") is hers and hers.state is SessionState.SEEDED


async def test_closing_frees_the_slot_and_is_remembered(engine: Engine) -> None:
    served = Served(Notes)
    session = await engine.start(served)
    await engine.close(session)
    await engine.close(session)
    assert engine.all_free and len(engine.store) == 0
    assert (await refused(_get(engine, session.handle, served))).code is Code.SESSION_CLOSED
    assert (await refused(call(session, "note", text="late"))).code is Code.SESSION_CLOSED
    assert (await refused(session.verify())).code is Code.SESSION_CLOSED


# Limits


async def test_an_idle_session_expires_and_says_so(engine: Engine) -> None:
    served = Served(Notes)
    session = await engine.start(served)
    engine.time_s += 599
    assert engine.sweep() == 0
    await call(session, "note", text="still here")
    engine.time_s += 599
    assert engine.sweep() == 0
    engine.time_s += 2
    assert engine.sweep() == 1 and engine.all_free
    assert (await refused(_get(engine, session.handle, served))).code is Code.SESSION_EXPIRED
    assert session.failure is not None and session.failure.kind == FailureKind.SESSION_EXPIRED
    outcome = (await refused(_get(engine, session.handle, served))).as_outcome()
    assert outcome.masked and outcome.failure_kind == FailureKind.SESSION_EXPIRED


async def test_an_open_socket_keeps_a_session_but_not_past_its_lifetime(engine: Engine) -> None:
    session = await engine.start(Notes)
    session.sockets = 1
    engine.time_s += 3599
    assert engine.sweep() == 0
    engine.time_s += 2
    assert engine.sweep() == 1 and session.state is SessionState.EXPIRED


async def test_waiting_in_the_queue_is_no_part_of_a_lifetime() -> None:
    engine = Engine(max_sessions=1, lifetime_s=100.0)
    served = Served(Notes)
    first = await engine.start(served)
    waiting = asyncio.create_task(engine.start(served))
    await until(lambda: engine.slots.queued == 1)
    engine.time_s += 90
    await engine.close(first)
    second = await waiting
    engine.time_s += 90
    assert engine.sweep() == 0 and second.state is SessionState.SEEDED
    await engine.drain(0)


async def test_a_sweep_passes_over_a_call_in_flight(engine: Engine) -> None:
    class Long(Notes):
        async def reset(self, row: Row) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().reset(row)
            self.go = asyncio.Event()

        @tool
        async def think(self) -> str:
            await self.go.wait()
            return "thought"

    session = await engine.start(Long)
    environment: Any = session.environment
    thinking = asyncio.create_task(call(session, "think"))
    await until(lambda: session.in_flight == 1)
    engine.time_s += 10_000
    assert engine.sweep() == 0
    environment.go.set()
    assert (await thinking).result.text == "thought"
    assert session.last_used == engine.time_s


async def test_the_sweeper_runs_by_itself_and_stops_with_the_last_session() -> None:
    engine = Engine(max_sessions=2, idle_timeout_s=1.0)
    await engine.start(Notes)
    engine.time_s += 2
    await until(lambda: engine.all_free)
    await until(lambda: engine._sweeper is not None and engine._sweeper.done())


async def test_a_kept_outcome_is_forgotten_after_the_idle_limit(engine: Engine) -> None:
    served = Served(Notes)
    session = await engine.start(served)
    outcome = await session.verify()
    assert engine.all_free and engine.get(session.handle, served) is session
    assert await session.verify() is outcome
    engine.time_s += 601
    assert engine.sweep() == 0 and len(engine.store) == 0


async def test_kept_outcomes_are_bounded(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "KEPT_OUTCOMES", 8)
    served = Served(Notes)
    made = []
    for _ in range(20):
        made.append(await engine.start(served))
        await made[-1].verify()
    assert len(engine.store) == 8
    assert (await refused(_get(engine, made[0].handle, served))).code is Code.SESSION_EXPIRED
    assert engine.get(made[-1].handle, served) is made[-1]


# Memory


async def test_a_verified_session_lets_go_of_its_environment(engine: Engine) -> None:
    session = await engine.start(Notes)
    environment = weakref.ref(session.environment)  # type: ignore[arg-type]
    await call(session, "note", text="x" * 1000)
    await session.verify()
    gc.collect()
    assert environment() is None and session.calls == [] and session.environment is None


async def test_idle_threads_hold_nothing_of_the_last_tool(engine: Engine) -> None:
    class Big:
        pass

    class Sync(Notes):
        @tool
        def work(self) -> str:
            self.big = Big()
            held.append(weakref.ref(self.big))
            return "done"

    held: list[weakref.ref[Big]] = []
    session = await engine.start(Sync)
    await call(session, "work")
    await engine.close(session)
    await until(lambda: gc.collect() >= 0 and held[0]() is None)


# Draining


async def test_draining_refuses_seeds_and_counts_what_it_failed(engine: Engine) -> None:
    served = Served(Notes)
    live = await engine.start(served)
    verified = await engine.start(served)
    await verified.verify()
    assert await engine.drain(0) == 1
    outcome = await live.verify()
    assert outcome.masked and outcome.failure_kind == FailureKind.SESSION_LOST
    assert (await verified.verify()).ending is Ending.FINISHED
    refusal = await refused(engine.start(served))
    assert refusal.code is Code.DRAINING and refusal.retry_after_s


async def test_draining_turns_the_queue_away_and_lets_calls_finish() -> None:
    class Long(Notes):
        @tool
        async def think(self) -> str:
            await asyncio.sleep(0.03)
            return "thought"

    engine = Engine(max_sessions=1)
    session = await engine.start(Long)
    waiting = asyncio.create_task(engine.start(Notes))
    thinking = asyncio.create_task(call(session, "think"))
    await until(lambda: engine.slots.queued == 1 and session.in_flight == 1)
    assert await engine.drain(10) == 1
    assert (await thinking).result.text == "thought"
    assert (await refused(waiting)).code is Code.DRAINING
    assert engine.all_free


async def test_a_seed_that_was_under_way_does_not_outlive_the_drain(engine: Engine) -> None:
    class Slow(Notes):
        async def reset(self, row: Row) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            await asyncio.sleep(0.02)

    seeding = asyncio.create_task(engine.start(Slow))
    await until(lambda: engine.slots.free == 63)
    await engine.drain(0)
    assert (await refused(seeding)).code is Code.DRAINING
    assert engine.all_free and len(engine.store) == 0


# Leaving


async def test_a_client_that_leaves_during_reset_leaves_nothing_behind(engine: Engine) -> None:
    class Slow(Notes):
        begun = closed = 0

        async def reset(self, row: Row) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            Slow.begun += 1
            await asyncio.sleep(30)

        async def close(self) -> None:
            Slow.closed += 1

    seeding = asyncio.create_task(engine.start(Slow, caller_id="a"))
    await until(lambda: Slow.begun == 1)
    seeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await seeding
    await until(lambda: Slow.closed == 1)
    assert engine.all_free and len(engine.store) == 0 and not engine._pending


async def test_setup_runs_once_however_many_seeds_come(engine: Engine) -> None:
    class Prepared(Notes):
        runs = 0

        @classmethod
        async def setup(cls, **settings: Any) -> None:
            await asyncio.sleep(0.01)
            cls.runs += 1

        def reset(self, row: Row) -> None:
            super().reset(row)
            assert self.runs == 1, "reset ran before setup was through"

    served = Served(Prepared)
    await asyncio.gather(*(engine.start(served) for _ in range(5)))
    assert Prepared.runs == 1


# Seeds and randomness


class Dice(Environment):
    def verify(self, transcript: Transcript) -> float:
        return self.rng.random()


async def test_equal_seeds_give_equal_randomness_from_any_thread(engine: Engine) -> None:
    async def roll(seed: int | None, row: Row) -> float | None:
        return (await (await engine.start(Dice, row, seed=seed)).verify()).reward

    row = Row.of("Roll.", die=6)
    rolls = await asyncio.gather(*(roll(123, row) for _ in range(16)))
    assert len(set(rolls)) == 1
    assert await roll(7, row) != rolls[0]
    assert await roll(123, Row.of("Roll.", die=8)) != rolls[0]
    assert await roll(123, row) == rolls[0]
