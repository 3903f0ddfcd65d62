"""Calls as Qwen3-Coder writes them, and reasoning apart from what was said."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.adapters.calls import MAX_CALLS, ParsedCall
from gymwire.adapters.calls_xml import parse_xml
from gymwire.adapters.reasoning import split_reasoning
from gymwire.servers.types import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {"Sku": {"type": "string"}, "Sizes": {"type": "array", "items": {"type": "integer"}}},
    "properties": {
        "text": {"type": "string"},
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "flag": {"type": "boolean"},
        "sizes": {"$ref": "#/$defs/Sizes"},
        "sku": {"$ref": "#/$defs/Sku"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "colour": {"enum": ["red", "1"]},
        "level": {"enum": [1, 2]},
        "options": {"type": "object"},
        "anything": {},
    },
}
TOOLS = [Tool("note", "Take a note.", SCHEMA), Tool("stop", "Stop.", {"type": "object", "properties": {}})]


def call(name: str, **values: str) -> str:
    parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("text", "7", "7"),
        ("text", "", ""),
        ("text", "  two\n\nlines ", "  two\n\nlines "),
        ("text", "null", "null"),
        ("text", "a </parameter> b", "a </parameter> b"),
        ("text", "</function></tool_call>", "</function></tool_call>"),
        ("n", "7", 7),
        ("n", " -7 ", -7),
        ("n", "seven", "seven"),
        ("n", "NaN", "NaN"),
        ("x", "1.5", 1.5),
        ("x", "1e999", "1e999"),
        ("flag", "True", True),
        ("flag", "false", False),
        ("flag", "yes", "yes"),
        ("sizes", "[1, 2]", [1, 2]),
        ("sizes", "[1, 2", "[1, 2"),
        ("sku", "007", "007"),
        ("maybe", "None", None),
        ("maybe", "null", None),
        ("maybe", "3", 3),
        ("either", "3", "3"),
        ("colour", "1", "1"),
        ("level", "1", 1),
        ("options", '{"a": [null]}', {"a": [None]}),
        ("anything", "3", "3"),
        ("unknown", "3", "3"),
    ],
)
def test_a_value_is_what_its_schema_says(key: str, value: str, read: Any) -> None:
    parsed = parse_xml(call("note", **{key: value}), TOOLS)
    assert parsed.calls == (ParsedCall("note", {key: read}),)


TURNS: dict[str, tuple[str, str, list[ParsedCall]]] = {
    "no call": ("Just <b>text</b>.", "Just <b>text</b>.", []),
    "a call without parameters": (call("stop"), "", [ParsedCall("stop")]),
    "words before a call": ("I note:\n" + call("note", n="1"), "I note:", [ParsedCall("note", {"n": 1})]),
    "two calls": (
        call("note", n="1") + "\n" + call("stop"),
        "",
        [ParsedCall("note", {"n": 1}), ParsedCall("stop")],
    ),
    "outer tags left out": (
        "<function=note>\n<parameter=n>\n1\n</parameter>\n</function>",
        "",
        [ParsedCall("note", {"n": 1})],
    ),
    "only the first tag left out": (
        "<function=stop>\n</function>\n</tool_call> Bye.",
        "Bye.",
        [ParsedCall("stop")],
    ),
    "an unknown tool": (call("shout", text="x"), "", [ParsedCall("shout", {"text": "x"})]),
    "all on one line": (
        "<tool_call><function=note><parameter=n>1</parameter></function></tool_call>",
        "",
        [ParsedCall("note", {"n": 1})],
    ),
}


@pytest.mark.parametrize(("text", "content", "calls"), TURNS.values(), ids=TURNS)
def test_turns(text: str, content: str, calls: list[ParsedCall]) -> None:
    parsed = parse_xml(text, TOOLS)
    assert (parsed.content, list(parsed.calls)) == (content, calls)


BROKEN = {
    "cut in a value": ("<tool_call>\n<function=note>\n<parameter=text>\nhal", "note", "cut off"),
    "cut behind a value": (
        "<tool_call>\n<function=note>\n<parameter=text>\nx\n</parameter>",
        "note",
        "cut off",
    ),
    "cut behind the name": ("<tool_call>\n<function=note>\n", "note", "cut off"),
    "no function": ("<tool_call>\nnote it\n</tool_call>", "", "names no function"),
    "no name": ("<tool_call>\n<function=>\n</function>\n</tool_call>", "", "names no function"),
    "a parameter twice": (
        call("note", n="1").replace("</function>", "<parameter=n>\n2\n</parameter>\n</function>"),
        "note",
        "n is given twice",
    ),
    "text between": (call("note", n="1").replace("</function>", "hm\n</function>"), "note", "outside of a parameter"),
    "JSON": ('<tool_call>\n{"name": "note", "arguments": {}}\n</tool_call>', "", "names no function"),
}


@pytest.mark.parametrize(("text", "name", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_call_is_one_error_and_the_next_is_read(text: str, name: str, said: str) -> None:
    (broken,) = parse_xml(text, TOOLS).calls
    assert broken.name == name and said in broken.error
    if "cut" not in said:
        assert parse_xml(text + call("note", n="1"), TOOLS).calls == (broken, ParsedCall("note", {"n": 1}))


# Reasoning

CALL = '<tool_call>\n{"name": "stop"}\n</tool_call>'
TAGGED = '<tool_call>{"a": "<think>"}</tool_call> ok'
REASONED: dict[str, tuple[str, bool, str, str]] = {
    "none": ("Hello.", False, "", "Hello."),
    "before": ("<think>\nhm\n</think>\n\nHello.", False, "hm", "\n\nHello."),
    "opened by the prompt": ("hm\n</think>\nHello.", True, "hm", "\nHello."),
    "opened, and nobody said so": ("hm\n</think>\nHello.", False, "hm", "\nHello."),
    "without an end": (f"<think>hm {CALL}", False, f"hm {CALL}", ""),
    "opened without an end": (f"hm {CALL}", True, f"hm {CALL}", ""),
    "a call that was considered": (f"<think>{CALL}?</think>{CALL}", False, f"{CALL}?", CALL),
    "twice": ("<think>a</think>x<think>b</think>y", False, "a\nb", "xy"),
    "between calls": (f"{CALL}<think>b</think>{CALL}", False, "b", CALL + CALL),
    "tags in a call": (TAGGED, False, "", TAGGED),
    "empty": ("<think>\n\n</think>\n\nHello.", False, "", "\n\nHello."),
}


@pytest.mark.parametrize(("text", "opened", "thought", "said"), REASONED.values(), ids=REASONED)
def test_reasoning_is_taken_out(text: str, opened: bool, thought: str, said: str) -> None:
    assert split_reasoning(text, opened=opened) == (thought, said)


@pytest.mark.parametrize(
    ("piece", "calls"),
    [("<function=", 0), ("<tool_call>", 1), ('<tool_call>{"name": "f"}</tool_call>', MAX_CALLS + 1),
     ("<function=f><parameter=a>x</parameter></function>", MAX_CALLS + 1)],
)  # fmt: skip
def test_a_text_full_of_tags_is_read_to_the_thousandth_call(piece: str, calls: int) -> None:
    found = parse_xml(piece * (1_000_000 // len(piece)))
    assert len(found.calls) == calls
    assert calls <= MAX_CALLS or found.calls[-1].error.startswith("Only the first 1,000 tool calls")
