"""The episodes' contents: a row, and transcripts of a wanted size. Equal in every run."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

PLACE = {"split": "train", "index": 3}
ROW = {"responses_create_params": {"input": "Add two."}, "start": 0, "target": 2}
TOKENS = 32_768
_WORDS = ("so", "the", "counter", "stands", "at", "seven", "and", "must", "reach", "nine", "which", "is", "two", "more")


def prose(size: int) -> str:
    """Text of that many bytes."""
    rng, words, length = Random(7), [], 0
    while length < size:
        words.append(rng.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def _items(text: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for number in (1, 2):
        call = {"type": "function_call", "call_id": f"c{number}", "name": "add", "arguments": '{"n":1}'}
        items.append(call | {"id": f"f{number}", "status": "completed"})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": "added"})
    said = {"type": "output_text", "text": text, "annotations": []}
    items.append({"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [said]})
    return items


def responses_output(text_bytes: int, tokens: int = 0) -> bytes:
    """A Responses object as an agent posts it to verify; with `tokens`, their ids and log-probabilities too."""
    items = _items(prose(text_bytes))
    if tokens:
        rng = Random(11)
        items[-1] |= {
            "prompt_token_ids": [rng.randrange(150_000) for _ in range(64)],
            "generation_token_ids": [rng.randrange(150_000) for _ in range(tokens)],
            "generation_log_probs": [round(-rng.expovariate(3), 4) for _ in range(tokens)],
        }
    response = {
        "id": "r1",
        "created_at": 1,
        "model": "m",
        "object": "response",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
    }
    return orjson.dumps(response)


def chat_messages(text_bytes: int = 14_000) -> list[dict[str, Any]]:
    """The same episode as chat messages."""
    messages: list[dict[str, Any]] = []
    for number in (1, 2):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": '{"n":1}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "added"})
    messages.append({"role": "assistant", "content": prose(text_bytes)})
    return messages
