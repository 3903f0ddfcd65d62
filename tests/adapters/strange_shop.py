"""An MCP server of somebody else's, for tests: a handle named by an argument, a reward tool, a picture.

python strange_shop.py            over standard input and output
python strange_shop.py PORT       over HTTP
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("shop")
baskets: dict[str, list[str]] = {}
here: Counter[str] = Counter()
PIXEL = b"\x89PNG\r\n"


@server.tool()
def open_shop(level: int = 1) -> dict[str, Any]:
    """Open a shop and answer its handle."""
    handle = f"shop-{len(baskets)}"
    baskets[handle] = [f"level {level}"]
    return {"session_id": handle}


@server.tool()
def add_item(session_id: str, sku: str) -> str:
    """Put an article in the basket. The session_id names the shop.

    Args:
        session_id: The handle that open_shop answered.
        sku: The article.
    """
    if sku == "boom":
        raise ToolError("there is no such article")
    baskets[session_id].append(sku)
    return f"added {sku}"


@server.tool()
def view(session_id: str) -> list[str]:
    """Show the basket."""
    return baskets[session_id]


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def look_around(session_id: str, seconds: float = 0.0) -> str:
    """Look how many look around."""
    return await company(session_id, seconds)


@server.tool()
async def walk_around(session_id: str, seconds: float = 0.0) -> str:
    """The same, but who knows what it changes."""
    return await company(session_id, seconds)


async def company(handle: str, seconds: float) -> str:
    """Whether somebody else came within a moment; answered some seconds later."""
    here[handle] += 1
    try:
        for _ in range(20):
            if here[handle] > 1:
                break
            await asyncio.sleep(0.02)
        met = here[handle] > 1
        await asyncio.sleep(0.05 + seconds)
        return "in company" if met else "alone"
    finally:
        here[handle] -= 1


@server.tool()
def photo() -> Image:
    """Show a picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def process() -> int:
    """Which process answers."""
    return os.getpid()


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


@server.tool()
def grade(session_id: str, answer: str) -> dict[str, Any]:
    """Score the basket."""
    if answer == "break":
        raise RuntimeError("no grade")
    return {"reward": len(baskets[session_id]) - 1 + (0.5 if answer == "done" else 0)}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
