"""An engine that can stop and return: a socket that passes everything on to the real one."""

from __future__ import annotations

import asyncio
from pathlib import Path


class Relay:
    """Listens at `path`. Stopping it cuts every connection, as a daemon's end does."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path, self._engine = path, engine
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_unix_server(self._accept, self.path)

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        there, to_engine = await asyncio.open_unix_connection(self._engine)
        self._writers |= {writer, to_engine}
        await asyncio.gather(_pump(reader, to_engine), _pump(there, writer))
        self._writers -= {writer, to_engine}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
