"""The SDK's own server over the same tools: sessions with `initialize`, older revisions, progress, stdio, oddities.

A tool call runs to its end whatever becomes of its client; only a seed that waits in the queue leaves with it.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ...answers import Code, Refused
from ...catalog import Served
from ...progress import Progress, listener
from ...sessions import Sessions
from ...types import Json
from ..asgi import CODE_HEADERS, Receive, Scope, Send, owner_of, respond_refused
from .tools import IDEMPOTENCY_KEY, Call, McpTools, Said, refusal

Context = ServerRequestContext[Any, Any]
#: Open SDK sessions (`initialize`) a face keeps beside one for each session of the engine; each takes about 40 KB.
SPARE_SDK_SESSIONS = 4096
#: In a request's scope: the handle of the session that began with it.
BEGUN = "gymwire.begun"

#: What the SDK's refusals are called in our vocabulary.
CODES_OF_STATUS = {
    403: Code.FORBIDDEN_ORIGIN,
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
    413: Code.TOO_LARGE,
    500: Code.INTERNAL,
    503: Code.AT_CAPACITY,
}


def server_of(tools: McpTools) -> Server[Any]:
    """The SDK's low-level server: arguments pass through it unread."""
    calls: Any = _Handlers(tools)  # its results are plain dicts, which the SDK takes but types more narrowly
    return Server(
        tools.served.name,
        version=_own_version(),
        instructions=inspect.getdoc(tools.served.environment) or None,
        get_tool_input_schema=tools.schema_of,
        on_list_tools=calls.list_tools,
        on_call_tool=calls.call_tool,
    )


class SdkApp:
    """The SDK's streamable-HTTP app, without its Host check: the server has made one before."""

    def __init__(self, server: Server[Any], sessions: Sessions, max_body_bytes: int) -> None:
        self.server, self.limits, self.max_body_bytes = server, sessions.limits, max_body_bytes
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Runs the SDK's session manager; an idle SDK session ends with the engine's own idle limit."""
        idle_s = self.limits.idle_timeout_s
        manager = StreamableHTTPSessionManager(
            self.server,
            session_idle_timeout=idle_s if isfinite(idle_s) and idle_s > 0 else None,
            max_sessions=self.limits.max_sessions + SPARE_SDK_SESSIONS,
            max_request_body_size=self.max_body_bytes,
        )
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._manager is None:
            await respond_refused(send, Refused(Code.DRAINING, "This server is starting or shutting down."))
            return
        await self._manager.handle_request(scope, receive, _with_headers(scope, send))


def _with_headers(scope: Scope, send: Send) -> Send:
    """The SDK's refusals carry a machine-readable code too, and what begins a session names it."""

    async def coded(message: Any) -> None:
        if message["type"] == "http.response.start":
            ours = []
            if message["status"] >= 400:
                ours.append(CODE_HEADERS[CODES_OF_STATUS.get(message["status"], Code.INVALID_REQUEST)])
            if begun := scope.get(BEGUN):
                ours.append((b"x-gymwire-session", begun.encode()))
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return coded


async def serve_stdio(sessions: Sessions, served: Served) -> None:
    """Serve one environment over stdin and stdout, without a session header, until stdin ends."""
    await served.prepare()
    server = server_of(McpTools(sessions, served))
    try:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    finally:
        await sessions.drain()
        await served.close()


class _Handlers:
    def __init__(self, tools: McpTools) -> None:
        self.tools = tools

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> HandlerResult:
        try:
            listed = await self.tools.listed(_handle(context), _owner(context))
        except Refused as refused:
            raise MCPError(types.INVALID_PARAMS, refused.text, {"code": refused.code.value}) from None
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": listed}

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> HandlerResult:
        try:
            key = _key(context)
        except Refused as refused:
            return _result(refusal(refused))
        arguments = (context.params or {}).get("arguments")
        call = Call(params.name, arguments or {}, _handle(context), _owner(context), key)
        if self.tools.may_wait_in_queue(call):
            return _result(_noted(context, await self.tools.call(call)))
        return _result(await _to_the_end(_reporting(context, self.tools.call(call))))


def _result(said: Said) -> Json:
    return {"content": said.content(), "isError": said.is_error, "resultType": "complete", "_meta": said.meta}


def _noted(context: Context, said: Said) -> Said:
    """Leave the session that has begun for the answer's headers, where those have not left yet."""
    if context.request is not None and said.begun:
        context.request.scope[BEGUN] = said.begun
    return said


def _handle(context: Context) -> str | None:
    return None if context.request is None else context.request.headers.get("x-gymwire-session")


def _owner(context: Context) -> str:
    return "" if context.request is None else owner_of(context.request.scope)


def _key(context: Context) -> str | None:
    """The call's idempotency key. Raises `Refused` for one that is no string."""
    meta = (context.params or {}).get("_meta")
    key = meta.get(IDEMPOTENCY_KEY) if isinstance(meta, Mapping) else None
    if key is not None and not isinstance(key, str):
        raise Refused(Code.INVALID_REQUEST, f"_meta[{IDEMPOTENCY_KEY!r}] must be a string.")
    return key


_running: set[asyncio.Task[Any]] = set()


async def _to_the_end(work: Coroutine[Any, Any, Said]) -> Said:
    """Run work that a leaving client must not stop half way."""
    task = asyncio.ensure_future(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return await asyncio.shield(task)


async def _reporting(context: Context, work: Coroutine[Any, Any, Said]) -> Said:
    """Send what the tool reports to a client that asked for progress, in order, before the answer."""
    if context.meta is None or context.meta.get("progress_token") is None:
        return await work
    loop = asyncio.get_running_loop()
    reports: asyncio.Queue[Progress | None] = asyncio.Queue()
    sender = asyncio.ensure_future(_send_reports(context, reports))

    def listen(report: Progress) -> None:
        loop.call_soon_threadsafe(reports.put_nowait, report)

    listener.set(listen)
    try:
        return await work
    finally:
        loop.call_soon(reports.put_nowait, None)
        await sender


async def _send_reports(context: Context, reports: asyncio.Queue[Progress | None]) -> None:
    """Until None. A client that has left gets nothing; its call goes on."""
    while (report := await reports.get()) is not None:
        await context.session.report_progress(report.progress, report.total, report.message)


def _own_version() -> str:
    try:
        return version("gymwire")
    except PackageNotFoundError:
        return "0"
