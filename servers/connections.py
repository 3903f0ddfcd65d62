"""Connections that a stranger may open: how many, how long a request may take to arrive, how much header it may have.

uvicorn bounds none of these with httptools. One look a second at all connections does, instead of a timer a request.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from dataclasses import dataclass
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .answers import Code
from .door import SecurityLog

LOOK_EVERY_S = 1.0
RETRY_AFTER_S = 5
REASONS = {
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
TOO_MANY, TOO_MUCH_HEAD = "too many connections are open", "the request's head is too large"
#: Connections past the limit that are still told why; more are closed without a word.
MORE_TOLD = 64
#: Bytes on the line for each byte of a body, at most (chunks of one byte take six): else it is a flood of trailers.
FRAMING = 8
#: Lines of uvicorn's that anybody can have written as often as they like.
NOISE = frozenset(("Invalid HTTP request received.", "Unsupported upgrade request."))


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Times in seconds. A body may take `body_s`, and longer the more of it has come, at `body_bytes_per_s`."""

    connections: int = 0  # 0: nine tenths of the files that this process may open
    head_s: float = 10.0
    body_s: float = 30.0
    body_bytes_per_s: float = 100_000.0
    head_bytes: int = 32 * 1024
    headers: int = 100

    @property
    def most(self) -> int:
        return self.connections or resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 9 // 10


class Watch:
    """What all connections of a server share: the limits, the log, and a clock that ticks once a look.

    The clock stands still while this process does: a tool that holds up the loop is not its clients' delay.
    """

    def __init__(self, limits: ConnectionLimits, log: SecurityLog) -> None:
        self.limits, self.log, self.most = limits, log, limits.most
        self.now = 0.0
        logging.getLogger("uvicorn.error").addFilter(_quiet)

    async def look_for_ever(self, connections: set[Any]) -> None:
        """Look at uvicorn's set of connections, again and again."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            now = time.monotonic()
            self.now += min(now - last, 2 * LOOK_EVERY_S)
            last = now
            for connection in list(connections):
                if isinstance(connection, Connection):
                    connection.look()


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP connection, bounded. `watch` is set on a subclass, one for each server."""

    watch: Watch

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since: float | None = self.watch.now  # when what is arriving began; None: nothing is
        self._in_head, self._bytes, self._body_bytes = True, 0, 0
        self._ended, self._over = False, len(self.connections) - self.watch.most
        if self._over > MORE_TOLD:
            self._end(503, Code.AT_CAPACITY, TOO_MANY)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if self._over > 0:  # told now: what is closed with a request unread, resets before its answer is read
            self._end(503, Code.AT_CAPACITY, TOO_MANY)
            return
        if self._since is None:
            self._since = self.watch.now
        self._bytes += len(data)
        super().data_received(data)
        most = self.watch.limits.head_bytes + FRAMING * self._body_bytes
        if self._bytes > most and self._since is not None and not self._ended:
            self._end(431, Code.TOO_LARGE, TOO_MUCH_HEAD)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._since is None:  # pipelined behind another
            self._since = self.watch.now
        self._in_head, self._body_bytes = True, 0

    def on_headers_complete(self) -> None:
        limits = self.watch.limits
        many = len(self.headers) > limits.headers
        if many or (self._bytes > limits.head_bytes and self._bytes_of_head() > limits.head_bytes):
            self._end(431, Code.TOO_LARGE, TOO_MUCH_HEAD)
            raise ValueError(TOO_MUCH_HEAD)  # ends the parsing
        self._in_head = False
        super().on_headers_complete()

    def _bytes_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since, self._in_head, self._bytes = None, True, 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if not self._ended:
            self._ended = True
            self._written_down("malformed_request")
            super().send_400_response(msg)

    def look(self) -> None:
        """End a request that takes too long to arrive."""
        if self._since is None or self._ended:
            return
        if self.pipeline or (self._in_head and self._answering()):  # it waits for its turn, which is ours to give
            self._since = self.watch.now
            return
        limits, waited_s = self.watch.limits, self.watch.now - self._since
        if self._in_head:
            if waited_s > limits.head_s:
                self._end(408, Code.TOO_SLOW, "no whole request came in time")
        elif waited_s > limits.body_s + self._body_bytes / limits.body_bytes_per_s:
            self._end(408, Code.TOO_SLOW, "the request's body did not arrive in time")

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end(self, status: int, code: Code, why: str) -> None:
        """Say why, where no other answer is due or under way, and close."""
        self._ended = True
        self._written_down("too_many_connections" if status == 503 else code.value)
        cycle, answering = self.cycle, self._answering()
        if self._in_head:
            sayable = not answering and (self._bytes > 0 or status == 503)
        else:
            sayable = answering and not cycle.response_started
        if answering:
            cycle.disconnected = True
            cycle.message_event.set()
        if sayable:
            self.transport.write(_answer(status, code, why))
        self.transport.close()

    def _written_down(self, event: str) -> None:
        self.watch.log.write(event, "a connection", str(self.client[0]) if self.client else "a local socket")


def _answer(status: int, code: Code, why: str) -> bytes:
    body = orjson.dumps({"code": code.value, "error": f"The connection is closed: {why}."})
    retry = b"retry-after: %d\r\n" % RETRY_AFTER_S if status == 503 else b""
    head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nx-gymwire-code: %b\r\n%b"
    return head % (status, REASONS[status], len(body), code.value.encode(), retry) + b"connection: close\r\n\r\n" + body


def _quiet(record: logging.LogRecord) -> bool:
    return record.msg not in NOISE
