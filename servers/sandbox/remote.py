"""The client of `gymwire sandbox serve`: a `Sandbox` whose slots are another process's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import orjson

from ..auth import TokenError, read_tokens
from .jobs import Job, JobRefused, Result, SandboxUnavailable, Talk
from .serving import MAX_BODY_BYTES, REFUSED
from .wire import ABOUT, END, RUN, TALK, dump_job, load_result

CONNECT_TIMEOUT_S = 10.0
#: Beside the job itself, twice: the wait for a slot, and transport.
PATIENCE_S = 120.0


class RemoteSandbox:
    """`url` is the server's root. `open` before use, `close` after."""

    def __init__(self, url: str, token_file: Path | None = None) -> None:
        self._url, self._token_file = url.rstrip("/"), token_file
        self._http: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Ask the server whether it is one. Raises `SandboxUnavailable` in one sentence."""
        try:
            token = read_tokens(self._token_file)[0] if self._token_file else ""
        except TokenError as error:
            raise SandboxUnavailable(str(error)) from None
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        http = self._http = aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(limit=0))
        try:
            async with http.get(self._url + ABOUT, timeout=_timeout(CONNECT_TIMEOUT_S)) as answer:
                if answer.status != 200:
                    raise SandboxUnavailable(f"no sandbox is served at {self._url}: {await _reason(answer)}")
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            await self.close()
            raise SandboxUnavailable(f"no sandbox answers at {self._url}: {error or 'no answer in time'}") from None
        except SandboxUnavailable:
            await self.close()
            raise

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def run(self, job: Job) -> Result:
        body, limit_s = dump_job(job), 2 * job.limits.wall_s + PATIENCE_S
        try:
            async with self._session.post(self._url + RUN, data=body, timeout=_timeout(limit_s)) as answer:
                if answer.status != 200:
                    raise _refusal(answer.status, await _reason(answer))
                return load_result(await answer.read())
        except JobRefused:
            raise
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise SandboxUnavailable(f"the sandbox at {self._url} was lost: {error or 'no answer in time'}") from None

    @asynccontextmanager
    async def talk(self, job: Job) -> AsyncIterator[Talk]:
        try:
            socket = await self._session.ws_connect(self._url + TALK, max_msg_size=MAX_BODY_BYTES, heartbeat=20.0)
            await socket.send_str(dump_job(job).decode())
        except (aiohttp.ClientError, TimeoutError) as error:
            raise SandboxUnavailable(f"the sandbox at {self._url} was lost: {error}") from None
        talk = _RemoteTalk(socket)
        try:
            yield talk
        finally:
            await talk.stop()

    @property
    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            raise SandboxUnavailable("the sandbox has been closed")
        return self._http


class _RemoteTalk:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._said: deque[bytes] = deque()
        self._result: Result | None = None
        self._lost: SandboxUnavailable | JobRefused | None = None
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._listen())

    async def send(self, data: bytes) -> None:
        if self._result is None and self._lost is None:
            await self._write(data)

    async def receive(self) -> bytes:
        while not self._said:
            if self._over():
                return b""
            await self._wait()
        return self._said.popleft()

    async def finish(self) -> Result:
        if not self._over():
            await self._write(END)
        while not self._over():
            await self._wait()
        assert self._result is not None
        return self._result

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._socket.close()

    async def _write(self, message: bytes | str) -> None:
        """A connection that has gone is found out by listening."""
        try:
            await (self._socket.send_str(message) if isinstance(message, str) else self._socket.send_bytes(message))
        except (aiohttp.ClientError, ConnectionError):
            return

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _over(self) -> bool:
        if self._lost:
            raise self._lost
        return self._result is not None

    async def _listen(self) -> None:
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                self._said.append(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                self._hear_end(message.data)
            self._news.set()
        if self._result is None and self._lost is None:
            self._lost = SandboxUnavailable("the sandbox's server was lost during a conversation")
        self._news.set()

    def _hear_end(self, text: str) -> None:
        said = orjson.loads(text)
        if "error" in said:
            self._lost = _refusal(said["status"], said["error"])
        else:
            self._result = load_result(text)


def _refusal(status: int, reason: str) -> SandboxUnavailable | JobRefused:
    return JobRefused(reason) if status == REFUSED else SandboxUnavailable(reason)


async def _reason(answer: aiohttp.ClientResponse) -> str:
    text = await answer.text()
    try:
        return str(orjson.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return f"status {answer.status}"


def _timeout(total_s: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_TIMEOUT_S)
