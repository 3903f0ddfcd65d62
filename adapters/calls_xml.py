"""Tool calls as Qwen3-Coder writes them: a tag for the function and one for each parameter.

Values are text, so the tool's schema says what they are: where it wants a string the text stays as it is, else it is
read as JSON. The schemas' own checks come later, on the server, as for every other call. Nothing here raises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..servers.types import Json, Tool
from .calls import MAX_CALLS, TOO_MANY_CALLS, ParsedCall, ParsedTurn, read_json

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
#: A name has an end: each place where a tag may begin is looked at to there.
_FUNCTION = re.compile(r"<function=([^>\n]{0,512})>")
_END = re.compile(r"</function>\s*(?:</tool_call>)?")
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]*)>")
#: A value ends where a closing tag is followed by what may follow it: text may contain the tag itself.
_TAG_END = re.compile(r"</parameter>")
_VALUE_END = re.compile(r"</parameter>(?=\s*(?:<parameter=|</function>|\Z))")


def parse_xml(text: str, tools: Iterable[Tool] = ()) -> ParsedTurn:
    """Read `<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>` calls. Never raises.

    The outer tags may be missing, as this family of models often leaves the first one out.
    """
    schemas = {tool.name: tool.parameters for tool in tools}
    said: list[str] = []
    calls: list[ParsedCall] = []
    position = 0
    while (call := _next_call(text, position)) is not None:
        if len(calls) == MAX_CALLS:
            return ParsedTurn("".join(said).strip(), (*calls, TOO_MANY_CALLS))
        start, end, parsed = call
        said.append(text[position:start])
        calls.append(_typed(parsed, schemas))
        position = end
    said.append(text[position:])
    return ParsedTurn("".join(said).strip(), tuple(calls))


def _next_call(text: str, position: int) -> tuple[int, int, ParsedCall] | None:
    """Where the next call starts, where the text goes on after it, and what it says."""
    function = _FUNCTION.search(text, position)
    start = len(text) if function is None else _start(text, position, function)
    opening = text.find(_OPEN, position, start)
    if opening >= 0:
        end = start
        closing = text.find(_CLOSE, opening, end)
        end = closing + len(_CLOSE) if closing >= 0 else end
        return opening, end, ParsedCall("", error="The tool call names no function; write <function=NAME>.")
    if function is None:
        return None
    parsed, end = _read(text, function.end(), function.group(1).strip())
    return start, end, parsed


def _start(text: str, position: int, function: re.Match[str]) -> int:
    """Where the call of a function starts: with the opening tag that is right before it, if there is one."""
    opening = text.rfind(_OPEN, position, function.start())
    is_its_own = opening >= 0 and not text[opening + len(_OPEN) : function.start()].strip()
    return opening if is_its_own else function.start()


def _read(text: str, position: int, name: str) -> tuple[ParsedCall, int]:
    """The parameters from `position` on, and where the call ends."""
    arguments: Json = {}
    while (parameter := _PARAMETER.match(text, position)) is not None:
        value_end = _value_end(text, parameter.end())
        if value_end is None:
            return _cut_off(name), len(text)
        key = parameter.group(1).strip()
        if key in arguments:
            return ParsedCall(name, error=f"Invalid arguments for {name}: {key} is given twice."), _skip(text, position)
        arguments[key] = _unwrapped(text[parameter.end() : value_end.start()])
        position = value_end.end()
    end = _END.search(text, position)
    if end is None:
        return _cut_off(name), len(text)
    if text[position : end.start()].strip():
        return ParsedCall(name, error=f"Invalid arguments for {name}: text stands outside of a parameter."), end.end()
    if not name:
        return ParsedCall("", error="The tool call names no function; write <function=NAME>."), end.end()
    return ParsedCall(name, arguments), end.end()


def _value_end(text: str, start: int) -> re.Match[str] | None:
    """The closing tag of the value that begins at `start`."""
    nearest, proper = _TAG_END.search(text, start), _VALUE_END.search(text, start)
    if nearest is None or (proper is not None and "<function=" not in text[nearest.end() : proper.start()]):
        return proper
    return nearest


def _cut_off(name: str) -> ParsedCall:
    return ParsedCall(name, error="The tool call was cut off: </function> is missing.")


def _skip(text: str, position: int) -> int:
    end = _END.search(text, position)
    return end.end() if end is not None else len(text)


def _unwrapped(value: str) -> str:
    """Without the line feeds that the format puts around a value."""
    return value.removeprefix("\n").removesuffix("\n")


def _typed(call: ParsedCall, schemas: Mapping[str, Json]) -> ParsedCall:
    """The call with each value as its tool's schema has it; what does not read as JSON stays text."""
    if call.error or call.name not in schemas:
        return call
    schema = schemas[call.name]
    properties = schema.get("properties") or {}
    typed = {key: _value(text, properties.get(key) or {}, schema) for key, text in call.arguments.items()}
    return ParsedCall(call.name, typed)


def _value(text: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    kinds = _kinds(schema, root)
    if "null" in kinds and text.strip().lower() in ("null", "none"):
        return None
    if "string" in kinds or not kinds:
        return text
    if "boolean" in kinds and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    try:
        return read_json(text)
    except ValueError:
        return text


def _kinds(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The JSON types that a value may have; empty where the schema does not say."""
    if depth > 8:
        return set()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        named = (root.get("$defs") or {}).get(reference.removeprefix("#/$defs/")) or {}
        return _kinds(named, root, depth + 1)
    said = schema.get("type")
    kinds = {said} if isinstance(said, str) else set(said or ())
    kinds |= {_kind_of(value) for value in schema.get("enum") or ()}
    for branch in (*(schema.get("anyOf") or ()), *(schema.get("oneOf") or ())):
        kinds |= _kinds(branch, root, depth + 1)
    return kinds


def _kind_of(value: Any) -> str:
    return {"s": "string", "t": "boolean", "f": "boolean", "n": "null"}.get(_first(value), "number")


def _first(value: Any) -> str:
    return "s" if isinstance(value, str) else json.dumps(value)[0]
