"""boxed_choice and choice: letters, texts, and what is neither."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.servers.graders.choice import boxed_choice, choice, expected_letter

OPTIONS = {"A": "Red", "B": "Blue", "C": "A cat"}

#: What was said, whether its box is right, and whether it is right at all; B is.
SAID = [
    ("\\boxed{B}", True, True),
    ("\\boxed{b}", True, True),
    ("\\boxed{\\text{B}}", True, True),
    ("\\boxed{(B)}", True, True),
    ("\\boxed{B.}", True, True),
    ("\\boxed{B: Blue}", False, True),
    ("\\boxed{Blue}", False, True),
    ("\\boxed{B: Red}", False, False),
    ("\\boxed{A or B}", False, False),
    ("\\boxed{A}, no, \\boxed{B}", True, True),
    ("\\boxed{B}, no, \\boxed{", False, False),
    ("<think>\\boxed{B}</think>", False, False),
    ("B", False, True),
    ("(B)", False, True),
    ("B) Blue", False, True),
    ("Blue", False, True),
    ("blue.", False, True),
    ("The answer is B.", False, True),
    ("The answer is (B) Blue", False, True),
    ("Answer: B\nI am sure.", False, True),
    ("A cat would like it, so B", False, True),
    ("Option A is wrong. It is **B**", False, True),
    ("I think it is option B, as A and C are not blue.", False, False),
    ("I am not sure", False, False),
    ("", False, False),
    ("BB", False, False),
    ("D", False, False),
]


@pytest.mark.parametrize(("completion", "in_box", "at_all"), SAID)
def test_a_letter_is_read_where_it_stands(completion: str, in_box: bool, at_all: bool) -> None:
    assert boxed_choice(completion, "B", OPTIONS) is in_box
    assert choice(completion, "B", OPTIONS) is at_all


@pytest.mark.parametrize(
    ("expected", "options", "letter"),
    [
        ("b", OPTIONS, "B"),
        ("blue", OPTIONS, "B"),
        ("blue", ["red", "blue"], "B"),
        ("B", [{"A": "red"}, {"B": "blue"}], "B"),
        ("Q", None, "Q"),
    ],
)
def test_the_expected_answer_is_a_letter_or_an_options_text(expected: str, options: Any, letter: str) -> None:
    assert expected_letter(expected, options) == letter
