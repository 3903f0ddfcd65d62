"""Reading what a server says, whatever it is."""

from __future__ import annotations

import json
from typing import Any

from yarl import URL

from ...servers.types import Json


def decoded(text: str | bytes) -> Any:
    """JSON as Python reads it (NaN too), or None."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def blocks_of(result: Json) -> list[Json]:
    """A tool result's content: the blocks of it that are objects."""
    content = result.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def mapping(value: Any) -> Json:
    """An object as it is; of anything else, an empty one."""
    return value if isinstance(value, dict) else {}


def shown(method: str, url: URL, body: bytes | str) -> str:
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return f"{method} {url.path} {text}"
