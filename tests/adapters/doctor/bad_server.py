"""A gymwire app with one fault planted between it and its clients, by name; without one it is healthy.

A `Fault` sees every HTTP request and answer, and every message of a socket, and may change them. It stands outside of
the app, so whatever a fault does not touch is as it always is.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from gymwire.servers import Environment, Row, ToolError, Transcript, tool
from gymwire.servers.app import App
from gymwire.servers.auth import Guard
from gymwire.servers.catalog import Served
from gymwire.servers.sessions import Limits, Sessions

from tests.serving import free_port

Message = MutableMapping[str, Any]
LABEL = "tangerine-71"
LINES = 'the first line\nand the "second"'
ROW = Row.of("Write three notes, then say the password.", expected_answer=LABEL, notes=3, solution=LINES)


class Desk(Environment):
    """Keeps notes."""

    splits = ("train",)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for number in range(4 if count is None else count):
            yield Row.of(f"Write {number + 1} notes, then say the password.", expected_answer=LABEL, notes=number + 1)

    def reset(self, row: Row) -> None:
        self.notes: list[str] = []

    @tool
    async def write(self, text: str) -> str:
        """Write a note.

        Args:
            text: What it says.
        """
        self.notes.append(text)
        return f"{len(self.notes)} notes, the last of them: {', '.join(self.notes[-5:])}"

    @tool(read_only=True)
    async def read(self, place: int) -> str:
        """Read a note.

        Args:
            place: Which one, from 1.
        """
        if not 1 <= place <= len(self.notes):
            raise ToolError(f"There is no note {place}.")
        return self.notes[place - 1]

    def verify(self, transcript: Transcript) -> dict[str, float]:
        notes = min(len(self.notes) / self.row.data["notes"], 1.0)
        return {"notes": 0.5 * notes, "password": 0.5 * (LABEL in transcript.answer)}


@dataclass
class Request:
    """An HTTP request; `route` is the last part of its path."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def route(self) -> str:
        return self.path.rpartition("/")[2]

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Answer:
    """An HTTP answer; headers may come several times."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)

    def say(self, value: Any) -> Answer:
        self.body = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        return self

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    def drop(self, name: str) -> Answer:
        self.headers = [(key, value) for key, value in self.headers if key != name]
        return self


Ask = Callable[[Request], Awaitable[Answer]]


class Fault:
    """Nothing wrong: what every fault begins from."""

    limits = Limits()
    tokens: tuple[str, ...] = ()
    ping_s: float | None = 20.0

    async def http(self, request: Request, ask: Ask) -> Answer:
        """Answer a request; `ask` is the healthy app."""
        return await ask(request)

    def socket(self) -> Socket:
        """What stands in one socket's way."""
        return Socket()


class Socket:
    """Messages of one socket, as they pass."""

    def heard(self, text: str) -> list[str]:
        """What the app hears for a message of the client."""
        return [text]

    def said(self, text: str) -> str | None:
        """What the client hears for a message of the app: nothing where it is None."""
        return text


@dataclass
class Tampered:
    """The app with a fault before it."""

    app: Any
    fault: Fault
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _http(self, scope: Message, receive: Any, send: Any) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"]}

        async def ask(request: Request) -> Answer:
            return await self._asked(scope, request, receive)

        answer = await self.fault.http(Request(scope["method"], scope["path"], headers, body), ask)
        sent = [(key.encode(), value.encode("latin-1")) for key, value in answer.headers if key != "content-length"]
        sent.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": sent})
        await send({"type": "http.response.body", "body": answer.body})

    async def _asked(self, scope: Message, request: Request, receive: Any) -> Answer:
        """What the app answers."""
        headers = {**request.headers, "content-length": str(len(request.body))}
        raw = [(key.encode(), value.encode("latin-1")) for key, value in headers.items()]
        asked = {**scope, "path": request.path, "raw_path": request.path.encode(), "headers": raw}
        begun: list[Message] = [{"type": "http.request", "body": request.body}]
        got = Answer(0, [], b"")

        async def hear() -> Message:
            return begun.pop() if begun else await receive()

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                got.status = message["status"]
                got.headers = [(key.decode().lower(), value.decode("latin-1")) for key, value in message["headers"]]
            else:
                got.body += message.get("body", b"")

        await self.app(asked, hear, keep)
        return got

    async def _socket(self, scope: Message, receive: Any, send: Any) -> None:
        between, waiting = self.fault.socket(), []

        async def hear() -> Message:
            if waiting:
                return {"type": "websocket.receive", "text": waiting.pop(0)}
            message = await receive()
            if message["type"] != "websocket.receive" or message.get("text") is None:
                return message
            waiting.extend(between.heard(message["text"]))
            return await hear()

        async def say(message: Message) -> None:
            if message["type"] == "websocket.send":
                text = between.said(message["text"])
                if text is None:
                    return
                message = {**message, "text": text} if text else {"type": "websocket.close", "code": 1011}
            await send(message)

        await self.app(scope, hear, say)


@contextmanager
def standing(fault: Fault) -> Iterator[str]:
    """The URL of a server with this fault, in a thread of this process."""
    port = free_port()
    app = App([Served(Desk)], Sessions(fault.limits), guard=Guard(fault.tokens))
    config = uvicorn.Config(
        Tampered(app, fault),  # pyright: ignore[reportArgumentType]
        port=port,
        ws="websockets-sansio",
        ws_ping_interval=fault.ping_s,
        ws_ping_timeout=fault.ping_s,
        log_level="critical",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive(), "the server did not stop"
