"""Arguments for a tool from its schema: plausible ones, different for every `salt`, and wrong ones.

Nothing is known of what a tool means, so a value may be one that the tool refuses; what matters is that equal salts
make equal values, and that texts of different salts can be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...servers.types import Json, Tool

MAX_DEPTH = 6


def marker(salt: int, nonce: str) -> str:
    """A text that belongs to one session alone; none is the beginning of another."""
    return f"probe-{nonce}-{salt:03d}"


def arguments_for(tool: Tool, salt: int, nonce: str) -> Json:
    """Values for the required arguments."""
    schema = tool.parameters
    wanted = schema.get("required") or ()
    properties = schema.get("properties") or {}
    return {
        name: _value(properties.get(name) or {}, schema, salt, nonce, 0) for name in wanted if isinstance(name, str)
    }


def _value(schema: Any, root: Json, salt: int, nonce: str, depth: int) -> Any:
    schema = _resolved(schema, root)
    if depth > MAX_DEPTH:
        return None
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("enum"):
        return choices[salt % len(choices)]
    for key in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(key):
            return _value(options[0], root, salt, nonce, depth + 1)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((item for item in kind if item != "null"), "null")
    if kind == "object":
        properties = schema.get("properties") or {}
        required = schema.get("required") or ()
        return {name: _value(properties.get(name) or {}, root, salt, nonce, depth + 1) for name in required}
    if kind == "array":
        count = max(int(schema.get("minItems") or 1), 1)
        return [_value(schema.get("items") or {}, root, salt, nonce, depth + 1)] * min(count, 1000)
    return _scalar(kind, schema, salt, nonce)


def _scalar(kind: Any, schema: Mapping[str, Any], salt: int, nonce: str) -> Any:
    if kind in ("integer", "number"):
        return _number(kind, schema, salt)
    if kind == "boolean":
        return salt % 2 == 0
    if kind == "null":
        return None
    text = marker(salt, nonce)
    most, least = schema.get("maxLength"), schema.get("minLength") or 0
    text = text.ljust(int(least), "x")
    return text if most is None else text[-int(most) :] if most else ""


def _number(kind: str, schema: Mapping[str, Any], salt: int) -> int | float:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + 1
    if low is None:
        low = 1 if high is None else min(1, high)
    value = low + salt % 9
    if high is not None and value > high:
        value = low
    return int(value) if kind == "integer" else float(value)


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
