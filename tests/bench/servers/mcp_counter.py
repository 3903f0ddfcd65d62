"""The peer on MCP: the SDK's own MCPServer with the counter's tools. Argument: port."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from mcp.server.mcpserver import MCPServer
from serving import run

server = MCPServer("counter")
values: dict[str, int] = {}


@server.tool()
async def seed_session(split: str = "train", index: int = 0) -> dict[str, Any]:
    """Begin an episode."""
    session = uuid.uuid4().hex
    values[session] = 0
    return {"session": session}


@server.tool()
async def add(n: int, session: str) -> str:
    """Add n to the counter."""
    values[session] += n
    return "added"


@server.tool()
async def verify(session: str, messages: list[dict[str, Any]]) -> dict[str, float]:
    """Score the episode."""
    return {"reward": float(values[session] == 2)}


@server.tool()
async def close_session(session: str) -> dict[str, bool]:
    """Give the session back."""
    return {"closed": values.pop(session, None) is not None}


if __name__ == "__main__":
    run(server.streamable_http_app(json_response=True), int(sys.argv[1]))
