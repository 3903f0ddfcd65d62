"""What replicas that share a store count together: every session once, wherever it was, and by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gymwire.adapters.top.scrape import Look, Server
from gymwire.adapters.top.view import View, view
from gymwire.servers.catalog import Served
from gymwire.servers.merging import Merger
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Limits, Sessions
from yarl import URL

from tests.pinned import Pinned
from tests.servers.scrape import Scrape
from tests.servers.shared.conftest import RedisServer
from tests.servers.shared.test_shared_sessions import ROW, replicas, served


async def after(condition: Callable[[], bool]) -> None:
    """Until the keepers have seen it: they look once a second."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.02)


def together(*engines: Sessions) -> Scrape:
    return Scrape.of(Merger().text({str(place): engine.metrics.text() for place, engine in enumerate(engines)}))


def top(*engines: Sessions) -> View:
    """What `gymwire top` shows of a URL each."""
    looks = [Look.of(engine.metrics.text().decode(), 0.0) for engine in engines]
    return view([Server(URL(f"http://{place}"), look=look) for place, look in enumerate(looks)], 0.0)


async def test_a_session_that_moves_is_seeded_and_ends_once(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW, caller_id="row:1:0:0"))
        await first.call("add", b'{"n": 1}', "k")
        there = await two.find(first.handle, served())
        assert there.about == first.about and there.about.episode_id == "row:1:0:0"
        await there.verify()
        await there.verify()
        await one.close(first)
        read = together(one, two)
        assert read.get("gymwire_seeds_total") == 1 and read.get("gymwire_calls_total", code="ok") == 1
        assert read.get("gymwire_episodes_total", ending="finished") == read.get("gymwire_episodes_total") == 1
        assert read.get("gymwire_verify_seconds_count") == 1


async def test_an_expired_session_is_reclaimed_once(redis_server: RedisServer) -> None:
    async with replicas(redis_server, idle_timeout_s=0.05) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        while together(one, two).get("gymwire_reclaimed_total") == 0:
            await asyncio.gather(one.sweep_store(), two.sweep_store())
        await asyncio.gather(one.sweep_store(), two.sweep_store())
        read = together(one, two)
        assert read.get("gymwire_reclaimed_total") == read.get("gymwire_episodes_total", ending="failed") == 1
        assert read.get("gymwire_failures_total", kind="session_expired", stage="idle") == 1
        assert read.get("gymwire_episodes_total") == 1, first.id


async def test_the_stores_slots_are_told_by_all_and_counted_once(redis_server: RedisServer) -> None:
    async with replicas(redis_server, max_sessions=3) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        await two.seed(served(), SeedRequest(row=ROW))
        for engine in (one, two):
            await after(lambda engine=engine: engine.store_slots().free == 1)
            read = Scrape.of(engine.metrics.text())
            assert [read.get(f"gymwire_store_slots{what}") for what in ("", "_free")] == [3, 1]
            assert read.get("gymwire_slots") == read.get("gymwire_slots_free") == 0, "nothing stays in a process here"
            assert engine.slots_of(served()) == (3, 1)
        ((labels, _),) = together(one, two).values["gymwire_store_slots"]
        assert labels["store"] == one.fleet.seen.store == two.fleet.seen.store != ""
        assert together(one, two).get("gymwire_store_slots_free") == 1
        shown = top(one, two, Sessions(Limits(max_sessions=5)))
        assert [(line.slots, line.slots_free) for line in shown.servers] == [(3, 1), (3, 1), (5, 5)]
        assert (shown.total["live"], shown.total["slots"], shown.total["slots_free"]) == (2, 8, 6)
        await first.verify()
        await after(lambda: together(one, two).get("gymwire_store_slots_free") == 2)


async def test_slots_of_this_process_are_for_environments_that_stay_in_it(redis_server: RedisServer) -> None:
    async with replicas(redis_server, max_sessions=3) as (one, _):
        await one.open([served(), Served(Pinned)])
        await one.seed(Served(Pinned), SeedRequest(split="eval", index=0))
        read = Scrape.of(one.metrics.text())
        assert [read.get(f"gymwire_slots{what}") for what in ("", "_free")] == [3, 2]
        assert one.slots_of(Served(Pinned)) == (3, 2) and one.store_slots().free == 3


async def test_a_live_session_counts_where_it_was_worked_on_last(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        there = await two.find(first.handle, served())
        await there.call("add", b'{"n": 1}', "k")
        await after(lambda: together(one).get("gymwire_sessions") == 0)
        assert together(two).get("gymwire_sessions", state="active") == 1
        await first.call("add", b'{"n": 1}', "l")
        await after(lambda: together(two).get("gymwire_sessions") == 0)
        assert together(one, two).get("gymwire_sessions") == 1


async def test_seeds_that_wait_for_the_store_are_queued(redis_server: RedisServer) -> None:
    async with replicas(redis_server, max_sessions=1) as (one, two):
        first = await one.seed(served(), SeedRequest(row=ROW))
        waiting = asyncio.create_task(two.seed(served(), SeedRequest(row=ROW)))
        await after(lambda: together(one, two).get("gymwire_seeds_queued") == 1)
        await one.close(first)
        await waiting
        assert together(one, two).get("gymwire_seeds_queued") == 0


async def test_a_drain_hands_sessions_over(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        for _ in range(3):
            await one.seed(served(), SeedRequest(row=ROW))
        await one.drain(0)
        read = together(one, two)
        assert read.get("gymwire_drained_total", fate="handed_over") == 3
        assert read.get("gymwire_drained_total", fate="failed") == 0
        assert read.get("gymwire_episodes_total", ending="failed") == 0
