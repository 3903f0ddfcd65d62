"""The official MCP client for servers that are not ours: any revision, over HTTP or a command's stdin/stdout.

The SDK's client must be entered and left by one task; a task of its own holds it, so that sessions may be opened
and closed from anywhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import mcp_types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_TIMEOUT
from pydantic import ValidationError

from ..servers.schema import explain
from ..servers.types import FailureKind, Json, Stage, Tool, parameters_of
from .foreign import McpServer
from .pool import TOKEN_GONE
from .session import SessionFailed, WrongRequest

START_TIMEOUT_S = 60.0
logging.getLogger("mcp").addHandler(logging.NullHandler())  # what breaks is told by whoever asked, in one sentence
_POLICY_ERRORS = frozenset((INVALID_PARAMS, METHOD_NOT_FOUND))


class SdkClient:
    """One connection to one server."""

    def __init__(self, server: McpServer, token: str | None, timeout_s: float) -> None:
        self._server, self._token, self._timeout_s = server, token, timeout_s
        #: The connection broke: nothing sent over it will be answered any more.
        self.broken = False
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._holder = asyncio.create_task(self._hold())

    @classmethod
    async def open(cls, server: McpServer, token: str | None, timeout_s: float) -> SdkClient:
        """Start or reach the server. Raises `WrongRequest` when there is none to talk to."""
        made = cls(server, token, timeout_s)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await asyncio.shield(made._ready)
        except BaseException as error:
            await made.close()
            if isinstance(error, Exception):
                why = made._told(_innermost(error))
                raise WrongRequest(f"the MCP server {_named(server)} does not answer: {why}") from None
            raise
        return made

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(Client(await self._transport(stack)))
                self._ready.set_result(client)
                await self._stop.wait()
        except Exception as error:  # the boundary of the SDK: what breaks it is told to whoever waits or calls
            if not self._ready.done():
                self._ready.set_exception(error)

    async def _transport(self, stack: AsyncExitStack) -> Any:
        if not isinstance(self._server, str):
            command, *arguments = self._server
            return StdioServerParameters(command=command, args=arguments)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        timeout = httpx2.Timeout(30.0, read=self._timeout_s)
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=4.0)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, trust_env=False)
        )
        return streamable_http_client(self._server, http_client=http)

    async def tools(self) -> list[Tool]:
        """Every tool that the server lists. Raises `WrongRequest`."""
        try:
            client, cursor, found = await self._client(), None, []
            while True:
                page = await client.list_tools(cursor=cursor)
                found += map(_read_tool, page.tools)
                if not (cursor := page.next_cursor):
                    return found
        except Exception as error:  # the boundary of the SDK
            why = self._told(_innermost(error))
            raise WrongRequest(f"{_named(self._server)} does not list its tools: {why}") from None

    async def call(self, name: str, arguments: Mapping[str, Any], stage: Stage) -> Json:
        """One tool call; answers the result as JSON. What the protocol refuses as the caller's is an error result.

        Raises `SessionFailed`: a request whose delivery is unknown is not repeated.
        """
        try:
            client = await self._client()
            result = await client.call_tool(name, dict(arguments), read_timeout_seconds=self._timeout_s)
        except MCPError as error:
            said = self._told(error.message)
            if error.code in _POLICY_ERRORS:
                return {"content": [{"type": "text", "text": said}], "isError": True}
            self.broken |= error.code == CONNECTION_CLOSED
            timed_out = error.code == REQUEST_TIMEOUT
            kind = FailureKind.TRANSPORT_TIMEOUT if timed_out else FailureKind.PROVIDER_UNAVAILABLE
            raise SessionFailed(kind, said, stage) from None
        except (ValidationError, RuntimeError) as error:  # what the SDK finds in an answer; the connection is whole
            reason = f"{name} answered no tool result: {self._told(_innermost(error))}"
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage) from None
        except Exception as error:  # the boundary of the SDK: a lost connection, a dead process
            self.broken = True
            reason = f"delivery unknown: {self._told(_innermost(error))}"
            raise SessionFailed(FailureKind.TRANSPORT_PEER_DROP, reason, stage) from None
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    def _told(self, text: str) -> str:
        """An error without the token, which a server in debug may show."""
        return text.replace(self._token, TOKEN_GONE) if self._token else text

    async def _client(self) -> Client:
        if self._holder.done() or self._stop.is_set():
            raise ConnectionError("the connection to the server is gone")
        return await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Leave the server; a command is ended."""
        self._stop.set()
        if not self._ready.done():
            self._holder.cancel()
        await asyncio.wait({self._holder})
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # it was told, or nobody waits for it any more


def _read_tool(item: mcp_types.Tool) -> Tool:
    read_only = item.annotations is not None and item.annotations.read_only_hint is True
    return Tool(item.name, item.description or "", parameters_of(item.input_schema), read_only)


def _named(server: McpServer) -> str:
    return server if isinstance(server, str) else " ".join(server)


def _innermost(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return explain(error)
    said = str(error).partition("\n")[0]  # what follows repeats the answer
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
