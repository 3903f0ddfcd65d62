"""From what an environment returned to what the wires carry: tool results, rewards, prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, isfinite
from numbers import Real
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from .failures import BadReward
from .types import Ending, Media, Outcome, ToolResult

#: A tool's text past this many characters is cut; what is kept is said.
MAX_RESULT_CHARACTERS = 1_000_000


def tool_result(value: Any) -> ToolResult:
    """Text as it is; media as media; anything else as JSON. Raises TypeError for what has no JSON form."""
    if isinstance(value, str):
        return ToolResult(clean_text(value))
    if isinstance(value, ToolResult):
        return replace(value, text=clean_text(value.text))
    if isinstance(value, Media):
        return ToolResult("", media=(value,))
    if _has_media(value):
        texts = [part for part in value if not isinstance(part, Media)]
        media = tuple(part for part in value if isinstance(part, Media))
        return ToolResult(clean_text("\n".join(map(str, texts))), media=media)
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("a tool returned bytes; return text, JSON values or Media")
    return ToolResult(clean_text(_as_json(value)))


def _as_json(value: Any) -> str:
    try:
        return to_json(value).decode()
    except UnicodeEncodeError:  # a lone surrogate somewhere inside: shown replaced, like in plain text
        return json.dumps(to_jsonable_python(value), ensure_ascii=False, separators=(",", ":"))


def _has_media(value: Any) -> bool:
    return isinstance(value, Sequence) and any(isinstance(part, Media) for part in value)


def clean_text(text: str) -> str:
    """Encodable as UTF-8 on every wire, and of bounded size."""
    if len(text) > MAX_RESULT_CHARACTERS:
        total = len(text)
        text = f"{text[:MAX_RESULT_CHARACTERS]}\n[cut: the first {MAX_RESULT_CHARACTERS} of {total} characters]"
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def outcome_of(value: Any, ending: Ending) -> Outcome:
    """The outcome of what verify returned. Raises `BadReward` for what is no finite number."""
    if isinstance(value, Outcome):
        return value if value.masked or ending is Ending.FINISHED else replace(value, ending=ending)
    if isinstance(value, Mapping):
        if not value:
            raise BadReward("verify returned no components")
        components = {str(name): _number(part, f"component {name!r}") for name, part in value.items()}
        return Outcome(ending, fsum(components.values()), components)
    return Outcome(ending, _number(value, "verify"))


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadReward(f"{what} returned {type(value).__name__}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise BadReward(f"{what} returned {number}, not a finite number")
    return number
