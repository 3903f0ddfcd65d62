"""Arguments for a tool from its schema: plausible ones, different for every `salt`, and wrong ones.

Nothing is known of what a tool means, so a value may be one that the tool refuses; what matters is that equal salts
make equal values, and that texts of different salts can be told apart. A tool that refuses them may take a word of its
own description, or of the task's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...servers.tool_schemas import is_schema
from ...servers.types import Json, Tool

MAX_DEPTH = 6
#: Characters of one call's values; a schema that asks for more is not called.
MAX_CHARACTERS = 1_000_000
#: Numbers beyond it are no bounds: floats end there.
MAX_NUMBER = 1e300
#: Words that a tool is tried with, and characters of one.
MAX_WORDS, MAX_WORD = 30, 60
_QUOTED = re.compile(rf"""["'`“]([^"'`”\n]{{1,{MAX_WORD}}})["'`”]""")
_WORD = re.compile(rf"\w(?:[\w.-]{{0,{MAX_WORD - 2}}}\w)?")


@dataclass(frozen=True, slots=True)
class _Made:
    """What values are made from: a text, and a number that is added to the lowest."""

    text: str
    number: int
    lowest: int = 1  # where the schema names no bound


def marker(salt: int, nonce: str) -> str:
    """A text that belongs to one session alone; none is the beginning of another."""
    return f"probe-{nonce}-{salt:03d}"


def no_example(tool: Tool) -> str:
    """Why no values can be made from a tool's schema; empty where they can."""
    if not is_schema(tool.parameters):
        return "its schema is no JSON schema"
    if _characters(arguments_for(tool, 0, "")) > MAX_CHARACTERS:
        return f"its schema asks for more than {MAX_CHARACTERS} characters"
    return ""


def _characters(value: Any) -> int:
    """About so many; the items of a list that was made here are all the same."""
    if isinstance(value, Mapping):
        return sum(len(name) + _characters(inner) for name, inner in value.items())
    if isinstance(value, list):
        return len(value) * (1 + _characters(value[0])) if value else 0
    return len(str(value))


def arguments_for(tool: Tool, salt: int, nonce: str) -> Json:
    """Values for the required arguments."""
    return _arguments(tool, _Made(marker(salt, nonce), salt))


def likely_arguments(tool: Tool, task: Iterable[str]) -> Iterator[Json]:
    """Values that mean something, perhaps: words that the tool's description or the task's texts quote, then any."""
    said: list[Json] = []
    for word in _words([tool.description, *_descriptions(tool.parameters), *task]):
        arguments = _arguments(tool, _Made(word, 0, lowest=0))
        if arguments not in said:
            said.append(arguments)
            yield arguments


def _descriptions(schema: Json) -> Iterator[str]:
    for value in (schema.get("properties") or {}).values():
        if isinstance(value, Mapping) and isinstance(text := value.get("description"), str):
            yield text


def _words(texts: Iterable[str]) -> list[str]:
    known = list(texts)
    found = [word for pattern in (_QUOTED, _WORD) for text in known for word in pattern.findall(text)]
    return list(dict.fromkeys(found))[:MAX_WORDS]


def _arguments(tool: Tool, made: _Made) -> Json:
    schema = tool.parameters
    wanted = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return {name: _value(properties.get(name) or {}, schema, made, 0) for name in wanted if isinstance(name, str)}


def _value(schema: Any, root: Json, made: _Made, depth: int) -> Any:
    schema = _resolved(schema, root)
    if depth > MAX_DEPTH:
        return None
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("enum"):
        return choices[made.number % len(choices)]
    for key in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(key):
            return _value(options[0], root, made, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {name: _value(properties.get(name) or {}, root, made, depth + 1) for name in required}
    if kind == "array":
        count = max(int(schema.get("minItems") or 1), 1)
        return [_value(schema.get("items") or {}, root, made, depth + 1)] * min(count, 1000)
    return _scalar(kind, schema, made)


def _scalar(kind: Any, schema: Mapping[str, Any], made: _Made) -> Any:
    if kind in ("integer", "number"):
        return _number(kind, schema, made)
    if kind == "boolean":
        return made.number % 2 == 0
    if kind == "null":
        return None
    text = made.text
    most, least = schema.get("maxLength"), schema.get("minLength") or 0
    text = text.ljust(min(int(least), MAX_CHARACTERS + 1), "x")
    return text if most is None else text[-int(most) :] if most else ""


def _number(kind: str, schema: Mapping[str, Any], made: _Made) -> int | float:
    low, high, above = (_bound(schema.get(name)) for name in ("minimum", "maximum", "exclusiveMinimum"))
    if low is None and above is not None:
        low = above + 1
    if low is None:
        low = made.lowest if high is None else min(made.lowest, high)
    value = low + made.number % 9
    if high is not None and value > high:
        value = low
    return int(value) if kind == "integer" else float(value)


def _bound(number: Any) -> Any:
    return number if number is not None and -MAX_NUMBER < number < MAX_NUMBER else None


def _resolved(schema: Any, root: Json) -> Json:
    for _ in range(MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        place = schema.get("$ref")
        if not isinstance(place, str) or not place.startswith("#/"):
            return dict(schema)
        found: Any = root
        for part in place[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        schema = found
    return {}


class Wrong(NamedTuple):
    """Arguments that a schema forbids, and why; many servers read no more than they know, which harms nobody."""

    why: str
    arguments: Json
    must_fail: bool = True


def wrong_arguments(tool: Tool, nonce: str) -> list[Wrong]:
    """What the tool's own schema forbids; empty for a tool that takes anything."""
    if no_example(tool):
        return []
    schema = tool.parameters
    right = arguments_for(tool, 0, nonce)
    found = []
    if right:
        name = next(iter(right))
        left = {key: value for key, value in right.items() if key != name}
        found.append(Wrong(f"without the required {name!r}", left))
        if (bad := _of_wrong_type(_resolved((schema.get("properties") or {}).get(name), schema))) is not None:
            found.append(Wrong(f"with {name!r} of the wrong type", {**right, name: bad}))
    if schema.get("additionalProperties") is False:
        found.append(Wrong("with an argument that it does not have", {**right, "no_such_argument": 1}, False))
    return found


def _of_wrong_type(schema: Mapping[str, Any]) -> Any:
    match schema.get("type"):
        case "string" | "integer" | "number" | "boolean":
            return {"an": ["object"]}
        case "array" | "object":
            return "a text"
        case _:
            return None
