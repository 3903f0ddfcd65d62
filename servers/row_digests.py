"""Digests by which rows are the same: what they say, or what they ask."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from .row_forms import KEPT
from .transcripts import chat_messages
from .types import FRAMEWORK_KEYS, Row, text_of


def row_digest(raw: Mapping[str, Any]) -> bytes:
    """Of what a NeMo Gym row says, whatever its order of keys and the framework's numbers in it are."""
    said = {key: value for key, value in raw.items() if key not in FRAMEWORK_KEYS and key != KEPT}
    return digest(said)


def prompt_digest(row: Row) -> bytes:
    """Of the prompt, without the system's words where there are others."""
    messages = chat_messages(row.prompt)
    others = [message for message in messages if message["role"] not in ("system", "developer")]
    return digest([_core(message) for message in others or messages])


def _core(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    words = " ".join(text_of(content).casefold().split())
    parts = content if isinstance(content, list) else ()
    media = [part for part in parts if not (isinstance(part, Mapping) and isinstance(part.get("text"), str))]
    return [message["role"], words, media, message.get("tool_calls")]


def digest(value: Any) -> bytes:
    """Of a JSON value, whatever the order of its keys."""
    return sha256(json.dumps(value, sort_keys=True).encode()).digest()[:16]


def number_of(known: bytes) -> int:
    """A number of 64 bits from a digest."""
    return int.from_bytes(known[:8], "big")
