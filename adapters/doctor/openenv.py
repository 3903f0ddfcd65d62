"""Raw messages on the OpenEnv wire: a socket an episode.

An environment whose actions are tool calls shows its tools; any other is one tool, `step`, that takes its Action.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import Any, Self

import aiohttp
from aiohttp import WSMsgType

from ...servers.types import Json, Tool
from ..content import read_content
from ..foreign_openenv import action_parameters, shown_observation
from ..openenv import tool_of
from ..patience import Undelivered
from ..pool import Pool
from ..session import SessionFailed, WrongRequest
from .findings import Exchange
from .reading import blocks_of, decoded, mapping, shown
from .wire import ANSWER_TIMEOUT_S, MAX_BYTES, Episode, Graded, Kind, Place, RawTask, RawWire, Said, SeedRefused

STEP = "step"
FAREWELL = '{"type": "close"}'
#: Seconds in which a server closes the socket that said goodbye.
CLOSE_WAIT_S = 3.0
#: Names that a policy may emit, and that are messages or control calls.
CONTROL_NAMES = ("reset", "verify", "seed_session", "close", "close_session", "end_turn", "state")
MALFORMED = {
    "broken JSON": '{"type": ',
    "a list": "[1]",
    "an unknown kind of message": '{"type": "no_such_type", "data": {}}',
    "a message with further keys": '{"type": "state", "no_such_key": 1}',
    "a step that is no object": '{"type": "step", "data": "text"}',
}
_CLOSING = frozenset((WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR))


class RawSocket:
    """One WebSocket: text frames, asked and answered one by one. A task of its own reads, and so answers pings."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self.websocket = websocket
        self._lock = asyncio.Lock()
        self._said: asyncio.Queue[str | None] = asyncio.Queue()  # None: the server closed it
        self._closed = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (message := await self.websocket.receive()).type not in _CLOSING:
            if message.type is WSMsgType.TEXT:
                self._said.put_nowait(str(message.data))
        self._closed.set()
        self._said.put_nowait(None)

    async def ask(self, text: str) -> tuple[str | None, str]:
        """The answer's text, or None and why there is none."""
        async with self._lock:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT_S):
                    if not self._closed.is_set():
                        await self.websocket.send_str(text)
                    said = None if self._closed.is_set() and self._said.empty() else await self._said.get()
            except TimeoutError:
                return None, f"no answer within {ANSWER_TIMEOUT_S:g} s"
            except (aiohttp.ClientError, ConnectionError, RuntimeError) as error:
                return None, f"the socket broke: {type(error).__name__}"
        return said, "" if said is not None else f"the server closed the socket (code {self.websocket.close_code})"

    async def is_closed_by_server(self, within_s: float) -> bool:
        """Wait for it."""
        try:
            async with asyncio.timeout(within_s):
                await self._closed.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.wait({self._reader})
        with suppress(TimeoutError):  # aiohttp drops the connection then
            async with asyncio.timeout(2.0):
                await self.websocket.close()


class SocketEpisode(Episode):
    """What one socket plays."""

    def __init__(self, wire: OpenEnvWire, socket: RawSocket) -> None:
        self.wire, self.socket = wire, socket

    async def call(self, name: str, arguments: Json, key: str = "") -> Said:
        data: Json = arguments
        if self.wire.has_tools:
            data = {"type": "call_tool", "tool_name": name, "arguments": arguments}
            if key:
                data["metadata"] = {"idempotency_key": key}
        return await self.say("step", data)

    async def verify(self, answer: str) -> Graded:
        messages = [{"role": "assistant", "content": answer}]
        arguments = {"messages": messages, "ending": "finished"}
        data = {
            "type": "call_tool", "tool_name": "verify", "arguments": arguments, "metadata": {"control": True}
        }  # fmt: skip
        said = await self.say("step", data)
        about = _metadata(said.body)
        masked = bool(about.get("failure_kind"))
        return Graded(said, said.reward, masked, about.get("components"))

    async def say(self, kind: str, data: Json | None = None) -> Said:
        return await self.send(json.dumps({"type": kind} | ({} if data is None else {"data": data})))

    async def send(self, text: str) -> Said:
        started = perf_counter()
        answer, why = await self.socket.ask(text)
        exchange = self.wire.exchange(text, why if answer is None else answer)
        return self.wire.noted(_said(exchange, answer, why, perf_counter() - started))

    async def close(self) -> Said | None:
        """The wire's own farewell; the server then closes the socket. None where it is closed already."""
        said = None
        if not self.socket.websocket.closed:
            with suppress(aiohttp.ClientError, ConnectionError, RuntimeError):  # it may be closing already
                await self.socket.websocket.send_str(FAREWELL)
            is_closed = await self.socket.is_closed_by_server(CLOSE_WAIT_S)
            why = "the server closed the socket" if is_closed else f"the socket is open after {CLOSE_WAIT_S:g} s"
            said = Said(Kind.OK if is_closed else Kind.BROKEN, why, None, self.wire.exchange(FAREWELL, why))
        await self.socket.close()
        return said


class OpenEnvWire(RawWire):
    name = "openenv"
    malformed_kinds = tuple(MALFORMED)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.verifies = place.ours
        self.has_tools = place.ours
        self.step_tool: Tool | None = None

    async def prepare(self) -> None:
        """Of a stranger: what an action is. Raises `WrongRequest`."""
        if self.place.ours:
            return
        url = self.place.url / "schema"
        try:
            reply = await self.place.pool.get(url, timeout_s=ANSWER_TIMEOUT_S)
        except (Undelivered, SessionFailed) as error:
            raise WrongRequest(f"nothing answers at {url}: {error}") from None
        body = decoded(reply.body)
        action = body.get("action") if isinstance(body, dict) else None
        if reply.status != 200 or not isinstance(action, dict):
            raise WrongRequest(f"{url} answers HTTP {reply.status} and no action schema: is this an OpenEnv server?")
        self.has_tools = "tool_name" in (action.get("properties") or {})
        about = str(action.get("description") or "Take one step in the environment.")
        self.step_tool = Tool(STEP, about, action_parameters(action))

    async def seed(self, task: RawTask, name: str = "") -> SocketEpisode:
        episode = SocketEpisode(self, await self.socket(task))
        self.began(episode)
        said = episode.first = await episode.say("reset", self.reset_of(task))
        if said.kind is not Kind.OK:
            await episode.close()
            raise SeedRefused(said)
        await self._read(episode, said)
        return episode

    def reset_of(self, task: RawTask) -> Json:
        if self.place.ours:
            return task.asked()
        return {} if task.seed is None else {"seed": task.seed}

    async def socket(self, task: RawTask) -> RawSocket:
        """A connected socket. Raises `SeedRefused`."""
        return RawSocket(await self.connected("/ws"))

    async def connected(
        self, path: str, *, pongs: bool = True, query: Mapping[str, str] | None = None
    ) -> aiohttp.ClientWebSocketResponse[Any]:
        """Raises `SeedRefused` where there is no socket."""
        url = self.place.url.joinpath(path.lstrip("/")).with_query(query)
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await self.place.pool.http().ws_connect(url, compress=0, max_msg_size=MAX_BYTES, autoping=pongs)
        except aiohttp.WSServerHandshakeError as error:
            kind = Kind.FULL if error.status in (429, 503) else Kind.REFUSED
            kind = Kind.BROKEN if error.status in (500, 502, 504) else kind
            retry_after = (error.headers or {}).get("Retry-After", "")
            said = self._no_socket(path, kind, f"HTTP {error.status}", error.status, retry_after)
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            said = self._no_socket(path, Kind.BROKEN, type(error).__name__, 0, "")
        raise SeedRefused(said)

    def _no_socket(self, path: str, kind: Kind, why: str, status: int, retry_after: str) -> Said:
        exchange = self.exchange(f"WebSocket {self.place.url.path}{path}", why)
        return self.noted(Said(kind, why, None, exchange, status=status, retry_after=retry_after))

    async def _read(self, episode: SocketEpisode, said: Said) -> None:
        inner = _inner(said.body)
        if self.place.ours:
            episode.prompt = inner.get("prompt") or ()
            episode.tools = tuple(tool_of(item) for item in inner.get("tools") or ())
        elif self.has_tools:
            listed = await episode.say("step", {"type": "list_tools"})
            episode.tools = tuple(tool_of(item) for item in _inner(listed.body).get("tools") or ())
        elif self.step_tool is not None:
            episode.tools = (self.step_tool,)
            episode.prompt = [{"role": "user", "content": shown_observation(_data(said.body))}]

    async def lost(self, task: RawTask) -> list[tuple[str, Episode]]:
        """A socket without a reset; on a server of ours, a session that does not exist besides."""
        fresh = SocketEpisode(self, await self.socket(task))
        self.began(fresh)
        return [("before any reset", fresh)]

    async def unknown_places(self, name: str, arguments: Json) -> list[tuple[str, Said]]:
        """A socket for a session id that does not exist, and a step over HTTP without any."""
        tried = [("on a socket of an unknown session_id", await self._unknown_session())]
        if not name:
            return tried
        action = {"type": "call_tool", "tool_name": name, "arguments": arguments} if self.has_tools else arguments
        url, body = self.place.url / "step", json.dumps({"action": action}).encode()
        reply, why, seconds = await self.post(url, body, {"Content-Type": "application/json"})
        exchange = self.exchange(
            shown("POST", url, body), why if reply is None else f"HTTP {reply.status} {reply.text}"
        )
        ok = reply is not None and reply.status < 300 and "observation" in (decoded(reply.body) or {})
        kind = Kind.OK if ok else Kind.REFUSED
        return [*tried, ("over HTTP without a session", self.noted(Said(kind, why, None, exchange, seconds)))]

    async def _unknown_session(self) -> Said:
        """What such a socket says first."""
        try:
            websocket = await self.connected("/ws", query={"session_id": secrets.token_urlsafe(24)})
        except SeedRefused as refused:
            return refused.said
        episode = SocketEpisode(self, RawSocket(websocket))
        self.began(episode)
        return await episode.say("state")

    async def control_calls(self, episode: Episode) -> list[tuple[str, Said]]:
        if not self.has_tools:
            return []
        taken = {tool.name for tool in episode.tools}
        return [(name, await episode.call(name, {})) for name in CONTROL_NAMES if name not in taken]

    async def send_malformed(self, episode: Episode, what: str) -> Said:
        """Then the state, which a socket that was closed does not tell any more."""
        assert isinstance(episode, SocketEpisode)
        said = await episode.send(MALFORMED[what])
        if (state := await episode.say("state")).kind is Kind.BROKEN:
            return replace(said, kind=Kind.BROKEN, exchange=state.exchange)
        return said

    def without_token(self) -> Self:
        made = type(self)(replace(self.place, pool=Pool(ours=False)))
        made.has_tools, made.step_tool = self.has_tools, self.step_tool
        return made

    def form_of_seed(self, episode: Episode) -> list[str]:
        return _form_of_observation("reset", episode.first)

    def form_of_call(self, said: Said) -> list[str]:
        if said.kind is Kind.POLICY and _type(said.body) == "error":
            return []
        return _form_of_observation("a step", said)

    def form_of_verify(self, graded: Graded) -> list[str]:
        found = _form_of_observation("verify", graded.said)
        return found if found or graded.said.done else ["verify's observation is not done"]

    def form_of_full(self, said: Said) -> str:
        if said.status in (429, 503):
            return "" if said.retry_after else f"HTTP {said.status} without Retry-After"
        code = _data(said.body).get("code")
        if code != "CAPACITY_REACHED":
            return f"the code {code!r}, not CAPACITY_REACHED"
        about = _metadata(said.body)
        return "" if not self.place.ours or about.get("retry_after_s") is not None else "no time to come back"

    def own_part(self, graded: Graded) -> Any:
        return graded.said.body


def _type(body: Any) -> str:
    return str(body.get("type")) if isinstance(body, dict) else ""


def _data(body: Any) -> Json:
    return mapping(mapping(body).get("data"))


def _inner(body: Any) -> Json:
    return mapping(_data(body).get("observation"))


def _metadata(body: Any) -> Json:
    return mapping(_data(body).get("metadata"))


def _code(body: Any) -> str:
    return str(_metadata(body).get("code"))


def _form_of_observation(what: str, said: Said) -> list[str]:
    if _type(said.body) != "observation":
        return [f"{what} answers no observation message"]
    data = _data(said.body)
    found = [f"{what}'s observation lacks `{key}`" for key in ("observation", "reward", "done") if key not in data]
    if "done" in data and not isinstance(data["done"], bool):
        found.append(f"{what}'s `done` is {data['done']!r:.40}")
    return found


_REFUSED = frozenset(("session_lost", "session_expired", "session_closed", "session_verified"))
_OURS_BROKEN = frozenset(("session_failed", "internal_error", "draining"))
_ERRORS = {
    "CAPACITY_REACHED": Kind.FULL,
    "SESSION_ERROR": Kind.REFUSED,
    "FACTORY_ERROR": Kind.BROKEN,
    "EXECUTION_ERROR": Kind.BROKEN,
    "VALIDATION_ERROR": Kind.POLICY,
    "INVALID_JSON": Kind.POLICY,
    "UNKNOWN_TYPE": Kind.POLICY,
}


def _said(exchange: Exchange, answer: str | None, why: str, seconds: float) -> Said:
    body = None if answer is None else decoded(answer)
    if not isinstance(body, dict):
        return Said(Kind.BROKEN, answer or why, body, exchange, seconds)
    data = _data(body)
    if _type(body) != "observation":
        kind = _error_kind(body) if _type(body) == "error" else Kind.OK
        return Said(kind, str(data.get("message") or answer), body, exchange, seconds)
    return Said(
        _observation_kind(body), _text(data), body, exchange, seconds, data.get("done") is True, 0, data.get("reward")
    )


def _error_kind(body: Any) -> Kind:
    if _code(body) in _REFUSED:
        return Kind.REFUSED
    return _ERRORS.get(str(_data(body).get("code")), Kind.BROKEN)


def _observation_kind(body: Any) -> Kind:
    code = _code(body)
    if code in _REFUSED:
        return Kind.REFUSED
    if code in _OURS_BROKEN:
        return Kind.BROKEN
    inner = _inner(body)
    error, result = inner.get("error"), inner.get("result")
    is_error = isinstance(result, dict) and result.get("is_error") is True
    if code == "masked":
        return Kind.OK  # an answer to verify, which says itself that there is no reward
    return Kind.POLICY if (isinstance(error, dict) and error) or is_error else Kind.OK


def _text(data: Json) -> str:
    """What a policy reads; ids and clocks in the wire's own metadata are not its affair."""
    inner = data.get("observation")
    if isinstance(inner, dict):
        if isinstance(error := inner.get("error"), dict) and error:
            return str(error.get("message") or error)
        if isinstance(result := inner.get("result"), dict):
            return read_content(blocks_of(result))[0]
    return shown_observation(data)
