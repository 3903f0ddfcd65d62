"""Slots and the fair queue in front of them."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from gymwire.servers import Environment, Transcript
from gymwire.servers.answers import Code
from gymwire.servers.catalog import Served
from gymwire.servers.queueing import PerOwner, QueueTimeout, Slots
from gymwire.servers.session import Session

from tests.servers.engine import Engine, Notes, refused, until


async def test_whoever_waits_is_served_in_order_of_arrival() -> None:
    slots, order = Slots(1, 5.0), []
    await slots.take()

    async def wait(name: str) -> None:
        await slots.take()
        order.append(name)
        slots.give()

    waiting = [asyncio.create_task(wait(name)) for name in "abcde"]
    await until(lambda: slots.queued == 5)
    slots.give()
    await asyncio.gather(*waiting)
    assert order == list("abcde") and slots.free == 1


async def test_nobody_overtakes_the_queue() -> None:
    slots = Slots(1, 5.0)
    await slots.take()
    first = asyncio.create_task(slots.take())
    await until(lambda: slots.queued == 1)
    slots.give()
    assert not slots.try_take()
    await first


async def test_a_wait_that_is_too_long_is_refused_and_leaves_the_queue() -> None:
    slots = Slots(1, 0.005)
    await slots.take()
    with pytest.raises(QueueTimeout):
        await slots.take()
    assert slots.queued == 0
    slots.give()
    assert slots.free == 1


async def test_whoever_leaves_gives_way_to_the_next() -> None:
    slots = Slots(1, 5.0)
    await slots.take()
    leaver, stayer = asyncio.create_task(slots.take()), asyncio.create_task(slots.take())
    await until(lambda: slots.queued == 2)
    leaver.cancel()
    slots.give()
    await stayer
    slots.give()
    assert slots.free == 1 and slots.queued == 0


async def test_a_slot_handed_over_in_the_moment_of_leaving_comes_back() -> None:
    slots = Slots(1, 5.0)
    await slots.take()
    leaver = asyncio.create_task(slots.take())
    await until(lambda: slots.queued == 1)
    slots.give()
    leaver.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaver
    assert slots.free == 1


async def test_a_full_server_says_when_to_come_back() -> None:
    engine, served = Engine(max_sessions=1, queue_timeout_s=0.005), Served(Notes)
    await engine.start(served)
    refusal = await refused(engine.start(served))
    assert refusal.code is Code.AT_CAPACITY and refusal.status == 503 and refusal.retry_after_s
    await engine.drain(0)


async def test_a_thousand_seeds_against_64_slots_with_half_of_the_clients_leaving() -> None:
    class Instant(Environment):
        def verify(self, transcript: Transcript) -> float:
            return 0.0

    engine, served, rng = Engine(max_sessions=64, queue_timeout_s=30.0), Served(Instant), Random(0)
    served_in_order: list[int] = []

    async def client(number: int) -> Session:
        session = await engine.start(served)
        served_in_order.append(number)
        return session

    clients = [asyncio.create_task(client(number)) for number in range(1000)]
    await until(lambda: engine.slots.queued == 936)
    leaving = {number for number in range(64, 1000) if rng.random() < 0.5}
    for number in leaving:
        clients[number].cancel()
    live = [await clients[number] for number in range(64)]
    staying = [number for number in range(64, 1000) if number not in leaving]
    while live or not all(task.done() for task in clients):
        if live:
            await engine.close(live.pop(rng.randrange(len(live))))
        await asyncio.sleep(0)
        live += [
            task.result()
            for number, task in enumerate(clients)
            if task.done() and not task.cancelled() and task.result().state == "seeded" and task.result() not in live
        ]
    assert served_in_order == [*range(64), *staying]
    assert engine.all_free and engine.slots.queued == 0 and len(engine.store) == 0
    assert all(clients[number].cancelled() for number in leaving)
    await engine.drain(0)


async def test_an_owner_waits_for_its_own_slots_and_others_do_not() -> None:
    owners = PerOwner(1, 0.02)
    await owners.take("a")
    await owners.take("b")
    await owners.take("")  # nobody's: not counted
    with pytest.raises(QueueTimeout):
        await owners.take("a")
    owners.give("a")
    await owners.take("a")
    for owner in ("a", "b", ""):
        owners.give(owner)
    assert owners._slots == {}
