"""exact, regex, qa_match, and where an answer stands."""

from __future__ import annotations

import time
from typing import Any

import pytest
from gymwire.servers.graders.extract import boxed, final, spoken
from gymwire.servers.graders.text import exact, qa_match, regex


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("Answer: 42", "42"),
        ("**Answer:** 42", "42"),
        ("Answer: 1\nNo. Answer:\n\n  2  \nDone.", "2"),
        ("ANSWER = 7", "7"),
        ("so the answer is blue", "blue"),
        ("Answer: red. Is that what the answer is supposed to be?", "red. Is that what the answer is supposed to be?"),
        ("work #### 18", "18"),
        ("Answer: 3 \\boxed{4}", "4"),
        ("\\boxed 5", "5"),
        ("\\fbox{a{b}c}", "a{b}c"),
        ("\\boxed{\\{1\\}}", "\\{1\\}"),
        ("\\boxed{1} \\boxed{2", ""),
        ("<think>Answer: 1</think>Answer: 2", "2"),
        ("<think>Answer: 1", None),
        ("nothing of the kind", None),
        ("\\boxedfor{3}", None),
        ("", None),
    ],
)
def test_where_the_final_answer_stands(completion: str, answer: str | None) -> None:
    assert final(completion) == answer


def test_a_long_answer_without_an_end_is_read_in_no_time() -> None:
    started = time.monotonic()
    for text in ("\\boxed{" * 100_000, "{" * 500_000, "Answer: " * 100_000, "\\boxed{" + "{" * 500_000):
        final(text)
        boxed(spoken(text))
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("completion", "expected", "options", "right"),
    [
        ("  blue\n", "blue", {}, True),
        ("Blue", "blue", {}, False),
        ("Blue", "blue", {"ignore_case": True}, True),
        ("It is blue", "blue", {}, False),
        ("I think so.\nAnswer: blue", "blue", {}, True),
        ("\\boxed{blue}", ["red", "blue"], {}, True),
        ("5", 5, {}, True),
        ("5.0", 5, {}, False),
        ("e\u0301", "\u00e9", {}, True),
        ("", "blue", {}, False),
    ],
)
def test_exact(completion: str, expected: Any, options: dict[str, Any], right: bool) -> None:
    assert exact(completion, expected, **options) is right


@pytest.mark.parametrize(
    ("completion", "pattern", "options", "right"),
    [
        ("It is 42.", r"\b42\b", {}, True),
        ("It is 421.", r"\b42\b", {}, False),
        (" 42 ", "[0-9]+", {"full": True}, True),
        ("a 42", "[0-9]+", {"full": True}, False),
        ("one\ntwo", "(?m)^two$", {}, True),
        ("\u00fcn\u00ef \ud800", "^\u00fcn\u00ef", {}, True),
        ("<think>yes</think>no", "yes", {}, False),
    ],
)
def test_regex(completion: str, pattern: str, options: dict[str, Any], right: bool) -> None:
    assert regex(completion, pattern, **options) is right


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*b$", r"^(\w+\s?)*$", "(.*)(.*)(.*)(.*)(.*)[^a]x$"])
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    started = time.monotonic()
    regex("a" * 200_000 + "!", pattern)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("completion", "expected", "em", "f1"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("Answer: Tuesday", ["monday", "Tuesday"], 1, 1),
        ("a big red tower", "the red tower", 0, 0.8),
        ("tower tower", "tower", 0, 2 / 3),
        ("nothing", "tower", 0, 0),
        ("", "tower", 0, 0),
        ("big tower", ["tower", "very big tower"], 0, 0.8),
        ("1,200", "1200", 1, 1),
    ],
)
def test_qa_match(completion: str, expected: Any, em: float, f1: float) -> None:
    assert qa_match(completion, expected) == pytest.approx({"em": em / 2, "f1": f1 / 2})
    assert qa_match(completion, expected, em=0.0, f1=1.0) == pytest.approx({"em": 0.0, "f1": f1})
