"""One WebSocket of an OpenEnv server: asked message by message, answered in order, never reopened by itself.

A task of its own reads, so that the server's pings are answered while the policy thinks, and a lost socket is
known at once. No compression: it costs more than it saves at both ends. Nothing limits a message's size.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import aiohttp
import orjson
from aiohttp import WSMsgType
from yarl import URL

from ..servers.types import FailureKind, Json, Stage
from .patience import Busy, Undelivered, Unreachable, delivered
from .pool import CONNECT_TIMEOUT_S, Pool, unreachable
from .session import SessionFailed

#: What a gateway answers for a server that it lost.
LOST_STATUSES = (502, 504)
#: Seconds to wait for the server's half of the closing handshake.
CLOSE_WAIT_S = 2.0


class Dropped(SessionFailed):
    """The socket is lost: whether what was asked last was carried out is unknown."""


class Socket:
    """An open socket. `ask` from one task at a time or from several: answers keep the order of the questions."""

    def __init__(self, pool: Pool, websocket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self._pool, self._websocket = pool, websocket
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._unasked: deque[bytes] = deque()
        self._lost = ""
        self._reader = self._loop.create_task(self._read())

    @classmethod
    async def open(cls, pool: Pool, url: URL) -> Socket:
        """Connect, again where it cannot be had at once: an upgrade alone begins no episode.

        Raises `Busy`, or `SessionFailed` at stage seed.
        """

        async def connect() -> Socket:
            return await cls.connect(pool, url, Stage.SEED)

        return await delivered(connect, Stage.SEED, repeatable=True, patience_s=pool.patience_s)

    @classmethod
    async def connect(cls, pool: Pool, url: URL, stage: Stage) -> Socket:
        """Connect once. Raises `Busy`, `Undelivered` or `SessionFailed`."""
        timeout_s = CONNECT_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                return cls(pool, await pool.http().ws_connect(url, compress=0, max_msg_size=0, decode_text=False))
        except aiohttp.ClientConnectorError as error:
            raise unreachable(url, error) from None
        except TimeoutError:
            raise Unreachable(f"no WebSocket at {url} within {timeout_s:g} s") from None
        except aiohttp.WSServerHandshakeError as error:
            if error.status in (429, 503):
                raise Busy(f"{url} is busy: HTTP {error.status}", _seconds(error)) from None
            if error.status in LOST_STATUSES and pool.patience_s:
                raise Unreachable(f"no WebSocket at {url}: HTTP {error.status}") from None
            reason = f"{url} refused the WebSocket: HTTP {error.status}"
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Undelivered(f"{url.origin()} broke the connection ({type(error).__name__})") from None

    @property
    def lost(self) -> bool:
        return bool(self._lost) or self._websocket.closed

    async def ask(self, message: str, timeout_s: float, stage: Stage) -> Json:
        """Send a message and wait for its answer. Raises `SessionFailed`; the socket is of no more use then."""
        self.check(stage)
        future = self._loop.create_future()
        if self._unasked:
            future.set_result(self._unasked.popleft())  # an error that came before the question
        elif self.lost:
            raise self._dropped(stage)
        else:
            self._waiting.append(future)
            await self._send(message, stage)
        timer = self._loop.call_later(timeout_s, _expire, future)
        try:
            return self._decoded(await future, stage)
        except TimeoutError:
            self._lost = f"no answer within {timeout_s:g} s"
            raise SessionFailed(FailureKind.TRANSPORT_TIMEOUT, self._lost, stage) from None
        except ConnectionError:
            raise self._dropped(stage) from None
        finally:
            timer.cancel()

    def check(self, stage: Stage) -> None:
        """Raises `SessionFailed` where an answer came that nobody asked for: it would be the next question's."""
        for data in self._unasked:
            if self._decoded(data, stage).get("type") != "error":
                reason = "the server answered one question more than once"
                raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)

    def _decoded(self, data: bytes, stage: Stage) -> Json:
        answer = _message(data)
        if answer is None or answer.get("type") == "error":
            data = self._pool.hidden(data)
            answer = _message(data)
        if answer is None:
            reason = f"not a message of OpenEnv's: {data[:80]!r}"
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)
        return answer

    async def _send(self, message: str, stage: Stage) -> None:
        try:
            await self._websocket.send_str(message)
        except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
            self._lost = self._lost or f"{type(error).__name__} while sending"
            raise self._dropped(stage) from None

    def _dropped(self, stage: Stage) -> Dropped:
        reason = f"the socket is lost ({self._lost or 'closed'}); an episode cannot be taken up again"
        return Dropped(FailureKind.TRANSPORT_PEER_DROP, reason, stage)

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
                self._deliver(message.data)
                continue
            self._lost = self._lost or _why(message.type, self._websocket.close_code)
            for future in self._waiting:
                if not future.done():
                    future.set_exception(ConnectionError(self._lost))
            self._waiting.clear()
            return

    def _deliver(self, data: bytes) -> None:
        if not self._waiting:
            self._unasked.append(data)
            return
        future = self._waiting.popleft()
        if not future.done():  # else its caller gave up
            future.set_result(data)

    async def close(self, farewell: str = '{"type":"close"}') -> None:
        """Say goodbye where somebody may still listen, and close."""
        if not self._lost and not self._websocket.closed:
            try:
                async with asyncio.timeout(CLOSE_WAIT_S):
                    await self._websocket.send_str(farewell)
                    await asyncio.wait({self._reader})
            except (aiohttp.ClientError, ConnectionError, RuntimeError, TimeoutError):
                pass  # it is being closed anyway
        self._reader.cancel()
        await asyncio.wait({self._reader})
        try:
            async with asyncio.timeout(CLOSE_WAIT_S):
                await self._websocket.close()
        except TimeoutError:
            pass  # aiohttp has dropped the connection


def _seconds(error: aiohttp.WSServerHandshakeError) -> float | None:
    said = (error.headers or {}).get("Retry-After", "")
    return float(said) if said.isdecimal() else None


def _expire(future: asyncio.Future[bytes]) -> None:
    if not future.done():
        future.set_exception(TimeoutError())


def _why(kind: WSMsgType, code: int | None) -> str:
    if kind is WSMsgType.ERROR:
        return "the connection broke"
    return f"closed by the server, code {code}" if code is not None else "closed"


def _message(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and isinstance(value.get("data"), dict) else None
