"""What the door does with the messages of a socket that asks too often."""

from __future__ import annotations

import asyncio
from typing import Any

from gymwire.servers.auth import Guard
from gymwire.servers.door import Door
from gymwire.servers.rates import Rates


async def _send(message: Any) -> None:
    raise AssertionError(f"nothing is to be sent: {message}")


async def test_a_message_that_waits_for_its_turn_is_not_lost_when_its_reader_gives_up() -> None:
    """A face reads ahead to notice that a client leaves, and stops reading once its answer is there."""
    coming: asyncio.Queue[Any] = asyncio.Queue()
    for text in ("first", "second"):
        coming.put_nowait({"type": "websocket.receive", "text": text})
    rates = Rates(20.0)
    listen = Door(Guard(), rates).listening("", coming.get, _send)
    while rates.wait_s("") == 0:
        pass
    for _ in range(3):
        reading = asyncio.ensure_future(listen())
        await asyncio.wait({reading}, timeout=0.001)
        assert reading.cancel()
        await asyncio.wait({reading})
    async with asyncio.timeout(5.0):
        assert [(await listen())["text"] for _ in range(2)] == ["first", "second"]
