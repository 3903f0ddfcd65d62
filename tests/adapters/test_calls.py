from __future__ import annotations

import json
from typing import Any

import pytest
from gymwire.adapters.calls import (
    MAX_CALLS,
    UNNAMED,
    BadToolCall,
    call_for_history,
    encode_arguments,
    limit_result,
    parse_hermes,
    read_arguments,
)


@pytest.mark.parametrize("raw", ["", " ", "\n", None, "{}", {}, b"", "\t{}\n"])
def test_no_arguments_are_written_in_many_ways(raw: Any) -> None:
    assert read_arguments(raw) == {}
    assert call_for_history("now", read_arguments(raw), "c1")["function"]["arguments"] == "{}"


@pytest.mark.parametrize("raw", [{"a": 1, "b": 2}, '{"a":1,"b":2}', '"{\\"a\\":1,\\"b\\":2}"', b'{"a":1,"b":2}'])
def test_objects_are_read_also_when_they_were_encoded_twice(raw: Any) -> None:
    assert read_arguments(raw) == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        ("[1,2]", "not a list"),
        ('"Paris"', "not a string"),
        ("null", "not null"),
        ("5", "not a number"),
        ("true", "not a boolean"),
        ([1, 2], "not a list"),
        (7, "not a number"),
        ('{"a":', "not valid JSON"),
        ("{'a': 1}", "not valid JSON"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "Infinity"),
        ('{"a": 1e999}', "too large"),
        ('"\\"{}\\""', "not a string"),
        ("[" * 100_000, "nested"),
        ('{"a": ' + "9" * 5000 + "}", "digits"),
    ],
)
def test_anything_else_is_an_error_that_the_model_can_read(raw: Any, why: str) -> None:
    with pytest.raises(BadToolCall, match=why) as caught:
        read_arguments(raw)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "arguments", [{"n": 12345678901234567890123}, {"n": 0.1, "t": "ünï\u2028"}, {"n": None}, {"t": "null"}, {}]
)
def test_arguments_are_encoded_exactly(arguments: dict[str, Any]) -> None:
    assert json.loads(encode_arguments(arguments)) == arguments


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", object(), b"x"])
def test_what_no_json_text_can_carry_is_the_models_mistake(value: Any) -> None:
    with pytest.raises(BadToolCall):
        encode_arguments({"a": value})


def test_a_hermes_turn_is_text_and_calls() -> None:
    text = (
        'I add.\n<tool_call>\n{"name": "add", "arguments": {"n": 1}}\n</tool_call>\n'
        '<tool_call>{"name":"say","arguments":{"text":"</tool_call> is a tag"}}</tool_call> So.'
    )
    turn = parse_hermes(text)
    assert [(call.name, call.arguments, call.error) for call in turn.calls] == [
        ("add", {"n": 1}, ""),
        ("say", {"text": "</tool_call> is a tag"}, ""),
    ]
    assert turn.content == "I add.\n\n So."


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("<tool_call>\n{}\n</tool_call>", ["names no tool"]),
        ('<tool_call>\n{"name":"add","arguments":{"a":1', ["cut off"]),
        ("<tool_call>\nadd(1)\n</tool_call>", ["not valid JSON"]),
        ("<tool_call>[]</tool_call>", ["not a list"]),
        ('<tool_call>{"name":"add","arguments":"[1]"}</tool_call>', ["Invalid arguments for add"]),
        ('<tool_call>{"name":"add"} and so on</tool_call>', ["more text"]),
        ('<tool_call>{"name": 3}</tool_call>', ["names no tool"]),
        ("<tool_call>", ["cut off"]),
        ('<tool_call>{"a</tool_call><tool_call>{}</tool_call>', ["not valid JSON", "names no tool"]),
    ],
)
def test_a_broken_call_is_one_readable_error(text: str, errors: list[str]) -> None:
    calls = parse_hermes(text).calls
    assert len(calls) == len(errors)
    for call, error in zip(calls, errors, strict=True):
        assert error in call.error and call.arguments == {}


def test_a_call_without_arguments_is_made() -> None:
    (call,) = parse_hermes('<tool_call>\n{"name":"add"}\n</tool_call>').calls
    assert (call.name, call.arguments, call.error) == ("add", {}, "")


def test_a_forgotten_closing_tag_is_forgiven() -> None:
    turn = parse_hermes('<tool_call>{"name":"a"}\n<tool_call>{"name":"b"}')
    assert [call.name for call in turn.calls] == ["a", "b"]
    assert not any(call.error for call in turn.calls)


def test_the_history_can_be_rendered_again() -> None:
    turn = parse_hermes('<tool_call>{}</tool_call><tool_call>{"name":"add","arguments":{"n":1}}</tool_call>')
    message = turn.as_message(["c1", "c2"])
    functions = [call["function"] for call in message["tool_calls"]]
    assert functions == [{"name": UNNAMED, "arguments": "{}"}, {"name": "add", "arguments": '{"n": 1}'}]
    objects = turn.as_message(["c1", "c2"], objects=True)["tool_calls"]
    assert [call["function"]["arguments"] for call in objects] == [{}, {"n": 1}]
    assert "tool_calls" not in parse_hermes("Just text.").as_message([])


def test_a_short_result_is_left_alone() -> None:
    assert limit_result("a\tb\n", 100) == "a\tb\n"


def test_control_characters_are_shown_as_such() -> None:
    assert limit_result("\x1b[31mred\x00\r\nend\x9b", 100) == "\ufffd[31mred\ufffd\nend\ufffd"


@pytest.mark.parametrize("keep", ["start", "end", "both"])
def test_a_long_result_is_cut_and_says_which_end_was_kept(keep: Any) -> None:
    text = "".join(chr(ord("a") + i % 26) for i in range(5000))
    cut = limit_result(text, 400, keep)
    assert 380 <= len(cut) <= 400 and "of 5000 characters]" in cut
    assert cut.startswith(text[:100]) == (keep != "end")
    assert cut.endswith(text[-100:]) == (keep != "start")
    assert ("first" in cut, "last" in cut) == (keep != "end", keep != "start")


def test_a_limit_shorter_than_its_notice_keeps_the_notice() -> None:
    assert limit_result("x" * 100, 5, "start").endswith("[cut: the first 0 of 100 characters]")


@pytest.mark.parametrize("call", ["<tool_call>", '<tool_call>{"name": "f"', '<tool_call>{"name": "f"}x'])
def test_a_text_full_of_calls_is_read_to_the_thousandth(call: str) -> None:
    """Each costs a look at the rest: a whole text of them would hold up every other episode for a minute."""
    found = parse_hermes(call * (1_000_000 // len(call)))
    assert len(found.calls) == MAX_CALLS + 1 and found.calls[-1].error.startswith("Only the first 1,000 tool calls")
    good = '<tool_call>{"name": "f"}</tool_call>'
    assert len(parse_hermes(good * MAX_CALLS).calls) == MAX_CALLS
    assert not any(one.error for one in parse_hermes(good * MAX_CALLS).calls)
