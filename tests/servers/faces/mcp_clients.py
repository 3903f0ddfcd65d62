"""Clients of the MCP wire for tests: the official one in both revisions, and plain requests by hand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

VERSION = "2026-07-28"
REVISIONS = (VERSION, "legacy")
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@asynccontextmanager
async def client(url: str, revision: str, handle: str | None = None) -> AsyncIterator[Client]:
    """The official client, with the session header where a handle is given."""
    headers = {} if handle is None else {"X-Gymwire-Session": handle}
    async with httpx2.AsyncClient(headers=headers) as http:
        mode: Any = revision
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as connected:
            yield connected


def text(result: types.CallToolResult) -> str:
    """The text of a result that is text alone."""
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


def code(result: types.CallToolResult) -> str:
    assert result.meta is not None
    return result.meta["gymwire/code"]


async def seed(url: str, **arguments: Any) -> str:
    """A handle, by a plain request."""
    return json.loads((await Raw(url).call("seed_session", arguments))["content"][0]["text"])["session"]


class Raw:
    """One plain request of revision 2026-07-28 at a time, its JSON as a test wrote it."""

    def __init__(self, url: str, handle: str | None = None, **headers: str) -> None:
        self.url = url
        self.headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            **({} if handle is None else {"x-gymwire-session": handle}),
            **headers,
        }

    async def call(self, name: str, arguments: Any, **meta: Any) -> dict[str, Any]:
        """The result of a call; `arguments` is JSON text or an object."""
        raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
        body = request_text("tools/call", raw, name, meta)
        status, answer = await self.post(body, {"mcp-method": "tools/call", "mcp-name": name})
        assert status == 200, answer
        return answer["result"]

    async def listed(self) -> list[dict[str, Any]]:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}})
        status, answer = await self.post(body, {"mcp-method": "tools/list"})
        assert status == 200, answer
        return answer["result"]["tools"]

    async def post(self, body: str, headers: Mapping[str, str]) -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as http,
            http.post(self.url, data=body.encode(), headers={**self.headers, **headers}) as response,
        ):
            content = await response.text()
            if response.content_type == "text/event-stream":
                last = [line[6:] for line in content.splitlines() if line.startswith("data: ")][-1]
                return response.status, json.loads(last)
            return response.status, json.loads(content)


def request_text(method: str, arguments: str, name: str, meta: Mapping[str, Any]) -> str:
    """The JSON text of a call with its arguments untouched."""
    envelope = json.dumps({**META, **meta})
    return (
        f'{{"jsonrpc":"2.0","id":1,"method":"{method}","params":'
        f'{{"name":{json.dumps(name)},"arguments":{arguments},"_meta":{envelope}}}}}'
    )
