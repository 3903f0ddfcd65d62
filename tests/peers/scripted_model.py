"""A model endpoint that plays scripted policies: the Responses API, and streaming chat completions.

It knows a row by its prompt, and keeps no memory of conversations: each request holds all of its tool results.
It is also NeMo Gym's head server, which hands the one configuration to everybody who asks.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from gymwire.servers.policies import Call
from gymwire.servers.types import Json, text_of
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.endpoint_thread import in_thread
from tests.peers.parts import Part

CREATED = 1_750_000_000


class ScriptedModel:
    """The endpoint as an ASGI app. `requests` counts the model calls it answered."""

    def __init__(self, parts: Iterable[Part], port: int = 0) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.head_config: Json = {}
        self.requests = 0
        self._parts = {part.prompt: part for part in parts}
        self._numbers = count(1)
        self.app = Starlette(
            routes=[
                Route("/global_config_dict_yaml", self.head),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/responses", self.responses, methods=["POST"]),
                Route("/ng-rollout/{rollout}/v1/responses", self.responses, methods=["POST"]),
            ]
        )

    async def head(self, request: Request) -> Response:
        return JSONResponse(self.head_config)

    async def responses(self, request: Request) -> Response:
        """The Responses API: calls and their results are items of `input`."""
        body = await request.json()
        results = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
        move = self._move(body["input"], results)
        number = next(self._numbers)
        item = _call_item(move, number) if isinstance(move, Call) else _message_item(move, number)
        return JSONResponse(
            {
                "id": f"resp_{number}",
                "object": "response",
                "created_at": CREATED,
                "model": "scripted",
                "output": [item],
                "parallel_tool_calls": True,
                "tool_choice": "auto",
                "tools": body.get("tools") or [],
                "usage": {
                    "input_tokens": 3,
                    "output_tokens": 2,
                    "total_tokens": 5,
                    "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens_details": {"reasoning_tokens": 0},
                },
            }
        )

    async def chat(self, request: Request) -> Response:
        """Chat completions, streamed."""
        body = await request.json()
        if not body.get("stream"):
            return JSONResponse({"error": {"message": "this endpoint only streams"}}, 400)
        results = [text_of(item["content"]) for item in body["messages"] if item["role"] == "tool"]
        move = self._move(body["messages"], results)
        return StreamingResponse(_events(move, next(self._numbers)), media_type="text/event-stream")

    def _move(self, messages: Sequence[Json], results: Sequence[str]) -> Call | str:
        self.requests += 1
        prompt = next(text_of(item["content"]) for item in messages if item.get("role") == "user")
        return self._parts[prompt].move(results)


def _call_item(call: Call, number: int) -> Json:
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": call.name,
        "arguments": json.dumps(call.arguments),
        "status": "completed",
    }


def _message_item(text: str, number: int) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def _events(move: Call | str, number: int) -> Iterator[str]:
    """Server-sent events; a call's arguments and an answer's text come in two pieces each."""
    base = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": CREATED, "model": "scripted"}
    for delta, finish in _deltas(move, number):
        yield _event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    yield _event({**base, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}})
    yield "data: [DONE]\n\n"


def _event(chunk: Json) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


def _deltas(move: Call | str, number: int) -> Iterator[tuple[Json, str | None]]:
    if isinstance(move, str):
        half = len(move) // 2
        yield {"role": "assistant", "content": move[:half]}, None
        yield {"content": move[half:]}, None
        yield {}, "stop"
        return
    arguments = json.dumps(move.arguments)
    half = len(arguments) // 2
    function: dict[str, Any] = {"name": move.name, "arguments": ""}
    opened = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
    yield {"role": "assistant", "content": None, "tool_calls": [opened]}, None
    for piece in (arguments[:half], arguments[half:]):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None
    yield {}, "tool_calls"


@contextmanager
def scripted_model(parts: Iterable[Part]) -> Iterator[ScriptedModel]:
    """The endpoint on a free port, run by uvicorn in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        model = ScriptedModel(parts, listening.getsockname()[1])
        with in_thread(listening, model.app):
            yield model
