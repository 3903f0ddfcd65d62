"""MCP content blocks as a tool result, for our MCP client, strangers' servers and OpenEnv's tool observations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..servers.types import Media


def read_content(blocks: Iterable[Mapping[str, Any]]) -> tuple[str, tuple[Media, ...]]:
    """The text of all blocks, a line each, and the pictures, sounds and resources among them.

    An embedded text resource counts as text of its own; a link is shown as its address.
    """
    texts: list[str] = []
    media: list[Media] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "text":
            texts.append(str(block.get("text") or ""))
        elif kind in ("image", "audio"):
            media.append(Media(kind, str(block.get("data") or ""), _mime(block)))
        elif kind == "resource" and isinstance(inner := block.get("resource"), Mapping):
            data = inner.get("text") if "text" in inner else inner.get("blob")
            media.append(Media("resource", str(data or ""), _mime(inner), str(inner.get("uri") or "")))
        else:
            texts.append(f"[{kind}: {block.get('uri') or block.get('name') or 'not shown'}]")
    return "\n".join(texts), tuple(media)


def _mime(block: Mapping[str, Any]) -> str:
    return str(block.get("mimeType") or block.get("mime_type") or "application/octet-stream")
