"""Tools and graders that hang, raise, or return what nobody can carry: one session each, and nothing is left of it."""

from __future__ import annotations

import asyncio

import pytest
from gymwire.adapters import SessionFailed
from gymwire.servers.types import Row

from tests.faults.conftest import SLOTS
from tests.faults.watching import Watched
from tests.wires import world

pytestmark = pytest.mark.slow
FAILING = ["raise", "hang", "exit", "memory", "stop", "bytes", "object", "a picture of bytes"]
ANSWERED = ["nan", "surrogates", "nested surrogates", "50 MB", "50 MB of JSON"]


async def test_no_failure_of_a_tool_touches_the_server_or_its_neighbours(watched: Watched, wire: str) -> None:
    async with world("breaks", wire, watched.url) as connection:

        async def fails(how: str, tool: str) -> str:
            async with connection.session(row=Row.of("x", stage="call", how=how)) as session:
                with pytest.raises(SessionFailed) as caught:
                    await session.call(tool)
                return caught.value.kind

        async def works() -> None:
            async with connection.session(row=Row.of("x")) as session:
                for _ in range(10):
                    assert (await session.call("act")).text == "fine"
                assert (await session.verify()).reward == 1.0

        work = [fails(how, tool) for how in FAILING for tool in ("crash", "crash_in_thread")]
        kinds = await asyncio.wait_for(asyncio.gather(*work, *(works() for _ in range(10))), 20)
    assert set(kinds) == {"breaks:exception", "breaks:tool_timeout", None}
    await watched.until_free(SLOTS)


async def test_odd_results_are_answered_and_their_memory_returns(watched: Watched, wire: str) -> None:
    async with world("breaks", wire, watched.url) as connection:

        async def answered(how: str) -> None:
            async with connection.session(row=Row.of("x", stage="call", how=how)) as session:
                assert len((await session.call("crash")).text) < 1_000_200
                assert (await session.verify()).reward == 1.0

        for how in ANSWERED:
            await answered(how)
        before_mb = watched.memory_mb()
        for _ in range(3):
            await asyncio.gather(*(answered(how) for how in ANSWERED))
    await watched.until_free(SLOTS)
    assert watched.memory_mb() - before_mb < 100


async def test_graders_that_hang_free_their_slots(watched: Watched, wire: str) -> None:
    async with world("breaks", wire, watched.url) as connection:

        async def fails() -> None:
            async with connection.session(row=Row.of("x", stage="verify", how="hang")) as session:
                with pytest.raises(SessionFailed):
                    await session.verify()

        await asyncio.wait_for(asyncio.gather(*(fails() for _ in range(2 * SLOTS))), 60)
    await watched.until_free(SLOTS)


async def test_failures_are_counted_by_kind_stage_and_tool(watched: Watched) -> None:
    name = 'gymwire_failures_total{environment="breaks",kind="breaks:exception",stage="call",tool="crash"}'
    before = (await watched.figures()).get(name, 0.0)
    async with world("breaks", "nemo-gym", watched.url) as connection:
        for _ in range(3):
            async with connection.session(row=Row.of("x", stage="call")) as session:
                with pytest.raises(SessionFailed):
                    await session.call("crash")
    assert (await watched.figures())[name] == before + 3
