"""What a tool may return, and what the wires carry of it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import pytest
from gymwire.servers import Media, ToolResult
from gymwire.servers.results import MAX_RESULT_CHARACTERS, clean_text, tool_result
from pydantic import BaseModel


class Point(BaseModel):
    x: int


@dataclass
class Pair:
    a: int
    b: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        ('{"already": 1}', '{"already": 1}'),
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (0.5, "0.5"),
        (float("nan"), "NaN"),
        (10**30, str(10**30)),
        ([1, "a"], '[1,"a"]'),
        ((), "[]"),
        ({"ü": 1}, '{"ü":1}'),
        (Point(x=1), '{"x":1}'),
        (Pair(1, "b"), '{"a":1,"b":"b"}'),
    ],
)
def test_text_stays_text_and_the_rest_is_json(value: Any, text: str) -> None:
    assert tool_result(value) == ToolResult(text)


@pytest.mark.parametrize(
    "value", [b"raw", bytearray(b"raw"), memoryview(b"raw"), object(), {"a": object()}, {1, object()}]
)
def test_what_has_no_json_form_is_our_mistake(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        tool_result(value)


@pytest.mark.parametrize(
    "value",
    ["a\ud800b", {"k\ud800": "v\udfff"}, ["\ud83d"], ToolResult("\ud800"), [Media("image", "A", "x"), "\ud800"]],
)
def test_lone_surrogates_become_encodable(value: Any) -> None:
    text = tool_result(value).text
    assert text.encode() and "?" in text


def test_surrogates_inside_json_leave_it_json() -> None:
    assert json.loads(tool_result({"k": "\ud800", "ü": 1}).text) == {"k": "?", "ü": 1}


def test_fifty_megabytes_are_cut_quickly_and_say_so() -> None:
    started = time.process_time()
    for value in ("x" * 50_000_000, "ü" * 50_000_000, ToolResult("x" * 50_000_000)):
        result = tool_result(value)
        assert len(result.text) < MAX_RESULT_CHARACTERS + 100
        assert result.text.endswith(f"[cut: the first {MAX_RESULT_CHARACTERS} of 50000000 characters]")
    assert time.process_time() - started < 1.0


def test_fifty_megabytes_of_bytes_are_refused_quickly() -> None:
    raw, started = b"x" * 50_000_000, time.process_time()
    with pytest.raises(TypeError):
        tool_result(raw)
    assert time.process_time() - started < 0.2


def test_short_text_is_not_touched() -> None:
    for text in ("plain", "ünïcödé \U0001f600", "line\u2028separator", "\x00\x1b[31m"):
        assert clean_text(text) == text


PICTURE = Media("image", "AAAA", "image/png")


def test_media_are_taken_out_of_lists() -> None:
    assert tool_result(PICTURE) == ToolResult("", media=(PICTURE,))
    assert tool_result(["one", PICTURE, "two"]) == ToolResult("one\ntwo", media=(PICTURE,))
    assert tool_result(ToolResult("x", media=(PICTURE,))).media == (PICTURE,)
    assert tool_result(["one", PICTURE]).plain() == "one\n[image: image/png]"


def test_media_of_raw_bytes_are_our_mistake() -> None:
    with pytest.raises(TypeError, match="base64"):
        tool_result(Media("image", b"AAAA", "image/png"))  # type: ignore[arg-type]


def test_media_text_is_encodable() -> None:
    assert tool_result(Media("resource", "a\ud800", "text/plain", "u")).media[0].data == "a?"
