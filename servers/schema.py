"""A tool's JSON schema and its argument check, both from the function's signature and docstring.

Arguments are checked strictly and reach the tool exactly as sent: "5" is no integer, "null" stays a string.
The check reads JSON text, so that every wire, whatever it decoded, ends in the same rules. Nothing at all, blanks
and null mean no arguments. NaN and infinities are no JSON and refused, also where a parser would let them pass:
a tool that is handed one is soon asked to answer for it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Annotated, Any, NotRequired, Required, get_type_hints

from docstring_parser import parse as parse_docstring
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import PydanticSerializationError, to_jsonable_python
from typing_extensions import TypedDict

from .types import Json


class DefinitionError(TypeError):
    """An environment that cannot be served as written; raised when its class is defined."""


class SignatureError(DefinitionError):
    """A tool whose signature cannot become a schema."""


class BadArguments(ValueError):
    """The policy's arguments do not fit the signature; the message is for the policy to read."""


class ArgumentCheck:
    """Reads arguments from JSON text into keyword arguments; raises `BadArguments`."""

    __slots__ = ("_read", "description", "parameters")

    def __init__(self, function: Callable[..., Any], *, skip_self: bool = False) -> None:
        documentation = parse_docstring(inspect.getdoc(function) or "")
        about = {item.arg_name: item.description or "" for item in documentation.params}
        self.description: str = _description(documentation)
        signature = _own_parameters(function, skip_self)
        adapter = _adapter(function, signature, about)
        self._read = adapter.validator.validate_json
        try:
            self.parameters: Json = _schema(adapter, signature)
        except PydanticUserError as error:
            raise SignatureError(f"tool {function.__name__}: {error}") from error

    def read(self, arguments: bytes) -> dict[str, Any]:
        if len(arguments) <= LONGEST_NOTHING and arguments.strip() in NOTHING:
            arguments = b"{}"
        elif _PERHAPS_NOT_FINITE.search(arguments) is not None:
            _refuse_not_finite(arguments)
        try:
            return self._read(arguments, strict=True)  # said here, it holds for nested models too
        except ValidationError as error:
            raise BadArguments(explain(error)) from None


class SentArguments(ArgumentCheck):
    """Of a tool whose arguments somebody else checks: any JSON object, handed on as the text it came as."""

    __slots__ = ()

    def __init__(self, description: str, parameters: Json) -> None:
        self.description, self.parameters = description, parameters

    def read(self, arguments: bytes) -> dict[str, Any]:
        """The keyword argument `arguments`: the JSON text of an object."""
        if len(arguments) <= LONGEST_NOTHING and arguments.strip() in NOTHING:
            return {"arguments": b"{}"}
        if _PERHAPS_NOT_FINITE.search(arguments) is not None:
            _refuse_not_finite(arguments)
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            raise BadArguments("the arguments are no JSON") from None
        if not isinstance(value, dict):
            raise BadArguments("the arguments are no JSON object")
        return {"arguments": arguments}


NOTHING = frozenset({b"", b"null"})
LONGEST_NOTHING = 16
#: More errors than this are counted and not told: to have them told, all of them must be built.
MAX_EXPLAINED = 1_000


#: The constants, and numbers of so many digits or with such an exponent that they may be read as infinite.
_PERHAPS_NOT_FINITE = re.compile(rb"NaN|Infinity|[0-9.][eE]\+?[0-9]{3}|[0-9]{300}")


def _refuse_not_finite(arguments: bytes) -> None:
    """Raise where NaN or an infinity stands outside a string; what else is wrong, the real check says."""

    def refuse(name: str) -> None:
        raise BadArguments(f"{name} is no JSON value")

    def finite(text: str) -> float:
        value = float(text)
        if not isfinite(value):  # said as the wires say it that decode it before
            refuse("Infinity" if value > 0 else "-Infinity")
        return value

    try:
        json.loads(arguments, parse_constant=refuse, parse_float=finite)
    except BadArguments:
        raise
    except (ValueError, RecursionError):
        return


def explain(error: ValidationError) -> str:
    """One line a policy can act on: where, and what was expected. Never the value's neighbours."""
    if error.error_count() > MAX_EXPLAINED:
        return f"{error.error_count()} values do not fit the schema"
    parts = []
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:5]:
        where = ".".join(str(step)[:80] for step in item["loc"])
        parts.append(f"{where}: {item['msg']}" if where else item["msg"])
    return "; ".join(parts)


def strip_titles(schema: Any) -> Any:
    """Drop pydantic's `title` noise, but never a property that is called title."""
    if isinstance(schema, list):
        return [strip_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: strip_titles(inner) for name, inner in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else value
        if key in ("default", "const", "enum", "examples")
        else strip_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _description(documentation: Any) -> str:
    parts = (documentation.short_description, documentation.long_description)
    return "\n\n".join(part for part in parts if part)


def _own_parameters(function: Callable[..., Any], skip_self: bool) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if skip_self:
        parameters = parameters[1:]
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise SignatureError(
                f"tool {function.__name__}: parameter {parameter.name!r} must be a plain named one "
                "(no *args, **kwargs or positional-only)"
            )
    return parameters


def _adapter(
    function: Callable[..., Any], signature: list[inspect.Parameter], about: dict[str, str]
) -> TypeAdapter[dict[str, Any]]:
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise SignatureError(f"tool {function.__name__}: a type hint cannot be resolved: {error}") from error
    fields: dict[str, Any] = {}
    for parameter in signature:
        if parameter.name not in hints:
            raise SignatureError(f"tool {function.__name__}: parameter {parameter.name!r} needs a type hint")
        hint = hints[parameter.name]
        if about.get(parameter.name):
            hint = Annotated[hint, Field(description=about[parameter.name])]
        required = parameter.default is parameter.empty
        fields[parameter.name] = Required[hint] if required else NotRequired[hint]
    shape: Any = TypedDict("Arguments", fields)  # type: ignore[misc]  # pyright: ignore
    shape.__pydantic_config__ = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    try:
        return TypeAdapter(shape)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise SignatureError(f"tool {function.__name__}: {error}") from error


def _schema(adapter: TypeAdapter[dict[str, Any]], signature: list[inspect.Parameter]) -> Json:
    schema = strip_titles(adapter.json_schema())
    schema.setdefault("properties", {})
    for parameter in signature:
        if parameter.default is parameter.empty:
            continue
        try:
            schema["properties"][parameter.name].setdefault("default", to_jsonable_python(parameter.default))
        except PydanticSerializationError:
            continue  # a default without a JSON form stays the function's own affair
    return schema
