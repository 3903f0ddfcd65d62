"""Arguments that the doctor makes of schemas, and the words it tries where a tool refuses those."""

from __future__ import annotations

import pytest
from gymwire.adapters.doctor.examples import (
    MAX_WORD,
    MAX_WORDS,
    arguments_for,
    likely_arguments,
    marker,
    no_example,
    wrong_arguments,
)
from gymwire.servers.types import Json, Tool


def tool(properties: Json, description: str = "", **schema: object) -> Tool:
    parameters = {"type": "object", "properties": properties, "required": list(properties), **schema}
    return Tool(name="look", description=description, parameters=parameters)


WORD = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "first", "second"),
    [
        (WORD, marker(0, "n"), marker(1, "n")),
        ({"type": "string", "maxLength": 3}, "000", "001"),
        ({"type": "string", "maxLength": 0}, "", ""),
        ({"type": "integer"}, 1, 2),
        ({"type": "integer", "maximum": 0}, 0, 0),
        ({"type": "number", "exclusiveMinimum": 4}, 5.0, 6.0),
        ({"type": "integer", "minimum": 7, "maximum": 7}, 7, 7),
        ({"type": "boolean"}, True, False),
        ({"type": ["null", "integer"]}, 1, 2),
        ({"enum": ["a", "b"]}, "a", "b"),
        ({"const": 3}, 3, 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1, 2),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1], [2, 2]),
        ({"$ref": "#/$defs/level"}, "low", "high"),
    ],
)
def test_values_follow_the_schema_and_differ_by_salt(schema: Json, first: object, second: object) -> None:
    asked = tool({"value": schema}, **{"$defs": {"level": {"enum": ["low", "high"]}}})
    assert arguments_for(asked, 0, "n") == {"value": first}
    assert arguments_for(asked, 1, "n") == {"value": second}


@pytest.mark.parametrize(
    ("description", "task", "first"),
    [
        ("Reads a file, such as `notes.txt`.", [], "notes.txt"),
        ("Reads a file.", ["Your files are “plan.md” and 'log'."], "plan.md"),
        ("Reads a file.", ["Look into plan.md."], "Reads"),
        ("", ["part-7 costs 3"], "part-7"),
    ],
)
def test_words_in_quotes_come_first_and_the_tools_before_the_tasks(
    description: str, task: list[str], first: str
) -> None:
    assert next(likely_arguments(tool({"value": WORD}, description), task)) == {"value": first}


def test_the_descriptions_of_arguments_are_read() -> None:
    asked = tool({"city": {"type": "string", "description": 'One of "Bern" or "Oslo"'}})
    assert [values["city"] for values in likely_arguments(asked, [])][:2] == ["Bern", "Oslo"]


def test_equal_values_are_tried_once_and_numbers_from_zero() -> None:
    assert list(likely_arguments(tool({"value": {"type": "integer"}}, "one two three"), [])) == [{"value": 0}]


def test_the_words_of_an_endless_text_are_few_and_short() -> None:
    task = [" ".join(f"word{number}" for number in range(10_000)), "x" * 100_000]
    tried = [values["value"] for values in likely_arguments(tool({"value": WORD}), task)]
    assert len(tried) == MAX_WORDS
    assert max(map(len, tried)) <= MAX_WORD


def test_a_text_without_a_word_gives_nothing_to_try() -> None:
    assert list(likely_arguments(tool({"value": WORD}), ["", "?!"])) == []


def test_a_schema_that_asks_for_too_much_is_not_called() -> None:
    assert "characters" in no_example(tool({"value": {"type": "string", "minLength": 10**9}}))
    assert no_example(tool({"value": WORD})) == ""


def test_wrong_arguments_are_those_that_the_schema_forbids() -> None:
    wrong = wrong_arguments(tool({"value": WORD}, additionalProperties=False), "n")
    assert [item.arguments for item in wrong] == [
        {},
        {"value": {"an": ["object"]}},
        {"value": marker(0, "n"), "no_such_argument": 1},
    ]
    assert [item.must_fail for item in wrong] == [True, True, False]
