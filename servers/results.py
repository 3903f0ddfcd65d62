"""From what an environment returned to what the wires carry: tool results, rewards, prompts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import fsum, isfinite
from numbers import Real
from typing import Any

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from .failures import BadReward
from .types import Ending, Media, Outcome, ToolResult

#: A tool's text past this many characters is cut; what is kept is said.
MAX_RESULT_CHARACTERS = 1_000_000


def tool_result(value: Any) -> ToolResult:
    """Text as it is; media as media; anything else as JSON. Raises TypeError for what has no JSON form."""
    if isinstance(value, str):
        return ToolResult(clean_text(value))
    if isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("a tool returned bytes; return text, JSON values or Media")
    if isinstance(value, ToolResult):
        media = tuple(map(_sendable, value.media))
        return replace(value, text=clean_text(value.text), is_error=bool(value.is_error), media=media)
    if isinstance(value, Media):
        return ToolResult("", media=(_sendable(value),))
    if _has_media(value):
        texts = [part for part in value if not isinstance(part, Media)]
        media = tuple(_sendable(part) for part in value if isinstance(part, Media))
        return ToolResult(clean_text("\n".join(map(str, texts))), media=media)
    return ToolResult(clean_text(_as_json(value)))


def _sendable(media: Media) -> Media:
    """Media whose fields every wire can carry. Raises TypeError for raw bytes."""
    if not isinstance(media.data, str):
        raise TypeError(f"Media.data is base64 text (or a resource's text), not {type(media.data).__name__}")
    if media.data.isascii():
        return media
    return replace(media, data=media.data.encode("utf-8", "replace").decode())


def _as_json(value: Any) -> str:
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, UnicodeEncodeError):  # a lone surrogate inside: shown replaced, like in text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=to_jsonable_python)


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
        if value.masked:
            return value
        if value.failure_kind:
            raise BadReward(f"verify returned the reward {value.reward} together with a failure")
        ending = Ending(value.ending) if ending is Ending.FINISHED else ending
        reward = finite_number(value.reward, "verify")
        said = tuple(clean_text(str(item)) for item in value.disagreements)
        return Outcome(ending, reward, _components(value.components), disagreements=said)
    if isinstance(value, Mapping):
        if not value:
            raise BadReward("verify returned no components")
        components = _components(value)
        return Outcome(ending, fsum(components.values()), components)
    return Outcome(ending, finite_number(value, "verify"))


def _components(parts: Mapping[Any, Any]) -> dict[str, float]:
    components = {clean_text(str(name)): finite_number(part, f"component {name!r}") for name, part in parts.items()}
    if len(components) != len(parts):
        raise BadReward("two components have the same name")
    return components


def finite_number(value: Any, what: str) -> float:
    """A reward or a part of one, from wherever it came. Raises `BadReward`; a bool is no number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadReward(f"{what} returned {type(value).__name__}, not a number")
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    if not isfinite(number):
        raise BadReward(f"{what} returned {number}, not a finite number")
    return number
