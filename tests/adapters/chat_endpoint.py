"""A chat endpoint over real HTTP whose turns a test scripts, trouble included; streamed in small pieces or whole."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from gymwire.servers.types import Json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.endpoint_thread import in_thread

PIECE = 7


class Break(RuntimeError):
    """Breaks the connection in the middle of an answer."""


@dataclass(frozen=True)
class Turn:
    """What the endpoint answers. `status` other than 200 is an error with `body`; `raw` is a whole body as it stands.

    A stream `ends` early, or its connection `breaks`, after two pieces, or breaks `after` its last one; `slow_s` passes
    before each piece.
    """

    content: str | None = None
    calls: Sequence[tuple[str, str]] = ()
    finish_reason: str | None = None
    reasoning: str = ""
    refusal: str = ""
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    media: str = "application/json"
    early: Literal["", "ends", "breaks", "after"] = ""
    slow_s: float = 0.0

    @property
    def message(self) -> Json:
        message: Json = {"role": "assistant", "content": self.content}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [
                {"id": f"c{place}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for place, (name, arguments) in enumerate(self.calls)
            ]
        return message

    @property
    def finish(self) -> str:
        return self.finish_reason or ("tool_calls" if self.calls else "stop")


USAGE = {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}
#: The request's body, and how many were made before it.
Script = Callable[[Json, int], Turn]


class ChatEndpoint:
    """`requests` holds every body that was received, `keys` what authorized it, `queries` what its URL asked."""

    def __init__(self, script: Script, port: int) -> None:
        self.url, self.script = f"http://127.0.0.1:{port}/v1", script
        self.requests: list[Json] = []
        self.keys: list[str] = []
        self.queries: list[str] = []
        self.app = Starlette(routes=[Route("/v1/chat/completions", self.chat, methods=["POST"])])

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        number = len(self.requests)
        self.requests.append(body)
        self.keys.append(request.headers.get("authorization", ""))
        self.queries.append(request.url.query)
        turn = self.script(body, number)
        if turn.raw is not None:
            return Response(turn.raw, turn.status, turn.headers, turn.media)
        if turn.status != 200:
            return JSONResponse(turn.body, turn.status, turn.headers)
        if body.get("stream"):
            return StreamingResponse(_events(turn), media_type="text/event-stream")
        await asyncio.sleep(turn.slow_s)
        choice = {"index": 0, "message": turn.message, "finish_reason": turn.finish}
        return JSONResponse({"object": "chat.completion", "choices": [choice], "usage": USAGE})


async def _events(turn: Turn) -> AsyncIterator[bytes]:
    yield b": keep-alive\n\n"
    for number, delta in enumerate(_deltas(turn.message)):
        await asyncio.sleep(turn.slow_s)
        yield _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if turn.early == "ends" and number == 1:
            return
        if turn.early == "breaks" and number == 1:
            raise Break
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": turn.finish}]})
    yield _event({"choices": [], "usage": USAGE})
    yield b"data: [DONE]\n\n"
    if turn.early == "after":
        raise Break


def _event(chunk: Json) -> bytes:
    return f"data: {json.dumps(chunk)}\r\n\r\n".encode()


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant"}
    for name in ("reasoning_content", "content", "refusal"):
        for piece in _pieces(message.get(name) or ""):
            yield {name: piece}
    for place, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield {"tool_calls": [{**call, "index": place, "function": {"name": function["name"], "arguments": ""}}]}
        for piece in _pieces(function["arguments"]):
            yield {"tool_calls": [{"index": place, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


@contextmanager
def chat_endpoint(script: Script) -> Iterator[ChatEndpoint]:
    """The endpoint on a free port, run by uvicorn in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = ChatEndpoint(script, listening.getsockname()[1])
        with in_thread(listening, endpoint.app):
            yield endpoint
