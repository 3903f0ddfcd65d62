"""Replicas of one store agree on the keys of handles, or do not start; keys are replaced under live sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from gymwire.servers.answers import Code
from gymwire.servers.environment import DefinitionError
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Limits
from gymwire.servers.shared import fleet
from gymwire.servers.shared.line import Address
from gymwire.servers.shared.sessions import SharedSessions
from gymwire.servers.signing import Signer

from tests.servers.engine import call

from .conftest import RedisServer
from .test_shared_sessions import ROW, served

OLD, NEW = b"old" * 11, b"new" * 11
Start = Callable[..., Awaitable[SharedSessions]]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replicas that say nothing are taken for dead at once."""
    monkeypatch.setattr(fleet, "THERE_MS", 2_000)
    monkeypatch.setattr(fleet, "GRACE_S", -1.9)


@asynccontextmanager
async def starting(redis: RedisServer) -> AsyncIterator[Start]:
    """A function that starts a replica with keys of a file; all of them are drained at the end."""
    async with AsyncExitStack() as stack:

        async def start(*keys: bytes) -> SharedSessions:
            made = SharedSessions(Address.read(redis.url), Limits(), timeout_s=5.0, keys=keys)
            stack.push_async_callback(made.drain, 1.0)
            await made.open()
            return made

        yield start


async def why_not(starting: Awaitable[SharedSessions]) -> str:
    with pytest.raises(DefinitionError) as caught:
        await starting
    return str(caught.value)


async def test_the_key_of_a_file_is_all_replicas_and_never_in_the_store(redis_server: RedisServer) -> None:
    async with starting(redis_server) as start:
        one, two = await start(OLD), await start(OLD)
        first = await one.seed(served(), SeedRequest(row=ROW))
        assert Signer(OLD).is_ours(first.handle)
        assert (await call(await two.find(first.handle, served()), "add", n=1)).code is Code.OK
        assert await one.line.ask(("EXISTS", fleet.KEY), 1.0) == 0
    kept = [path.read_bytes() for path in redis_server.folder.rglob("*.aof")]
    assert any(first.id.encode() in text for text in kept) and not any(OLD in text for text in kept)


@pytest.mark.parametrize(
    ("there", "late", "sentence"),
    [
        ((OLD,), (NEW,), "give all of them the same --signing-key-file"),
        ((OLD,), (NEW, OLD), "give all of them the same --signing-key-file"),
        ((OLD, NEW), (NEW,), "give all of them the same --signing-key-file"),
        ((OLD,), (), "give this one the same --signing-key-file"),
        ((), (NEW,), "give all of them the same --signing-key-file"),
    ],
)
async def test_replicas_that_would_refuse_each_others_handles_do_not_start(
    redis_server: RedisServer, there: tuple[bytes, ...], late: tuple[bytes, ...], sentence: str
) -> None:
    async with starting(redis_server) as start:
        one = await start(*there)
        assert sentence in await why_not(start(*late))
        again = await start(*there)
        first = await one.seed(served(), SeedRequest(row=ROW))
        assert (await call(await again.find(first.handle, served()), "add", n=1)).code is Code.OK


async def test_a_new_key_takes_over_under_a_live_session(redis_server: RedisServer) -> None:
    async with starting(redis_server) as start:
        one = await start(OLD)
        first = await one.seed(served(), SeedRequest(row=ROW, caller_id="a"))
        believing = await start(OLD, NEW)
        await one.drain(1.0)
        signing, there = await start(NEW, OLD), served()
        moved = await signing.find(first.handle, there)
        assert (await call(moved, "add", "k", n=2)).code is Code.OK
        assert await signing.seed(there, SeedRequest(row=ROW, caller_id="a")) is moved, "one copy, by either handle"
        assert await signing.find(moved.handle, there) is moved and moved.handle != first.handle
        assert (await call(await believing.find(moved.handle, served()), "read")).result.text == "2"


async def test_a_key_is_not_forgotten_before_its_sessions(redis_server: RedisServer) -> None:
    async with starting(redis_server) as start:
        one = await start(OLD)
        first = await one.seed(served(), SeedRequest(row=ROW))
        await one.drain(1.0)
        assert "keep that one as a further line" in await why_not(start(NEW))
        assert "--signing-key-file" in await why_not(start())
        again = await start(NEW, OLD)
        await again.close(await again.find(first.handle, served()))
        await again.drain(1.0)
        assert Signer(NEW).is_ours((await (await start(NEW)).seed(served(), SeedRequest(row=ROW))).handle)


async def test_a_deployment_whose_key_is_in_the_store_goes_on_with_a_file(redis_server: RedisServer) -> None:
    async with starting(redis_server) as start:
        one = await start()
        first = await one.seed(served(), SeedRequest(row=ROW))
        await one.drain(1.0)
        two = await start(NEW)
        assert (await call(await two.find(first.handle, served()), "add", n=1)).code is Code.OK
        assert Signer(NEW).is_ours((await two.seed(served(), SeedRequest(row=ROW))).handle)
        assert 0 < await two.line.ask(("PTTL", fleet.KEY), 1.0) <= Limits().lifetime_s * 1000


async def test_a_replica_that_died_is_waited_for(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with starting(redis_server) as start:
        dead = await start(OLD)
        assert dead._keeper is not None
        dead._keeper.cancel()
        monkeypatch.setattr(fleet, "GRACE_S", 2.0)
        await start(NEW)
