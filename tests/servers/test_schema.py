"""A tool's schema and its argument check: both from the signature, both exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from gymwire.servers.schema import ArgumentCheck, BadArguments, SignatureError, strip_titles
from pydantic import BaseModel, Field


class Query(BaseModel):
    text: str
    title: str | None = None


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def search(
    q: Query,
    k: int | None = None,
    color: Color = Color.RED,
    mode: Literal["fast", "slow"] = "fast",
    scores: Annotated[list[float], Field(max_length=3)] = [],  # noqa: B006
) -> str:
    """Search for something.

    Longer words about it.

    Args:
        q: What to look for.
        k: How many.
    """
    return ""


def read(function: Callable[..., Any], text: str | bytes) -> dict[str, Any]:
    return ArgumentCheck(function).read(text if isinstance(text, bytes) else text.encode())


def test_the_schema_says_what_the_signature_says() -> None:
    check = ArgumentCheck(search)
    schema = check.parameters
    assert check.description == "Search for something.\n\nLonger words about it."
    assert schema["type"] == "object" and schema["required"] == ["q"] and schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["q"] == {"$ref": "#/$defs/Query", "description": "What to look for."}
    assert properties["k"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert properties["k"]["description"] == "How many." and properties["k"]["default"] is None
    assert properties["mode"]["enum"] == ["fast", "slow"] and properties["color"]["default"] == "red"
    assert properties["scores"]["maxItems"] == 3
    assert schema["$defs"]["Query"]["required"] == ["text"]


def test_titles_are_noise_unless_they_are_names() -> None:
    schema = ArgumentCheck(search).parameters
    assert '"title": "' not in json.dumps(schema)
    assert "title" in schema["$defs"]["Query"]["properties"]
    kept = {"properties": {"title": {"title": "T", "default": {"title": "kept"}}}, "enum": [{"title": "kept"}]}
    assert strip_titles(kept) == {
        "properties": {"title": {"default": {"title": "kept"}}},
        "enum": [{"title": "kept"}],
    }


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    def now() -> str:
        return ""

    check = ArgumentCheck(now)
    assert check.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    for nothing in (b"", b" ", b"\n", b"null", b" null ", b"{}", b" {} "):
        assert check.read(nothing) == {}


def test_arguments_are_read_as_their_types() -> None:
    given = read(search, '{"q": {"text": "x"}, "k": null, "color": "blue", "scores": [1, 2.5]}')
    assert given == {"q": Query(text="x"), "k": None, "color": Color.BLUE, "scores": [1.0, 2.5]}


def text_of(text: str | None = None) -> str:
    return ""


@pytest.mark.parametrize("text", ["null", "[1,2]", '{"a":1}', "5", "", "ünï\u2028", "NaN", "Infinity", "a" * 100_000])
def test_a_string_arrives_exactly_as_sent(text: str) -> None:
    assert read(text_of, json.dumps({"text": text})) == {"text": text}


def number(n: int = 0, x: float = 0.0, flag: bool = False, anything: Any = None) -> str:
    return ""


def test_integers_of_any_size_stay_integers() -> None:
    big = 10**40
    assert read(number, json.dumps({"n": big})) == {"n": big}
    assert read(number, '{"x": 3}') == {"x": 3.0}


@pytest.mark.parametrize(
    "text",
    [
        '{"n": "5"}',
        '{"n": 1.0}',
        '{"n": true}',
        '{"n": null}',
        '{"x": "0.5"}',
        '{"x": NaN}',
        '{"x": Infinity}',
        '{"x": -Infinity}',
        '{"x": 1e999}',
        '{"anything": NaN}',
        '{"anything": [Infinity]}',
        '{"flag": 1}',
        '{"flag": "true"}',
        '{"unknown": 1}',
        "[1,2]",
        '"Paris"',
        '"{\\"n\\": 1}"',
        "5",
        "true",
        "{",
        "{'n': 1}",
        '{"n": 1} trailing',
        "\ufeff{}",
        "[" * 100_000,
        '{"anything": ' + "[" * 100_000,
    ],
)
def test_what_does_not_fit_is_refused_with_a_short_line(text: str) -> None:
    with pytest.raises(BadArguments) as caught:
        read(number, text)
    assert 0 < len(str(caught.value)) < 500 and "\n" not in str(caught.value).strip()


def test_bytes_that_are_no_utf8_and_lone_surrogates_are_refused() -> None:
    for raw in (b'{"text": "\xff"}', b'{"text": "\\ud800"}', b"\x00"):
        with pytest.raises(BadArguments):
            read(text_of, raw)


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(BadArguments, match=r"q\.text: Field required"):
        read(search, '{"q": {}}')
    with pytest.raises(BadArguments, match="q: Field required"):
        read(search, "{}")


class Place(BaseModel):
    shelf: int
    height: float = 0.0


def put(at: Place, more: dict[str, Place] = {}) -> str:  # noqa: B006
    return ""


@pytest.mark.parametrize(
    "text",
    [
        '{"at": {"shelf": "1"}}',
        '{"at": {"shelf": 1, "height": NaN}}',
        '{"at": {"shelf": 1}, "more": {"x": {"shelf": "1"}}}',
    ],
)
def test_nested_models_are_read_as_strictly(text: str) -> None:
    with pytest.raises(BadArguments):
        read(put, text)
    assert read(put, '{"at": {"shelf": 1, "height": 2}}')["at"] == Place(shelf=1, height=2.0)


def test_a_refusal_is_short_whatever_the_key() -> None:
    with pytest.raises(BadArguments) as caught:
        read(number, json.dumps({"k" * 1_000_000: 1}))
    assert len(str(caught.value)) < 200


def unhinted(x) -> str:  # type: ignore[no-untyped-def]
    return ""


def unresolvable(x: "Nowhere") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
    return ""


def open_ended(*args: int) -> str:
    return ""


def keywords(**kwargs: int) -> str:
    return ""


def positional(x: int, /) -> str:
    return ""


class Custom:
    pass


def custom(x: Custom) -> str:
    return ""


def callback(x: Callable[[], int]) -> str:
    return ""


@pytest.mark.parametrize("function", [unhinted, unresolvable, open_ended, keywords, positional, custom, callback])
def test_a_signature_that_has_no_schema_is_refused_by_name(function: Callable[..., Any]) -> None:
    with pytest.raises(SignatureError, match=function.__name__):
        ArgumentCheck(function)


def test_a_default_without_a_json_form_stays_the_functions_own() -> None:
    def odd(x: int | None = None, y: Any = object()) -> str:  # noqa: B008
        return ""

    properties = ArgumentCheck(odd).parameters["properties"]
    assert properties["x"]["default"] is None and "default" not in properties["y"]
