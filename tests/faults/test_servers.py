"""A server that dies or is told to stop: one typed failure at the client, at once, and a count in its log."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from gymwire.adapters import SessionFailed, connect

from tests.faults.watching import watching
from tests.serving import serving
from tests.wires import WIRES, world
from tests.worlds import PLACES

pytestmark = pytest.mark.slow
KINDS = {"transport_peer_drop", "transport_unreachable", "session_lost"}


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_server_killed_in_the_middle_of_an_episode_is_one_typed_failure(tmp_path: Path, wire: str) -> None:
    with serving(tmp_path / "log", *PLACES) as server:
        async with world("kit", wire, server.url) as connection:
            busy, idle = [await connection.session(split="eval", index=index) for index in range(2)]
            assert (await busy.call("count")).text == "0"
            napping = asyncio.create_task(busy.call("nap", {"seconds": 30}))
            await asyncio.sleep(0.2)
            server.kill()
            started = time.monotonic()
            for work in (napping, idle.call("count"), busy.call("count"), busy.verify(), idle.verify()):
                with pytest.raises(SessionFailed) as caught:
                    await work
                assert caught.value.kind in KINDS
            assert time.monotonic() - started < 10
            with pytest.raises(SessionFailed):
                await connection.session(split="eval", index=0)
            await asyncio.gather(busy.close(), idle.close())


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_server_that_is_told_to_stop_finishes_calls_and_counts_what_it_fails(tmp_path: Path, wire: str) -> None:
    with serving(tmp_path / "log", *PLACES) as server:
        async with connect(server.url, env="kit", wire=wire, patience_s=0.0) as connection:
            busy, idle = [await connection.session(split="eval", index=index) for index in range(2)]
            napping = asyncio.create_task(busy.call("nap", {"seconds": 1.0}))
            async with watching(server) as watched:
                await watched.until(lambda now: now["gymwire_requests_in_flight"] == 1)
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.1)
            assert (await napping).text == "awake"
            with pytest.raises(SessionFailed) as caught:
                await connection.session(split="eval", index=0)
            assert caught.value.kind in {"provider_unavailable", *KINDS}
            await asyncio.to_thread(server.process.wait, 15)
            with pytest.raises(SessionFailed):
                await idle.verify()
            await asyncio.gather(busy.close(), idle.close())
        assert "shut down with 2 live sessions" in server.log_text()
