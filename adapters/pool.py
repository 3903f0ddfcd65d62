"""One pool of HTTP connections for any number of sessions.

No proxy settings or netrc are read from the environment, no cookies are shared, redirects are not followed (a
POST may not act elsewhere). Idle connections are kept 60 s toward gymwire servers, which keep theirs 75 s, and
4 s toward strangers: most close theirs after 5 s, and a request sent into a closing connection is lost.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Mapping
from random import uniform
from time import monotonic
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from ..servers.answers import Code
from ..servers.types import FailureKind, Stage
from .patience import DEFAULT_RETRY_AFTER_S, NotCounted, Undelivered, Unreachable
from .session import SessionFailed, WrongRequest

KEEP_OURS_S = 60.0
KEEP_STRANGERS_S = 4.0
CONNECT_TIMEOUT_S = 10.0
#: What stands for a token in an error that a server made of it.
TOKEN_GONE = "[token]"
#: Seconds in which a request past the server's rate limit is asked again.
RATE_PATIENCE_S = 60.0
#: This machine's own limits: open files, ports, memory.
_OUR_LIMITS = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL))
#: What a gateway answers for a server that it lost, or does not find; a code of ours makes it the server's own answer.
_GATEWAY_STATUSES = frozenset((502, 503, 504))
_BASE_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "gymwire"}


class Reply(NamedTuple):
    """An HTTP answer, read whole."""

    status: int
    body: bytes
    headers: CIMultiDictProxy[str]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def retry_after_s(reply: Reply) -> float:
    """The seconds that the server names, or a usual pause."""
    try:
        return max(float(reply.headers.get("Retry-After", "")), 0.0)
    except ValueError:
        return DEFAULT_RETRY_AFTER_S


class Pool:
    """Connections to one kind of server. Open it once, share it, close it (or use it as a context manager).

    patience_s: how long requests that may be repeated are, toward servers of ours whose sessions outlive them.
    max_bytes: of one answer; a longer one is a broken connection. Without it an answer may have any length.
    Raises `WrongRequest` for a token that no header can carry.
    """

    def __init__(
        self, *, ours: bool, token: str | None = None, patience_s: float = 0.0, max_bytes: int | None = None
    ) -> None:
        if token is not None and not token.isprintable():
            raise WrongRequest("a token holds no line breaks and no other control characters")
        self.ours, self.patience_s, self.max_bytes = ours, patience_s, max_bytes
        self._token = token
        self._keep_s = KEEP_OURS_S if ours else KEEP_STRANGERS_S
        self._headers = dict(_BASE_HEADERS) | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http: aiohttp.ClientSession | None = None
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    def http(self) -> aiohttp.ClientSession:
        """The underlying client, made when first asked for (it belongs to the running loop)."""
        if self._http is None or self._http.closed:
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=0, keepalive_timeout=self._keep_s)
            self._http = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                trust_env=False,
                auto_decompress=True,
            )
        return self._http

    async def get(self, url: URL, *, timeout_s: float, stage: Stage = Stage.SEED) -> Reply:
        return await self._request("GET", url, None, {}, timeout_s, stage)

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str], timeout_s: float, stage: Stage) -> Reply:
        """Post and read the answer whole.

        Raises `Undelivered` when the connection breaks or a gateway says that it lost the request, `Unreachable` when
        there is none, `NotCounted` where a server of ours asks for a repeat, `SessionFailed` past the time limit.
        """
        reply = await self._request("POST", url, body, headers, timeout_s, stage)
        if self.ours and reply.status in _GATEWAY_STATUSES:
            self._refuse_lost(reply, url, stage)
        return reply

    def _refuse_lost(self, reply: Reply, url: URL, stage: Stage) -> None:
        code = reply.headers.get("X-Gymwire-Code")
        if code == Code.REPEAT:
            raise NotCounted(reply.text[:500])
        waits_longer = stage is Stage.SEED and reply.status == 503  # as for a full server
        if self.patience_s and code is None and not waits_longer:
            raise Undelivered(f"{url.origin()} answers HTTP {reply.status}", FailureKind.PROVIDER_UNAVAILABLE)

    async def _request(
        self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str], timeout_s: float, stage: Stage
    ) -> Reply:
        """Ask, and ask again where a server of ours says that it was too early: nothing was carried out then."""
        deadline = monotonic() + RATE_PATIENCE_S
        while True:
            reply = await self._ask(method, url, body, headers, timeout_s, stage)
            if reply.headers.get("X-Gymwire-Code") != Code.RATE_LIMITED:
                return reply
            pause_s = retry_after_s(reply) * uniform(0.5, 1.5)
            if monotonic() + pause_s > deadline:
                return reply
            await asyncio.sleep(pause_s)

    async def _ask(
        self, method: str, url: URL, body: bytes | None, headers: Mapping[str, str], timeout_s: float, stage: Stage
    ) -> Reply:
        timeout = self._timeouts.get(timeout_s) or self._timeout(timeout_s)
        try:
            async with self.http().request(
                method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                body = await self._read(answer)
                return Reply(answer.status, body if answer.status == 200 else self.hidden(body), answer.headers)
        except aiohttp.ConnectionTimeoutError:
            raise Unreachable(f"no connection to {url.origin()} within {CONNECT_TIMEOUT_S:g} s") from None
        except TimeoutError:  # aiohttp's timeouts are TimeoutErrors, some of them ClientErrors too
            reason = f"no answer from {url.origin()} within {timeout_s:g} s"
            raise SessionFailed(FailureKind.TRANSPORT_TIMEOUT, reason, stage) from None
        except aiohttp.ClientConnectorError as error:
            raise unreachable(url, error) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Undelivered(f"{url.origin()} broke the connection ({type(error).__name__})") from None

    def hidden(self, error: bytes) -> bytes:
        """An error as anybody may keep it: servers in debug show what they were asked, its token included."""
        return error.replace(self._token.encode(), TOKEN_GONE.encode()) if self._token else error

    async def _read(self, answer: aiohttp.ClientResponse) -> bytes:
        if self.max_bytes is None:
            return await answer.read()
        try:
            await answer.content.readexactly(self.max_bytes + 1)
        except asyncio.IncompleteReadError as whole:
            return whole.partial
        raise aiohttp.ClientPayloadError(f"more than {self.max_bytes} bytes")

    def _timeout(self, timeout_s: float) -> aiohttp.ClientTimeout:
        made = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(CONNECT_TIMEOUT_S, timeout_s))
        self._timeouts[timeout_s] = made
        return made

    async def close(self) -> None:
        """Close every connection, also those in use."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()
            await asyncio.sleep(0)  # transports are told to close in the loop's next turn

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def unreachable(url: URL, error: aiohttp.ClientConnectorError) -> Unreachable:
    """Why no connection came about, in the system's words; and whose fault that is."""
    number = error.os_error.errno
    why = os.strerror(number) if number is not None and number > 0 else str(error.os_error or error)
    kind = FailureKind.TRANSPORT_LOCAL_RESOURCE if number in _OUR_LIMITS else FailureKind.TRANSPORT_UNREACHABLE
    return Unreachable(f"no connection to {url.origin()}: {why}", kind)
