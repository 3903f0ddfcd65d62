"""Chat messages as Responses API output items, the form in which NeMo Gym's verify reads an episode."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from secrets import token_hex
from time import time
from typing import Any

from ..servers.types import Ending, Json, Message, text_of


def response_of(messages: Sequence[Message], ending: Ending) -> Json:
    """A whole Responses object; `status` says whether the episode was cut."""
    return {
        "id": f"resp_{token_hex(12)}",
        "created_at": int(time()),
        "model": "gymwire-policy",
        "object": "response",
        "output": list(output_items(messages)),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "incomplete" if ending is Ending.CUT else "completed",
    }


def output_items(messages: Iterable[Message]) -> Iterator[Json]:
    """Each message as items: an assistant's text, its calls one by one, a tool's answer, a later prompt."""
    for message in messages:
        role = message.get("role")
        if "type" in message and role is None:
            yield dict(message)  # a Responses item already
        elif role == "tool":
            yield {
                "type": "function_call_output",
                "call_id": str(message.get("tool_call_id") or ""),
                "output": text_of(message.get("content")),
            }
        elif role == "assistant":
            yield from _assistant_items(message)
        else:
            yield {"type": "message", "role": role, "content": message.get("content") or ""}


def _assistant_items(message: Message) -> Iterator[Json]:
    text = text_of(message.get("content"))
    calls = message.get("tool_calls") or ()
    if text or not calls:
        part = {"type": "output_text", "text": text, "annotations": []}
        yield {
            "type": "message",
            "id": f"msg_{token_hex(8)}",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    for call in calls:
        yield _call_item(call.get("function") or {}, str(call.get("id") or ""))


def _call_item(function: Mapping[str, Any], call_id: str) -> Json:
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {
        "type": "function_call",
        "call_id": call_id,
        "name": str(function.get("name") or ""),
        "arguments": text,
    }
