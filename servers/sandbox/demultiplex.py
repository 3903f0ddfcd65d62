"""The stream of an attached container: the engine puts a header before every piece of output."""

from __future__ import annotations

import asyncio
import socket
import struct

HEADER = struct.Struct(">BxxxI")
STDOUT = 1


async def streams(attached: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """The container's stdout and stdin."""
    attached.setblocking(False)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = _Stdout(reader)
    transport, _ = await loop.create_connection(lambda: protocol, sock=attached)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


class _Stdout(asyncio.StreamReaderProtocol):
    """Passes on what belongs to stdout."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self._head = bytearray()
        self._kind = self._left = 0

    def data_received(self, data: bytes) -> None:
        view = memoryview(data)
        while len(view):
            if self._left == 0:
                view = self._read_header(view)
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            if self._kind == STDOUT:
                super().data_received(bytes(piece))

    def _read_header(self, view: memoryview) -> memoryview:
        missing = HEADER.size - len(self._head)
        self._head += view[:missing]
        if len(self._head) == HEADER.size:
            self._kind, self._left = HEADER.unpack(self._head)
            self._head.clear()
        return view[missing:]
