"""The OpenEnv wire (0.10.0) of an environment: its sockets, and what is mounted where.

A socket carries one episode and is answered message by message, in order. It lives as long as it answers the
server's pings; the idle limit does not count meanwhile. When it closes, its session is closed. A message that
cannot be understood is answered by an error; only `close` ends a socket from this side.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import parse_qs

from ...answers import Code, Refused
from ...types import Json
from ..asgi import ClientLeft, Face, FaceContext, Receive, Scope, Send, owner_of
from .docs import path_items
from .episodes import Episode, Episodes
from .http import Routes, Tasks
from .reading import (
    Action,
    Members,
    WireError,
    forbid_others,
    invalid,
    invalid_json,
    read_action,
    read_object,
    read_reset,
    read_resume,
    usual_control,
    usual_step,
)
from .rpc import Caller, Rpc
from .shapes import call_message, encode, error_message, gone_data, observation, refused_error

logger = logging.getLogger("gymwire.openenv")
T = TypeVar("T")

#: Close codes of sockets that broke: no close frame came, or pings were not answered.
LOST = frozenset((1005, 1006, 1011))
SHUT_DOWN = 1012
#: Characters read ahead of their turn, to notice that a client leaves; past it, that is noticed in turn.
READ_AHEAD = 1 << 20
#: A longer message (a slow tool, mostly) is followed by a look whether the client has left meanwhile.
SLOW_S, NOTICE_S = 0.05, 0.005


def face(context: FaceContext) -> Face:
    wire = _OpenEnv(context)
    routes = Routes(context, wire.episodes, wire.rpc)
    made = Face(http={**routes.paths(), **Tasks(context).paths()}, openapi=path_items(context.served, context.prefix))
    made.websocket = {f"{context.prefix}/ws": wire.socket, f"{context.prefix}/mcp": wire.rpc_socket}
    return made


class _OpenEnv:
    def __init__(self, context: FaceContext) -> None:
        self.context = context
        self.episodes = Episodes(context)
        self.rpc = Rpc(self.episodes)
        self.factory = context.served.environment.__name__

    async def socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _Socket(self, scope, receive, send).run()

    async def rpc_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _RpcSocket(self, scope, receive, send).run()


class _Socket:
    """One open socket."""

    def __init__(self, wire: _OpenEnv, scope: Scope, receive: Receive, send: Send) -> None:
        self.wire, self.episodes = wire, wire.episodes
        self.owner = owner_of(scope)
        self.asked_for = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        self.inbox = _Inbox(receive)
        self.most = wire.context.max_body_bytes
        self.send = send
        self.episode: Episode

    async def run(self) -> None:
        await self.inbox.receive()  # websocket.connect
        await self.send({"type": "websocket.accept"})
        try:
            self._take_episode()
        except WireError as error:
            await self.send({"type": "websocket.send", "text": error_message(error)})
            await self.send({"type": "websocket.close", "code": 1000})
            return
        code = 1006
        try:
            code = await self._converse()
        except OSError:  # the client left before its answer
            code = await self.inbox.close_code()
        finally:
            await self._leave(code)

    def _take_episode(self) -> None:
        if not self.asked_for:
            self.episode = self.episodes.new(self.owner)
        else:
            try:
                self.episode = self.episodes.get(self.asked_for, self.owner)
            except Refused:
                raise WireError("SESSION_ERROR", f"Unknown session_id: {self.asked_for:.200}") from None
            if self.episode.attached:
                text = f"Session {self.asked_for} already has an attached WebSocket"
                raise WireError("SESSION_ERROR", text)
        self.episodes.attach(self.episode)

    async def _leave(self, code: int) -> None:
        """A registered episode outlives its socket; the socket's own does not."""
        self.episodes.detach(self.episode)
        if self.asked_for or code == SHUT_DOWN:  # draining fails what is left, and counts it
            return
        if code in LOST:
            await self.episodes.lose(self.episode)
        await self.episodes.close(self.episode)

    async def _converse(self) -> int:
        """Answer until the socket closes; answers its close code."""
        inbox, send = self.inbox, self.send
        while True:
            message = inbox.next_early() if inbox.early else await inbox.receive()
            if message["type"] != "websocket.receive":
                return message.get("code", 1006)
            started = perf_counter()
            try:
                answer = await self.answer(self._text(message))
            except ClientLeft:
                continue  # its disconnect is the next message
            except Exception as error:
                answer = self._error(error)
            if answer is None:
                await send({"type": "websocket.close", "code": 1000})
                return 1000
            await send({"type": "websocket.send", "text": answer})
            if perf_counter() - started > SLOW_S:
                await inbox.catch_up()

    def _text(self, message: Any) -> str:
        text = message.get("text")
        if text is None:
            raise invalid_json("a message is a text frame, not a binary one")
        if len(text) > self.most:
            raise invalid((), f"a message may have {self.most} bytes", "too_long")
        return text

    def _error(self, error: Exception) -> str:
        """The boundary of a message: what went wrong, in OpenEnv's words; our bugs without a trace of them."""
        if isinstance(error, Refused):
            error = refused_error(error, self.episodes.slots(), self.wire.factory)
        elif not isinstance(error, WireError):
            logger.error("a message on %s failed", self.wire.context.prefix, exc_info=error)
            about = {"metadata": {"code": Code.INTERNAL.value}}
            error = WireError("EXECUTION_ERROR", "The server made a mistake; its log says which.", **about)
        return error_message(error)

    async def answer(self, text: str) -> str | None:
        """The answer to one message, None to end the conversation."""
        usual, episode = usual_step(text), self.episode
        if usual is not None and (session := episode.session) is not None:
            tool, arguments, key = usual
            if key is None:
                episode.steps += 1
            else:
                episode.count(key)
            try:
                answer = await session.call(tool, arguments, key)
            except Refused as refused:
                return observation(gone_data(tool, refused, session.outcome))
            return call_message(tool, answer, session.outcome)
        if (action := usual_control(text)) is not None:
            return observation(await self._step(action))
        message = read_object(text, ("data", "params"))
        kind = message.value("type", "")
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None:
            raise WireError("UNKNOWN_TYPE", f"Unknown message type: {kind!s:.80}")
        return await handler(self, text, message)

    async def _on_step(self, text: str, message: Members) -> str:
        forbid_others(message, _WITH_DATA)
        if "data" not in message:
            raise invalid(("data",), "Field required", "missing")
        return observation(await self._step(read_action(text, message.value("data"), ("data",))))

    async def _step(self, action: Action) -> Json:
        if self.episode.promised is not None and action.tool is not None:
            await self.inbox.unless_left(self.episodes.ready(self.episode))
        return await self.episodes.step(self.episode, action)

    async def _on_reset(self, text: str, message: Members) -> str:
        forbid_others(message, _WITH_DATA)
        data = message.value("data", Members())
        beginning = read_reset(data.plain() if isinstance(data, Members) else data)
        return observation(await self.inbox.unless_left(self.episodes.begin(self.episode, beginning)))

    async def _on_resume(self, text: str, message: Members) -> str:
        """Not OpenEnv's: our adapter comes back after its socket broke."""
        forbid_others(message, _WITH_DATA)
        data = message.value("data")
        handle = read_resume(data.plain() if isinstance(data, Members) else data)
        return observation(await self.inbox.unless_left(self.episodes.resume(self.episode, handle)))

    async def _on_state(self, text: str, message: Members) -> str:
        forbid_others(message, _WITHOUT_DATA)
        return encode({"type": "state", "data": self.episode.state}).decode()

    async def _on_close(self, text: str, message: Members) -> None:
        forbid_others(message, _WITHOUT_DATA)

    async def _on_mcp(self, text: str, message: Members) -> str:
        forbid_others(message, _WITH_DATA)
        request = message.value("data")
        if not isinstance(request, Members):
            raise invalid(
                ("data",), "Input should be an object", "missing" if request is None else "dict_type", request
            )
        return encode({"type": "mcp", "data": await self.wire.rpc.answer(text, request, self.caller())}).decode()

    def caller(self) -> Caller:
        return Caller(self.owner, self.inbox.unless_left, self.episode)

    _handlers = {
        "step": _on_step,
        "reset": _on_reset,
        "resume": _on_resume,
        "state": _on_state,
        "close": _on_close,
        "mcp": _on_mcp,
    }


_WITH_DATA = frozenset(("type", "data"))
_WITHOUT_DATA = frozenset(("type",))


class _RpcSocket(_Socket):
    """The socket `/mcp`: JSON-RPC without an envelope."""

    async def answer(self, text: str) -> str | None:
        return encode(await self.wire.rpc.answer_text(text, self.caller())).decode()


class _Inbox:
    """A socket's messages in order, and the notice that its client left."""

    def __init__(self, receive: Receive) -> None:
        self.receive = receive
        self.early: deque[Any] = deque()  # read ahead: their turn comes before what `receive` brings
        self.room = READ_AHEAD

    def next_early(self) -> Any:
        message = self.early.popleft()
        self.room += len(message.get("text") or "")
        return message

    async def close_code(self) -> int:
        """Why an answer could not be sent."""
        while True:
            message = self.next_early() if self.early else await self.receive()
            if message["type"] == "websocket.disconnect":
                return message.get("code", 1006)

    async def catch_up(self) -> None:
        """Read what has come, so that the messages of a client that left do not hold its slot any longer."""
        while self.room > 0:
            listening = asyncio.ensure_future(self.receive())
            await asyncio.wait({listening}, timeout=NOTICE_S)
            if not listening.done():
                listening.cancel()
                return
            if self._keep(listening.result()):
                return

    async def unless_left(self, work: Coroutine[Any, Any, T]) -> T:
        """Work that may wait in the queue; cancelled when the client leaves. Raises `ClientLeft`."""
        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)
        listening: asyncio.Future[Any] | None = None
        try:
            while not task.done():
                if self.room <= 0:
                    await asyncio.wait({task})
                    break
                listening = asyncio.ensure_future(self.receive())
                await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
                if listening.done() and self._keep(listening.result()):
                    raise ClientLeft
            return task.result()
        finally:
            if listening is not None and not listening.done():
                listening.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    def _keep(self, message: Any) -> bool:
        """Put a message aside for its turn; whether it says that the client left, which the others do not outlive."""
        left = message["type"] == "websocket.disconnect"
        if left:
            self.early.clear()
        self.early.append(message)
        self.room -= len(message.get("text") or "")
        return left
