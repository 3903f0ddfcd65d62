"""An MCP server over standard input and output without the SDK, for tests: it answers what the SDK would not."""

from __future__ import annotations

import json
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": None, "required": None}
RESULTS: dict[str, dict[str, Any]] = {
    "well": {"content": [{"type": "text", "text": "well"}]},
    "only_structured": {"content": [], "structuredContent": {"a": [1, None]}},
    "no_content": {"structuredContent": {"a": 1}},
    "verify": {"content": [{"type": "text", "text": "a tool that is called as a control call"}]},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        schema = {} if sys.argv[1:] == ["untyped"] else SCHEMA
        return {"tools": [{"name": name, "inputSchema": schema} for name in RESULTS]}
    return RESULTS[params["name"]] if method == "tools/call" else None


for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = answer(asked["method"], asked.get("params", {}))
    said = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}) + "\n")
    sys.stdout.flush()
