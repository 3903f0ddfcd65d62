"""A wire between a trainer and its server that a test can cut: a TCP relay of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Passes bytes on, until its connections are cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def cut(self) -> int:
        """Abort every connection there is; new ones are accepted. Answers how many there were."""
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.transport.abort()
        return len(writers)

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writers += [writer, onward_writer]
            await asyncio.gather(_pass(reader, onward_writer), _pass(onward_reader, writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        writer.close()


@asynccontextmanager
async def relaying(url: str) -> AsyncIterator[Relay]:
    relay = Relay(int(url.rsplit(":", 1)[1]))
    server = await asyncio.start_server(relay.accept, "127.0.0.1", 0)
    relay.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        relay.cut()
        await asyncio.sleep(0.05)
