"""What replicas that share a store count together: every session once, wherever it was, and by its name."""

from __future__ import annotations

import asyncio

from gymwire.servers.merging import Merger
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Sessions

from tests.servers.scrape import Scrape
from tests.servers.shared.conftest import RedisServer
from tests.servers.shared.test_shared_sessions import ROW, replicas, served


def together(*engines: Sessions) -> Scrape:
    return Scrape.of(Merger().text({str(place): engine.metrics.text() for place, engine in enumerate(engines)}))


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


async def test_a_drain_hands_sessions_over(redis_server: RedisServer) -> None:
    async with replicas(redis_server) as (one, two):
        for _ in range(3):
            await one.seed(served(), SeedRequest(row=ROW))
        await one.drain(0)
        read = together(one, two)
        assert read.get("gymwire_drained_total", fate="handed_over") == 3
        assert read.get("gymwire_drained_total", fate="failed") == 0
        assert read.get("gymwire_episodes_total", ending="failed") == 0
