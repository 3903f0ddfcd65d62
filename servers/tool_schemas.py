"""Whether tools can be called well by a model: names, descriptions, and schemas that function calling takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from .types import Tool
from .wirejson import dumps

#: What OpenAI's and most open models' function calling takes.
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_DEPTH = 5
#: Of lists and objects in each other, of which a schema has several a level; JSON libraries refuse more than this.
MAX_LEVELS = 100
#: A tool's definition is in every prompt; 16 KB is about 4,000 tokens.
MAX_BYTES = 16_384
MAX_PROPERTIES = 100
Complaints = list[str]


def name_complaints(tools: Sequence[Tool], control_names: Container[str] = ()) -> Complaints:
    """Names that function calling refuses, that come twice, or that are calls of the wire itself."""
    found = [f"{tool.name!r} does not match ^{NAME.pattern}$" for tool in tools if not NAME.fullmatch(tool.name)]
    found += [f"{name!r} is there {count} times" for name, count in Counter(t.name for t in tools).items() if count > 1]
    found += [f"{tool.name!r} is the name of a control call" for tool in tools if tool.name in control_names]
    return found


def description_complaints(tools: Iterable[Tool]) -> Complaints:
    """Tools and arguments that are not described."""
    found = []
    for tool in tools:
        if not tool.description.strip():
            found.append(f"{tool.name} has no description")
        for name, schema in _properties(tool.parameters).items():
            if not _is_described(schema, tool.parameters):
                found.append(f"{tool.name}: the argument {name!r} has no description")
    return found


def _is_described(schema: Any, root: Mapping[str, Any]) -> bool:
    if not isinstance(schema, Mapping):
        return True
    if str(schema.get("description") or "").strip():
        return True
    place = schema.get("$ref")
    if isinstance(place, str) and place.startswith("#/$defs/"):
        definitions = root.get("$defs")
        there = definitions.get(place[8:]) if isinstance(definitions, Mapping) else None
        return isinstance(there, Mapping) and bool(str(there.get("description") or "").strip())
    return "const" in schema


def is_schema(schema: Mapping[str, Any]) -> bool:
    """Whether it is a JSON schema at all, and no deeper than JSON libraries take."""
    return _levels(schema) <= MAX_LEVELS and Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema)


def schema_complaints(tools: Iterable[Tool]) -> Complaints:
    """Schemas that are none, or that function calling takes badly."""
    return [f"{tool.name}: {complaint}" for tool in tools for complaint in _of_schema(tool.parameters)]


def title_complaints(tools: Iterable[Tool]) -> Complaints:
    """Titles that a generator made of names."""
    shallow = (tool for tool in tools if _levels(tool.parameters) <= MAX_LEVELS)
    counted = ((tool.name, sum(1 for _ in _titles(tool.parameters))) for tool in shallow)
    return [f"{name}: {count} generated titles, which cost tokens and say nothing" for name, count in counted if count]


def _of_schema(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield f"its schema has the type {schema.get('type')!r}, not 'object'"
    if (depth := _levels(schema)) > MAX_LEVELS:
        yield f"its schema is nested {depth} deep, more than {MAX_LEVELS}"
        return
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        yield f"its schema is no JSON schema: {error.message:.300}"
        return
    properties = _properties(schema)
    for name in schema.get("required") or ():
        if name not in properties:
            yield f"{name!r} is required, but is no property"
    for name, inner in properties.items():
        if isinstance(inner, Mapping) and not _says_what_it_is(inner):
            yield f"{name!r} has no type"
    yield from _of_size(schema)


def _of_size(schema: Mapping[str, Any]) -> Iterator[str]:
    if (depth := _depth(schema)) > MAX_DEPTH:
        yield f"its objects are nested {depth} deep; function calling takes {MAX_DEPTH}"
    if (size := len(dumps(schema))) > MAX_BYTES:
        yield f"its schema has {size} bytes, more than {MAX_BYTES}"
    if (count := sum(1 for _ in _all_properties(schema))) > MAX_PROPERTIES:
        yield f"it has {count} properties, more than {MAX_PROPERTIES}"


def _says_what_it_is(schema: Mapping[str, Any]) -> bool:
    return any(key in schema for key in ("type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref"))


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema and every one inside it; the names of properties are not taken for keywords."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for key, value in schema.items():
        if key in ("properties", "$defs", "patternProperties") and isinstance(value, Mapping):
            for inner in value.values():
                yield from _schemas(inner)
        elif key in ("items", "additionalProperties", "not"):
            yield from _schemas(value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            for inner in value:
                yield from _schemas(inner)


def _titles(schema: Any) -> Iterator[str]:
    """Titles as pydantic makes them, of a name; one that a person wrote says more than its name."""
    for item in _schemas(schema):
        for name, inner in _properties(item).items():
            if isinstance(inner, Mapping) and inner.get("title") == name.replace("_", " ").title():
                yield name
    title = schema.get("title")
    if isinstance(title, str) and re.fullmatch(r"\w+(Arguments|Request|Action|Input|Params)?", title):
        yield title


def _all_properties(schema: Any) -> Iterator[str]:
    for item in _schemas(schema):
        yield from _properties(item)


def _levels(value: Any) -> int:
    """How deep a JSON value is nested; deeper than Python's stack, too."""
    depth, level = 0, [value]
    while level := [inner for item in level for inner in _inside(item)]:
        depth += 1
    return depth


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _depth(schema: Any) -> int:
    if not isinstance(schema, Mapping):
        return 0
    inner = [*_properties(schema).values(), schema.get("items"), *(schema.get("anyOf") or ())]
    deepest = max(map(_depth, inner), default=0)
    return deepest + (schema.get("type") == "object" or "properties" in schema)
