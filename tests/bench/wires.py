"""HTTP/1.1 with keep-alive and WebSocket from the client's side, as little of them as a load generator needs."""

from __future__ import annotations

import asyncio
import base64
import os

from .load import Answer, Connection, Flow
from .processes import BenchError

AUTHORITY = "127.0.0.1:8200"  # whatever the port is: servers look at the name, and some want a port beside it
TEXT, CLOSE, PING, PONG = 0x1, 0x8, 0x9, 0xA


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A POST of JSON, whole."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"host: {AUTHORITY}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class HttpConnection(Connection):
    """One request at a time; answers must carry their length."""

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.begin()

    def send(self, payload: bytes) -> None:
        self.write(payload)

    def data_received(self, data: bytes) -> None:
        self._received = received = self._received + data if self._received else data
        end = received.find(b"\r\n\r\n")
        if end < 0:
            return
        head = received[:end].lower() if b"content-length: " not in received[:end] else received[:end]
        at = head.find(b"content-length: ")
        if at < 0:
            self._end(BenchError(f"an answer without its length: {received[:200]!r}"))
            return
        size = int(head[at + 16 :].split(b"\r", 1)[0])
        if len(received) < end + 4 + size:
            return
        self._received = b""
        self.answered(Answer(int(received[9:12]), received[:end], received[end + 4 : end + 4 + size]))


class SocketConnection(Connection):
    """A WebSocket at `path`; payloads are the text of messages. Whole messages only, no extensions."""

    path = "/"

    def __init__(self, flow: Flow) -> None:
        super().__init__(flow)
        self._received = b""
        self._upgraded = False

    @classmethod
    def at(cls, path: str) -> type[SocketConnection]:
        return type("SocketConnection", (cls,), {"path": path})

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        key = base64.b64encode(os.urandom(16)).decode()
        self.write(
            f"GET {self.path} HTTP/1.1\r\nhost: {AUTHORITY}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            f"sec-websocket-key: {key}\r\nsec-websocket-version: 13\r\n\r\n".encode()
        )

    def send(self, payload: bytes) -> None:
        self._send_frame(TEXT, payload)

    def _send_frame(self, opcode: int, payload: bytes) -> None:
        """The mask is all zeros, which the server has to apply like any other."""
        size = len(payload)
        if size < 126:
            head = bytes((0x80 | opcode, 0x80 | size))
        elif size < 65536:
            head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2)
        else:
            head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8)
        self.write(head + b"\0\0\0\0" + payload)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._upgraded and not self._read_upgrade():
            return
        while (frame := self._next_frame()) is not None:
            opcode, payload = frame
            if opcode == TEXT:
                self.answered(Answer(0, b"", payload))
            elif opcode == PING:
                self._send_frame(PONG, payload)
            elif opcode == CLOSE:
                self._send_frame(CLOSE, payload[:2])

    def _read_upgrade(self) -> bool:
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return False
        if head[9:12] != b"101":
            self._end(BenchError(f"no WebSocket at {self.path}: {head[:200]!r}"))
            return False
        self._received, self._upgraded = rest, True
        self.begin()
        return True

    def _next_frame(self) -> tuple[int, bytes] | None:
        received = self._received
        if len(received) < 2:
            return None
        size, at = received[1] & 0x7F, 2
        if size == 126:
            size, at = int.from_bytes(received[2:4]), 4
        elif size == 127:
            size, at = int.from_bytes(received[2:10]), 10
        if len(received) < at + size:
            return None
        self._received = received[at + size :]
        return received[0] & 0x0F, received[at : at + size]
