"""One connection to Redis for everybody in a process: what is asked in one turn of the loop is sent at once.

A round trip through a client library costs more than all that we ask it for; a pipeline that fills itself costs
almost nothing. The connection is made again when it is lost; what was on its way then is asked once more, so whatever
is asked here must be fit to be asked twice (`scripts`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from dataclasses import dataclass
from math import inf
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import hiredis

from .scripts import SCRIPTS, Script

#: Seconds without an answer after which the connection counts as lost.
SILENCE_S = 5.0
CONNECT_S = 2.0
#: Pause before the next attempt to connect.
PAUSE_S = 0.1
#: How a Redis says that it is there and cannot serve now: it loads, is full, cannot write, or has lost its scripts.
FOR_NOW = (
    "LOADING",
    "BUSY ",
    "MASTERDOWN",
    "READONLY",
    "OOM",
    "MISCONF",
    "NOREPLICAS",
    "NOSCRIPT",
    "ERR max number of clients",
)


class StoreAway(Exception):
    """Redis could not be reached in time, or took no command in it."""


class StoreError(StoreAway):
    """Redis refused a command, and will again: a wrong password, a bug of ours."""


class AddressError(ValueError):
    """A store's URL that cannot be read; one sentence."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Redis is: `redis://[:password@]host[:port][/db]`, `rediss://…`, `unix:///path[?db=N]`."""

    host: str = ""
    port: int = 6379
    path: str = ""
    user: str = ""
    password: str = ""
    database: int = 0
    tls: bool = False

    @classmethod
    def read(cls, url: str) -> Address:
        """Raises `AddressError`."""
        wrong = AddressError("--store is redis://HOST:PORT/0, rediss://HOST:PORT/0 or unix:///PATH")
        try:
            parts = urlsplit(url)
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            if parts.scheme == "unix":
                if not parts.path:
                    raise wrong
                return cls(path=unquote(parts.netloc.rpartition("@")[2] + parts.path), user=user, password=password)
            if parts.scheme not in ("redis", "rediss") or not parts.hostname:
                raise wrong
            database = int(parts.path.strip("/") or 0)
            return cls(parts.hostname, parts.port or 6379, "", user, password, database, parts.scheme == "rediss")
        except ValueError:
            raise wrong from None

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}/{self.database}"


class _Wire(asyncio.Protocol):
    """One connection: commands out in order, answers in the same order."""

    def __init__(self) -> None:
        self.reader = hiredis.Reader()
        self.waiting: deque[asyncio.Future[Any]] = deque()
        self.transport: asyncio.Transport | None = None
        self.unsent: list[bytes] = []
        self.lost = False
        self.heard, self.back_at = 0.0, -inf
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        now = self.loop.time()
        if now - self.heard > SILENCE_S / 2 and self.waiting:
            self.back_at = now
        self.heard = now
        self.reader.feed(data)
        while (answer := self.reader.gets()) is not False:
            future = self.waiting.popleft()
            if future.done():
                continue
            if isinstance(answer, hiredis.ReplyError):
                future.set_exception(StoreError(str(answer)))
            else:
                future.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        for future in self.waiting:
            if not future.done():
                future.set_exception(ConnectionError("the connection to the store is lost"))
        self.waiting.clear()

    def ask(self, words: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Send a command with whatever else this turn of the loop asks."""
        if self.lost:
            raise ConnectionError("the connection to the store is lost")
        command = hiredis.pack_command(words)  # may raise: nobody may wait then, or later answers are given to others
        future: asyncio.Future[Any] = self.loop.create_future()
        if not self.waiting:
            self.heard = self.loop.time()
        self.waiting.append(future)
        if not self.unsent:
            self.loop.call_soon(self._flush)
        self.unsent.append(command)
        return future

    def _flush(self) -> None:
        unsent, self.unsent = self.unsent, []
        if self.transport is not None and not self.lost:
            self.transport.write(b"".join(unsent))

    def silent(self) -> bool:
        return bool(self.waiting) and self.loop.time() - self.heard > SILENCE_S

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Line:
    """The connection, kept up. `run` waits for Redis to come back, at most `patience_s`."""

    def __init__(self, address: Address, patience_s: float) -> None:
        self.address, self.patience_s = address, patience_s
        self._wire: _Wire | None = None
        self._connecting: asyncio.Task[_Wire] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def back_at(self) -> float:
        """The loop's time when the store answered again after an outage; -inf where there was none."""
        return -inf if self._wire is None else self._wire.back_at

    async def run(self, script: Script, keys: tuple[Any, ...], *arguments: Any, patience_s: float | None = None) -> Any:
        """Run a script, again when the connection is lost under it. Raises `StoreAway`, `StoreError`."""
        words = ("EVALSHA", script.digest, len(keys), *keys, *arguments)
        return await self.ask(words, self.patience_s if patience_s is None else patience_s)

    async def ask(self, words: tuple[Any, ...], patience_s: float) -> Any:
        deadline = asyncio.get_running_loop().time() + patience_s
        why = "no answer"
        while True:
            wire = self._wire
            try:
                if wire is None or wire.lost:
                    wire = await self._connected(deadline)
                return await wire.ask(words)
            except (OSError, TimeoutError) as error:
                why = str(error) or type(error).__name__
            except StoreError as error:
                why = str(error)
                if not why.startswith(FOR_NOW):
                    raise
                if wire is not None and why.startswith("NOSCRIPT"):
                    wire.abort()  # a new connection brings them
            if asyncio.get_running_loop().time() + PAUSE_S > deadline:
                raise StoreAway(f"the store at {self.address} does not answer ({why})") from None
            await asyncio.sleep(PAUSE_S)

    async def _connected(self, deadline: float) -> _Wire:
        """The connection, made by one for all who wait."""
        if self._connecting is None or self._connecting.done():
            self._connecting = asyncio.ensure_future(self._connect())
        left_s = max(deadline - asyncio.get_running_loop().time(), 0.01)
        return await asyncio.wait_for(asyncio.shield(self._connecting), left_s)

    async def _connect(self) -> _Wire:
        async with asyncio.timeout(CONNECT_S):
            loop, at = asyncio.get_running_loop(), self.address
            if at.path:
                _, wire = await loop.create_unix_connection(_Wire, at.path)
            else:
                tls = ssl.create_default_context() if at.tls else None
                _, wire = await loop.create_connection(_Wire, at.host, at.port, ssl=tls)
            try:
                first: list[tuple[Any, ...]] = []
                if at.password:
                    first.append(("AUTH", at.user, at.password) if at.user else ("AUTH", at.password))
                if at.database:
                    first.append(("SELECT", at.database))
                await asyncio.gather(*map(wire.ask, [*first, *(("SCRIPT", "LOAD", s.text) for s in SCRIPTS)]))
            except BaseException:
                wire.abort()
                raise
        if self._wire is not None:
            wire.back_at = loop.time()
        self._wire = wire
        if self._watch is None or self._watch.done():
            self._watch = asyncio.ensure_future(self._watch_for_ever())
        return wire

    async def _watch_for_ever(self) -> None:
        """A Redis that is there but silent: its connection is given up, so that whoever waits hears of it."""
        while True:
            await asyncio.sleep(SILENCE_S / 5)
            if self._wire is not None and self._wire.silent():
                self._wire.abort()

    async def close(self) -> None:
        for task in (self._watch, self._connecting):
            if task is not None and not task.done():
                task.cancel()
        if self._wire is not None:
            self._wire.abort()
            await asyncio.sleep(0)
