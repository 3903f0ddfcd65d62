"""The connection to Redis: nobody gets another's answer, and a Redis that cannot serve now is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from gymwire.servers.shared.line import Address, Line, StoreAway, StoreError
from gymwire.servers.shared.scripts import CLAIM

from .conftest import RedisServer

SET = ("SET", "gymwire:x", "1")


@asynccontextmanager
async def line(redis: RedisServer) -> AsyncIterator[Line]:
    made = Line(Address.read(redis.url), 5.0)
    try:
        yield made
    finally:
        await made.close()


async def test_what_cannot_be_sent_shifts_no_answers(redis_server: RedisServer) -> None:
    async with line(redis_server) as one:
        await one.ask(("PING",), 1.0)
        for words in (("GET", "\ud800"), ("SET", "x", None)):
            with pytest.raises((UnicodeEncodeError, TypeError)):
                await one.ask(words, 1.0)
        asked = [one.ask(("ECHO", str(number)), 1.0) for number in range(20)]
        assert await asyncio.gather(*asked) == [str(number).encode() for number in range(20)]


CANNOT_NOW = {
    "full": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
    "too few replicas": (
        ("CONFIG", "SET", "min-replicas-to-write", "1"),
        ("CONFIG", "SET", "min-replicas-to-write", "0"),
    ),
    "read-only": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
}


@pytest.mark.parametrize("why", CANNOT_NOW)
async def test_a_store_that_takes_nothing_now_is_waited_for(redis_server: RedisServer, why: str) -> None:
    breaks, mends = CANNOT_NOW[why]
    async with line(redis_server) as one, line(redis_server) as operator:
        await operator.ask(breaks, 1.0)
        with pytest.raises(StoreAway) as away:
            await one.ask(SET, 0.3)
        assert not isinstance(away.value, StoreError)
        waiting = asyncio.create_task(one.ask(SET, 5.0))
        await asyncio.sleep(0)
        await operator.ask(mends, 1.0)
        assert await waiting == b"OK"


async def test_scripts_that_are_gone_are_loaded_again(redis_server: RedisServer) -> None:
    async with line(redis_server) as one:
        await one.ask(("SCRIPT", "FLUSH"), 1.0)
        assert await one.run(CLAIM, ("gymwire:c:x",), "", 1000) == 1


async def test_a_wrong_password_is_said_at_once(redis_server: RedisServer) -> None:
    async with line(redis_server) as operator:
        await operator.ask(("CONFIG", "SET", "requirepass", "right"), 1.0)
        other = Line(Address(path=str(redis_server.path), password="wrong"), 5.0)
        async with asyncio.timeout(2.0):
            with pytest.raises(StoreError):
                await other.ask(SET, 5.0)
        await other.close()
