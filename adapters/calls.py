"""Reading tool calls as models write them, and fitting results to what a model may read.

Nothing here raises inside a rollout: a call that cannot be read becomes one readable error result for the
model. What "no arguments" looks like differs between parsers and providers, so "", blanks, None and {} all
mean it. Arguments that were encoded twice are unwrapped once. NaN, infinities and lone surrogates are no JSON
and are refused as the model's mistake.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, NoReturn

import orjson

from ..servers.answers import sanitize
from ..servers.types import Json, Message, ToolResult

Keep = Literal["start", "end", "both"]

#: What a broken call is named in the history when it named no tool.
UNNAMED = "unreadable_tool_call"
#: Objects and arrays inside each other; every codec on the way to a tool, and a chat template, takes this many.
MAX_DEPTH = 128
#: Calls that are read of one text: each may cost a look at all of it.
MAX_CALLS = 1_000
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class BadToolCall(ValueError):
    """The model's mistake; the message is for the model to read."""


# Arguments


def _refuse_constant(name: str) -> NoReturn:
    raise BadToolCall(f"{name} is not a JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise BadToolCall(f"the number {text[:40]} is too large")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def read_arguments(raw: object) -> Json:
    """A call's arguments as an object. Raises `BadToolCall` for anything else than an object or nothing."""
    if isinstance(raw, bytes | bytearray):
        raw = bytes(raw).decode("utf-8", "replace")
    if isinstance(raw, str):
        raw = _decode(raw)
        if isinstance(raw, str) and raw.lstrip().startswith("{"):
            raw = _decode(raw)  # encoded twice: unwrapped once
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise BadToolCall(f"the arguments must be a JSON object, not {_json_type(raw)}")
    if _is_deeper(raw, MAX_DEPTH):
        raise BadToolCall("the arguments are nested too deeply")
    return dict(raw)


def _decode(text: str) -> Any:
    if not text.strip():
        return {}
    try:
        value = _DECODER.decode(text.strip())
    except json.JSONDecodeError as error:
        raise BadToolCall(f"the arguments are not valid JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise BadToolCall("the arguments are nested too deeply") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise BadToolCall(str(error)) from None
    if value is None:
        raise BadToolCall("the arguments must be a JSON object, not null")
    return value


def read_json(text: str) -> Any:
    """One JSON value. Raises ValueError for anything else, NaN and numbers that overflow included."""
    try:
        return _DECODER.decode(text.strip())
    except RecursionError:
        raise BadToolCall("nested too deeply") from None


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return {str: "a string", list: "a list", type(None): "null"}.get(type(value), type(value).__name__)


def encode_arguments(arguments: Mapping[str, Any]) -> bytes:
    """The arguments as JSON text. Raises `BadToolCall` for what JSON text in UTF-8 cannot carry."""
    if not arguments:
        return b"{}"
    try:
        encoded = orjson.dumps(arguments)
    except TypeError:
        return _encode_slowly(arguments)
    return encoded if b"null" not in encoded else _encode_slowly(arguments)


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether an object or array stands more than `levels` deep."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    inner = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def _encode_slowly(arguments: Mapping[str, Any]) -> bytes:
    """Integers beyond 64 bits, keys that are no strings; and a NaN, which the fast encoder writes as null."""
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise BadToolCall("the arguments contain half of a surrogate pair, which is no character") from None
    except RecursionError:
        raise BadToolCall("the arguments are nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise BadToolCall(f"the arguments cannot be written as JSON: {error}") from None


# Calls in a model's text


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """One attempted call. `error` is empty, or the text that the model gets instead of a result."""

    name: str
    arguments: Json = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """A model's turn: what it said, and every call that it attempted, in order."""

    content: str
    calls: tuple[ParsedCall, ...] = ()

    def as_message(self, ids: Iterable[str], *, objects: bool = False) -> Message:
        """The turn for the history, in a form that every chat template renders.

        `objects`: arguments as objects, as chat templates want them; default JSON text, as endpoints do.
        A call that could not be read stands there under its name, or `unreadable_tool_call`, without arguments.
        """
        message: Message = {"role": "assistant", "content": self.content}
        if self.calls:
            message["tool_calls"] = [
                call_for_history(call.name or UNNAMED, call.arguments, call_id, objects=objects)
                for call, call_id in zip(self.calls, ids, strict=True)
            ]
        return message


def call_for_history(name: str, arguments: Mapping[str, Any], call_id: str, *, objects: bool = False) -> Json:
    """One entry of an assistant message's `tool_calls`; no arguments are always `{}`."""
    said: Any = dict(arguments) if objects else json.dumps(arguments, ensure_ascii=False)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": said}}


def result_for_history(result: ToolResult, call_id: str) -> Message:
    return {"role": "tool", "tool_call_id": call_id, "content": result.plain()}


TOO_MANY_CALLS = ParsedCall("", error=f"Only the first {MAX_CALLS:,} tool calls of a turn are read.")


def parse_hermes(text: str) -> ParsedTurn:
    """Read `<tool_call>{"name": …, "arguments": …}</tool_call>` calls. Never raises.

    A call's JSON may contain the closing tag in a string. A call that is cut off or broken is one error, and so is all
    that follows the first 1,000.
    """
    said: list[str] = []
    calls: list[ParsedCall] = []
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        if len(calls) == MAX_CALLS:
            return ParsedTurn("".join(said).strip(), (*calls, TOO_MANY_CALLS))
        said.append(text[position:start])
        call, position = _parse_one(text, start + len(_OPEN))
        calls.append(call)
    said.append(text[position:])
    return ParsedTurn("".join(said).strip(), tuple(calls))


def _parse_one(text: str, start: int) -> tuple[ParsedCall, int]:
    """The call whose JSON begins at `start`, and where the text goes on after it."""
    while start < len(text) and text[start].isspace():
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:
        return ParsedCall("", error=_broken(error, text, start)), _next(text, start)
    closing = text.find(_CLOSE, end)
    if closing >= 0 and not text[end:closing].strip():
        return _read_call(value), closing + len(_CLOSE)
    if not text[end:].strip() or text[end:].lstrip().startswith(_OPEN):
        return _read_call(value), end  # the closing tag was forgotten, or is a token that is not shown
    return ParsedCall("", error=f"The tool call is followed by more text before {_CLOSE}."), _next(text, end)


def _next(text: str, start: int) -> int:
    """After a broken call: behind its closing tag, before the next call, or the end."""
    closing, opening = text.find(_CLOSE, start), text.find(_OPEN, start)
    if closing >= 0 and (opening < 0 or closing < opening):
        return closing + len(_CLOSE)
    return opening if opening >= 0 else len(text)


def _broken(error: Exception, text: str, start: int) -> str:
    if text.find(_CLOSE, start) < 0 and isinstance(error, json.JSONDecodeError):
        return f"The tool call was cut off: its JSON does not end, and {_CLOSE} is missing."
    why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)[:200]
    return f"The tool call is not valid JSON: {why}."


def _read_call(value: Any) -> ParsedCall:
    if not isinstance(value, Mapping):
        return ParsedCall("", error=f"A tool call is a JSON object with name and arguments, not {_json_type(value)}.")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return ParsedCall("", error='The tool call names no tool; write {"name": ..., "arguments": {...}}.')
    try:
        return ParsedCall(name, read_arguments(value.get("arguments")))
    except BadToolCall as error:
        return ParsedCall(name, error=f"Invalid arguments for {name}: {error}")


# Results


def limit_result(text: str, max_chars: int, keep: Keep = "both") -> str:
    """The text, sanitized and at most `max_chars` long; where it was cut, which end was kept is said.

    The line that says so counts towards the limit, unless the limit is shorter than that line.
    """
    text = sanitize(text)
    total = len(text)
    if total <= max_chars:
        return text
    left = max(max_chars - len(_note(keep, max_chars, total)) - 2, 0)
    note = _note(keep, left, total)
    if keep == "start":
        return f"{text[:left]}\n{note}"
    if keep == "end":
        return f"{note}\n{text[total - left :]}"
    head = left - left // 2
    return f"{text[:head]}\n{note}\n{text[total - left // 2 :]}"


def _note(keep: Keep, kept: int, total: int) -> str:
    if keep == "both":
        return f"[cut: the first {kept - kept // 2} and the last {kept // 2} of {total} characters]"
    return f"[cut: the {'first' if keep == 'start' else 'last'} {kept} of {total} characters]"
