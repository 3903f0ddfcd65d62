"""Sessions in Redis: any replica goes on with them, nothing acknowledged is lost, nothing counts twice."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from gymwire.servers import Environment, Transcript
from gymwire.servers.answers import Code
from gymwire.servers.catalog import Served
from gymwire.servers.environments.counter import Counter
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Limits
from gymwire.servers.shared import line, records
from gymwire.servers.shared import sessions as shared
from gymwire.servers.shared.line import Address, StoreError
from gymwire.servers.shared.sessions import SharedSessions
from gymwire.servers.types import Failure, Row, SessionState

from tests.servers.engine import call, refused

from .conftest import RedisServer

ROW = Row.of("Bring the counter to exactly 5.", start=0, target=5)


@asynccontextmanager
async def replicas(redis: RedisServer, count: int = 2, **limits: Any) -> AsyncIterator[list[SharedSessions]]:
    made = [SharedSessions(Address.read(redis.url), Limits(**limits), timeout_s=5.0) for _ in range(count)]
    try:
        for replica in made:
            await replica.open()
        yield made
    finally:
        for replica in made:
            await replica.drain(1.0)


def served() -> Served:
    return Served(Counter)


async def test_another_replica_goes_on(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        here, there = served(), served()
        first = await one.seed(here, SeedRequest(row=ROW, caller_id="a"))
        assert (await call(first, "add", "k1", n=3)).code is Code.OK
        second = await two.find(first.handle, there)
        assert (await call(second, "read")).result.text == "3"
        assert (await call(second, "add", "k1", n=3)).code is Code.OK, "a repeat"
        assert (await call(second, "add", "k2", n=2)).code is Code.OK
        assert (await call(first, "read")).result.text == "5", "the first replica's copy is brought up to date"
        assert (await two.seed(there, SeedRequest(row=ROW, caller_id="a"))) is second
        outcome = await first.verify()
        assert outcome.reward == 1.0 and await second.verify() == outcome
        assert (await call(second, "add", n=1)).code is Code.SESSION_VERIFIED
        await two.close(second)
        assert (await refused(first.verify())).code is Code.SESSION_CLOSED
        assert (await refused(one.seed(here, SeedRequest(row=ROW, caller_id="a")))).code is Code.SEED_REFUSED


class Turns(Environment):
    """Two turns, then it is over."""

    replayable = True
    left = 2

    def end_turn(self) -> str | None:
        self.left -= 1
        return f"{self.left} left" if self.left else None

    def get_state(self) -> int:
        return self.left

    def set_state(self, state: int) -> None:
        self.left = state

    def verify(self, transcript: Transcript) -> float:
        return float(self.left)


async def test_a_turn_ends_once_wherever_its_repeat_goes(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(Served(Turns), SeedRequest(row=ROW))
        assert await first.end_turn("k1") == "1 left"
        second = await two.find(first.handle, Served(Turns))
        assert [await second.end_turn("k1"), await second.end_turn("k2"), await first.end_turn("k2")] == [
            "1 left",
            None,
            None,
        ]
        assert (await first.verify()).reward == 0.0


async def test_a_late_commit_does_not_count(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that was held up longer than its lock lasts: the next one took over; its own call never happened."""
    monkeypatch.setattr(shared, "LOCK_MS", 50)
    monkeypatch.setattr(shared, "BEAT_S", 60.0)
    async with replicas(redis_server) as (one, two):
        here, there = served(), served()
        first = await one.seed(here, SeedRequest(row=ROW))
        commit, held = one.put_commit, asyncio.Event()

        async def late(*given: Any) -> int:
            await held.wait()
            return await commit(*given)

        monkeypatch.setattr(one, "put_commit", late)
        paused = asyncio.create_task(first.call("add", b'{"n": 1}', "k1"))
        second = await two.find(first.handle, there)
        assert (await second.call("add", b'{"n": 1}', "k1")).code is Code.OK
        held.set()
        assert (await refused(paused)).code is Code.REPEAT
        monkeypatch.setattr(one, "put_commit", commit)
        assert (await first.call("add", b'{"n": 1}', "k1")).code is Code.OK
        assert (await call(first, "read")).result.text == "1"
        assert first.calls[0].name == "add" and len(first.calls) == 2


async def test_a_commit_that_breaks_leaves_nothing_behind(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a replica did and could not write never happened, at this replica too."""
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        assert (await call(first, "add", "k0", n=1)).code is Code.OK
        commit = one.put_commit

        async def breaks(*given: Any) -> int:
            one._fences.pop(first.id)
            raise TypeError("a tuple item must be str, int, float or bytes")

        monkeypatch.setattr(one, "put_commit", breaks)
        with pytest.raises(TypeError):
            await call(first, "add", "k1", n=1)
        monkeypatch.setattr(one, "put_commit", commit)
        assert (await call(first, "read")).result.text == "1"
        second = await two.find(first.handle, served())
        for session in (first, second, first):
            assert (await call(session, "add", "k1", n=1)).code is Code.OK
        assert (await call(second, "read")).result.text == "2"


async def test_a_store_that_refuses_fails_the_session(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        run = one.line.run

        async def refuses(*given: Any, **how: Any) -> Any:
            raise StoreError("NOPERM this user has no permissions to run the 'evalsha' command")

        monkeypatch.setattr(one.line, "run", refuses)
        gone = await refused(call(first, "add", "k1", n=1))
        assert gone.failure is not None and gone.failure.kind == "provider_unavailable"
        assert (await refused(one.seed(served(), SeedRequest(row=ROW, caller_id="a")))).code is Code.REPEAT
        monkeypatch.setattr(one.line, "run", run)
        assert (await first.verify()).masked and (await (await two.find(first.handle, served())).verify()).masked


async def test_a_record_of_another_version_is_nobodys_to_hold(redis_server: RedisServer) -> None:
    """A replica that cannot read it says so, and leaves it to those that can."""
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        key = f"{shared.PREFIX}s:{first.id}"
        await one.line.ask(("HSET", key, "meta", b'[2,{"all":"else"}]'), 1.0)
        lost = await refused(two.find(first.handle, served()))
        assert lost.failure is not None and lost.failure.kind == "session_lost" and not two._fences
        assert (await call(first, "read")).code is Code.OK


async def test_redis_restarts(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        await call(first, "add", "k1", n=2)
        redis_server.kill()
        waiting = asyncio.create_task(call(first, "add", "k2", n=2))
        await asyncio.to_thread(redis_server.start)
        assert (await waiting).code is Code.OK
        assert (await call(await two.find(first.handle, served()), "read")).result.text == "4"


async def test_redis_stays_away(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        one.line.patience_s = 0.2
        here = served()
        first = await one.seed(here, SeedRequest(row=ROW))
        redis_server.kill()
        gone = await refused(call(first, "add", "k1", n=2))
        assert gone.code is Code.SESSION_FAILED and gone.failure.kind == "provider_unavailable"
        await asyncio.to_thread(redis_server.start)
        one.line.patience_s = 5.0
        outcome = await first.verify()
        assert outcome.masked and outcome.failure_kind == "provider_unavailable", "for good, though Redis is back"
        assert (await (await two.find(first.handle, served())).verify()).masked


@pytest.mark.parametrize("wiped", [False, True])
async def test_a_failure_is_written_as_soon_as_the_store_is_back(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, wiped: bool
) -> None:
    """Not at the next beat: until it is there, another replica would go on with the session."""
    monkeypatch.setattr(shared, "BEAT_S", 60.0)
    told: list[Failure] = []
    async with replicas(redis_server) as (one, two):
        one.failures.observers.append(lambda _, failure: told.append(failure))
        one.line.patience_s = 0.1
        sessions = [await one.seed(served(), SeedRequest(row=ROW)) for _ in range(5)]
        redis_server.kill()
        for session in sessions:
            assert (await refused(call(session, "add", "k1", n=2))).code is Code.SESSION_FAILED
        assert not told, "it is told once it is written"
        if wiped:
            shutil.rmtree(redis_server.folder / "appendonlydir")
        await asyncio.to_thread(redis_server.start)
        async with asyncio.timeout(2.0):
            while any(session in one.doomed for session in sessions):
                await asyncio.sleep(0.01)
        assert [failure.kind for failure in told] == ["provider_unavailable"] * len(sessions)
        for session in sessions if not wiped else ():
            assert (await (await two.find(session.handle, served())).verify()).masked


@pytest.mark.parametrize("outage", ["killed", "paused"])
async def test_no_other_replica_scores_what_failed_during_an_outage(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch, outage: str
) -> None:
    """Though it reaches the store before the one that has to write the failure."""
    monkeypatch.setattr(line, "SILENCE_S", 0.3)
    monkeypatch.setattr(shared, "BEAT_S", 0.05)
    async with replicas(redis_server) as (one, two):
        session = await one.seed(served(), SeedRequest(row=ROW))
        copy = await two.find(session.handle, served())
        one.line.patience_s = 0.1
        (redis_server.kill if outage == "killed" else redis_server.pause)()
        assert (await refused(call(session, "add", "k1", n=5))).code is Code.SESSION_FAILED
        connect = one.line._connect

        async def late() -> Any:
            await asyncio.sleep(0.4)
            return await connect()

        monkeypatch.setattr(one.line, "_connect", late)
        verifying = asyncio.create_task(copy.verify())
        await asyncio.to_thread(redis_server.start if outage == "killed" else redis_server.resume)
        outcome = await verifying
        assert outcome.masked and outcome.failure_kind == "provider_unavailable"


async def test_a_stranger_with_a_handle_does_no_harm_during_an_outage(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        session = await one.seed(served(), SeedRequest(row=ROW), owner="ann")
        two.line.patience_s = 0.1
        redis_server.kill()
        assert (await refused(two.find(session.handle, served(), "bob"))).code is Code.SESSION_FAILED
        await asyncio.to_thread(redis_server.start)
        two.line.patience_s = 5.0
        copy = await two.find(session.handle, served(), "ann")
        assert (await call(copy, "add", "k1", n=5)).code is Code.OK
        assert (await refused(two.find(session.handle, served(), "bob"))).code is Code.SESSION_LOST
        assert (await session.verify()).reward == 1.0


async def test_capacity_is_of_all_replicas(redis_server: RedisServer) -> None:
    async with replicas(redis_server, max_sessions=2, queue_timeout_s=0.3) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        second = await two.seed(served(), SeedRequest(row=ROW))
        assert (await refused(two.seed(served(), SeedRequest(row=ROW)))).code is Code.AT_CAPACITY
        await second.verify()
        third = await one.seed(served(), SeedRequest(row=ROW))
        await one.close(third)
        await one.close(first)


async def test_a_slow_seed_keeps_its_tokens_place(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a reservation lasts by itself: the token has no more places for that."""
    monkeypatch.setattr(shared, "LOCK_MS", 150)
    monkeypatch.setattr(shared, "BEAT_S", 0.03)
    go = asyncio.Event()

    class Slow(Counter):
        async def reset(self, row: Row) -> None:
            await go.wait()
            await super().reset(row)

    async with replicas(redis_server, sessions_per_token=1, queue_timeout_s=0.5) as (one, two):
        seeding = asyncio.create_task(one.seed(Served(Slow), SeedRequest(row=ROW), owner="ann"))
        await asyncio.sleep(0.4)
        full = await refused(two.seed(Served(Slow), SeedRequest(row=ROW), owner="ann"))
        go.set()
        assert full.code is Code.AT_CAPACITY and (await seeding).state is SessionState.SEEDED


async def test_a_lock_from_before_the_clock_was_set_back_is_nobodys(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        locked = "holder", "dead", "until", str(int((time.time() + 3600) * 1000))
        await one.line.ask(("HSET", f"{shared.PREFIX}s:{first.id}", *locked), 1.0)
        async with asyncio.timeout(2.0):
            assert (await call(await two.find(first.handle, served()), "read")).code is Code.OK


@pytest.mark.parametrize("broken", ["full", "unreadable"])
async def test_sessions_expire_whatever_the_store_says_of_one(redis_server: RedisServer, broken: str) -> None:
    async with replicas(redis_server, 1, idle_timeout_s=0.2) as (one,):
        assert one._keeper is not None
        one._keeper.cancel()
        seeded = [await one.seed(served(), SeedRequest(row=ROW, caller_id=f"a{number}")) for number in range(3)]
        if broken == "full":
            await one.line.ask(("CONFIG", "SET", "maxmemory", "1"), 1.0)
        else:
            await one.line.ask(("HSET", f"{shared.PREFIX}s:{seeded[1].id}", "head", "[]"), 1.0)
        told: list[Failure] = []
        one.failures.observers.append(lambda _, failure: told.append(failure))
        await asyncio.sleep(0.3)
        assert await one.sweep_store() == 3
        assert len(told) == (3 if broken == "full" else 2)
        await one.line.ask(("CONFIG", "SET", "maxmemory", "0"), 1.0)
        assert (await refused(seeded[0].verify())).code in (Code.SESSION_EXPIRED, Code.SESSION_LOST)


@pytest.mark.parametrize("caller_id", ["\ud800", "a\nb", ":", "x" * 512])
async def test_any_name_of_a_callers_own_is_kept(redis_server: RedisServer, caller_id: str) -> None:
    async with replicas(redis_server) as (one, two):
        asked = SeedRequest(row=ROW, caller_id=caller_id)
        first = await one.seed(served(), asked)
        assert (await two.seed(served(), asked)).id == first.id
        await two.close_caller(served(), "", caller_id)
        assert (await refused(one.seed(served(), asked))).code is Code.SEED_REFUSED


async def test_one_replica_expires_a_session(redis_server: RedisServer) -> None:
    async with replicas(redis_server, idle_timeout_s=0.2) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW, caller_id="a"))
        await asyncio.sleep(0.3)
        swept = await asyncio.gather(one.sweep_store(), two.sweep_store())
        assert sum(swept) <= 1
        assert (await refused(first.verify())).code is Code.SESSION_EXPIRED
        assert first.state is SessionState.EXPIRED


async def test_a_state_that_is_too_large_fails_the_session(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(redis_server, count=1) as (one,):
        first = await one.seed(served(), SeedRequest(row=ROW))
        monkeypatch.setattr(records, "MAX_STATE_BYTES", 0)
        assert (await call(first, "add", "k", n=1)).code is Code.SESSION_FAILED
        assert (await first.verify()).failure_kind == "persistence_failed"


async def test_another_owners_and_forged_handles(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW), owner="ann")
        assert (await refused(two.find(first.handle, served(), "bob"))).code is Code.SESSION_LOST
        assert (await refused(two.find(first.id + ".0123", served(), "ann"))).code is Code.SESSION_LOST
        assert (await call(await two.find(first.handle, served(), "ann"), "read")).code is Code.OK


async def test_a_seed_given_up_at_any_moment_keeps_no_place(redis_server: RedisServer) -> None:
    """Also while its reservation is on its way: the store has it then, and this replica does not know."""
    async with replicas(redis_server, 1, max_sessions=1, queue_timeout_s=1.0) as (one,):
        for turns in range(12):
            seeding = asyncio.create_task(one.seed(served(), SeedRequest(row=ROW, caller_id="a")))
            for _ in range(turns):
                await asyncio.sleep(0)
            seeding.cancel()
            if (await asyncio.gather(seeding, return_exceptions=True))[0].__class__ is asyncio.CancelledError:
                assert await one.line.ask(("ZCARD", shared.PREFIX + "live"), 1.0) == 0, f"after {turns} turns"
                assert not one._reserved
