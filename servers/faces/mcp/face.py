"""The MCP wire: plain stateless requests by an own handler, everything else by the SDK, over the same tools.

Served at `/{env}/mcp`, and once more as the NeMo Gym wire's door (`door`), where the session header is required
and no control call exists. Which hosts and origins may ask, the app has checked.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from ...answers import Code, Refused
from ...types import Json
from ..asgi import Face, FaceContext, Receive, Scope, Send, respond_refused
from .hot import SESSION_HEADER as SESSION_HEADER_BYTES
from .hot import HotPath
from .sdk import SdkApp, serve_stdio, server_of
from .tools import McpTools

__all__ = ["SESSION_HEADER", "door", "face", "serve_stdio"]

#: Carries the handle, which then no tool call mentions.
SESSION_HEADER = "X-Gymwire-Session"


def face(context: FaceContext) -> Face:
    """The face at `context.prefix`."""
    return _Mcp(context, wire="mcp", header_only=False).face()


def door(context: FaceContext) -> Face:
    """The same at `context.prefix`, for requests with a session header only."""
    return _Mcp(context, wire="nemo-gym", header_only=True).face()


class _Mcp:
    def __init__(self, context: FaceContext, wire: str, header_only: bool) -> None:
        self.prefix, self.header_only = context.prefix, header_only
        tools = McpTools(context.sessions, context.served, wire)
        server = server_of(tools)
        self.sdk = SdkApp(server, context.sessions, context.max_body_bytes)
        self.plain = HotPath(tools, server.server_info_stamp, self.otherwise, context.max_body_bytes)

    def face(self) -> Face:
        post = self.door if self.header_only else self.plain
        other = self.door if self.header_only else self.otherwise
        routes = {"POST": post, "GET": other, "DELETE": other}
        return Face(
            http={self.prefix: routes},
            openapi={self.prefix: path_item(self.header_only)},
            lifespan=self.lifespan,
        )

    def lifespan(self) -> AbstractAsyncContextManager[Any]:
        return self.sdk.lifespan()

    async def door(self, scope: Scope, receive: Receive, send: Send) -> None:
        if all(name != SESSION_HEADER_BYTES for name, _ in scope["headers"]):
            text = f"This door needs the header {SESSION_HEADER}, which the answer to seed_session carries."
            await respond_refused(send, Refused(Code.INVALID_REQUEST, text))
            return
        await (self.plain if scope["method"] == "POST" else self.otherwise)(scope, receive, send)

    async def otherwise(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is not plain: the SDK's."""
        trimmed = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self.sdk({**scope, "headers": trimmed}, receive, send)


def path_item(header_only: bool) -> Json:
    """OpenAPI's view of one MCP endpoint."""
    json_answer = {"application/json": {"schema": {"type": "object"}}}
    refused = {
        "description": "Refused; a JSON-RPC error, or text.",
        "content": {"application/json": {}, "text/plain": {}},
    }
    statuses = ("400", "401", "403", "404", "405", "406", "413", "415", "421", "429", "503")
    errors = {status: refused for status in statuses}
    session = {
        "name": SESSION_HEADER,
        "in": "header",
        "required": header_only,
        "schema": {"type": "string"},
        "description": "The handle of a session: then only its own tools exist.",
    }
    stream = {"text/event-stream": {"schema": {"type": "string"}}}

    def operation(summary: str, answers: Json) -> Json:
        return {"summary": summary, "tags": ["mcp"], "parameters": [session], "responses": {**answers, **errors}}

    post = operation(
        "MCP: one JSON-RPC message (streamable HTTP; revision 2026-07-28 and those with initialize).",
        {"200": {"description": "The answer.", "content": json_answer | stream}, "202": {"description": "Taken."}},
    )
    post["requestBody"] = {"required": True, "content": json_answer}
    return {
        "post": post,
        "get": operation("MCP: the stream of a session.", {"200": {"description": "Events.", "content": stream}}),
        "delete": operation("MCP: end a session.", {"200": {"description": "Ended."}}),
    }
