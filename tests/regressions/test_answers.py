"""Answers that took a grader for ever, or that it read wrongly."""

from __future__ import annotations

import time

import pytest
from gymwire.servers.graders.choice import choice
from gymwire.servers.graders.extract import final
from gymwire.servers.graders.formulas import answer_of
from gymwire.servers.graders.math import is_correct
from gymwire.servers.graders.text import check_references, exact, qa_match
from gymwire.servers.types import RowError

LONG = 200_000
OPTIONS = {"A": "Red", "B": "Blue", "C": "A cat"}


@pytest.mark.parametrize(
    "text",
    [
        "answer" + " " * LONG,
        "answer" + "\u00a0" * LONG + "is",
        "answer is" + "\n" * LONG,
        "answer*" * LONG,
        "Answer: " + "####" * LONG,
        "####\n" * LONG,
        " " + "1" * LONG + "x",
        " " + "1," * LONG + "x",
        "1/" * LONG,
        "A or " * LONG,
        "A" + "," * LONG,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_no_answer_takes_a_grader_more_than_linear_time(text: str) -> None:
    """A grader that runs past its limit is a failed session: a way out of a bad score."""
    started = time.monotonic()
    final(text)
    answer_of(text)
    choice(text, "B", OPTIONS)
    exact(text, "x")
    qa_match(text, "x")
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    ("said", "gold", "right"),
    [
        ("The total is 1,234 dollars.", "1234", True),
        ("The total is 1,234 dollars.", "1", False),
        ("It is 12,345,678 in all", "12345678", True),
        ("It is $12,500.50 in all", "12500.5", True),
        ("Pick any of 1,2 or so", "1", False),
        ("It is 12, or 7.", "7", True),
    ],
)
def test_the_last_number_is_read_with_its_thousands(said: str, gold: str, right: bool) -> None:
    assert is_correct(said, gold) is right


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("#### Conclusion\nThe answer is 5", "5"),
        ("Answer: 5\n#### Notes\nNone.", "5"),
        ("Answer: no\nwork\n#### 18\n\n", "18"),
        ("#### 18\nI am sure.", "18"),
        ("Answer: __init__", "__init__"),
        ("Answer: _x", "_x"),
    ],
)
def test_a_heading_is_no_answer_and_names_keep_their_underscores(completion: str, answer: str) -> None:
    assert final(completion) == answer


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ("Answer: B (not C)", True),
        ("Answer: B because C is too small", True),
        ("The answer is B, not C.", True),
        ("The answer is not A but B", True),
        ("The answer is not B but C", False),
        ("Answer: A because of that", False),
        ("Answer: A or B", False),
        ("Answer: A/B", False),
        ("A, B or C", False),
        ("Answer: none of A, B", False),
        ("Answer: `B`", True),
        ("\\(B\\)", True),
        ("\uff22", True),
        ("\u7b54\u6848\uff1aB", True),
    ],
)
def test_a_choice_is_the_letter_that_was_meant_and_several_are_none(said: str, right: bool) -> None:
    assert choice(said, "B", OPTIONS) is right


def test_the_letter_a_is_chosen_though_it_is_a_word() -> None:
    assert choice("Answer: A because of that", "A", OPTIONS)
    assert not choice("Answer: A dog", "A", OPTIONS)


@pytest.mark.parametrize(
    ("said", "reference", "same"),
    [
        ("35", "3.5", False),
        ("5", ".5", False),
        ("5", "-5", False),
        ("It is 3.5", "it is 3.5.", True),
        ("\u22125", "-5", True),
        ("50", 5.0, False),
        ("5", 5.0, True),
        ("\u201cParis\u201d", "Paris", True),
        ("it\u2019s", "It's", True),
        ("cafe\u0301", "caf\u00e9", True),
        ("\u221a2", "2", False),
        ("\\boxed{\\text{Paris}}", "Paris", True),
    ],
)
def test_short_answers_keep_their_numbers_and_lose_all_punctuation(said: str, reference: str, same: bool) -> None:
    assert (qa_match(said, reference)["em"] > 0) is same


@pytest.mark.parametrize(
    ("said", "reference", "same"),
    [
        ("The answer is blue.", "blue", True),
        ("blue.", "blue", False),
        ("\\boxed{blue.}", "blue", False),
        ("\\boxed{\\text{blue}}", "blue", True),
        ("Answer: U.S.", "U.S.", True),
        ("5", 5.0, True),
        ("5.0", 5.0, True),
        ("50", 5.0, False),
    ],
)
def test_an_exact_answer_may_end_a_sentence_or_be_set_as_text(said: str, reference: str, same: bool) -> None:
    assert exact(said, reference) is same


@pytest.mark.parametrize("nothing", ["", "  ", ["Paris", ""]])
def test_a_row_without_an_expected_answer_is_refused(nothing: str | list[str]) -> None:
    """An empty cell of a table: whoever says nothing would be right."""
    with pytest.raises(RowError, match="empty"):
        check_references(nothing)
