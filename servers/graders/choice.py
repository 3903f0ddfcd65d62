r"""Graders of multiple choice: `boxed_choice` and `choice`.

`options` may be a list of texts, a list of `{"A": text}`, or `{"A": text, ...}`; without it the letters A to Z count.
The expected answer is a letter, or the text of exactly one option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from ..types import RowError
from . import extract
from .registry import grader

Options = Mapping[str, str] | Sequence[Any]

#: What may stand around a letter in a box: `\text{B}`, `(B)`, `B.`, `B: the option`.
_DRESSED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")
_LETTER = re.compile(r"[\s(\[*$]*([A-Za-z])[\s)\]*$.]*")
_LETTER_THEN = re.compile(r"[\s(\[*$]*([A-Za-z])\s*[).:\]*]+\s*(.*)", re.DOTALL)
_ALONE = re.compile(r"(?:^|(?<=[\s(\[*\"':]))([A-Z])(?=[\s)\]*\"'.,:;!?]|$)")
#: "A" and "I" are words, too: there a bracket, a mark or the end of the text must say that a letter is meant.
_WORDS = frozenset("AI")


def read_options(options: Options | None) -> dict[str, str]:
    """Options by letter. Raises `RowError`."""
    if options is None:
        return dict.fromkeys(ascii_uppercase, "")
    if isinstance(options, Mapping):
        pairs = list(options.items())
    elif isinstance(options, list | tuple) and all(isinstance(item, Mapping) for item in options):
        pairs = [pair for item in options for pair in item.items()]
    elif isinstance(options, list | tuple):
        pairs = list(zip(ascii_uppercase, options, strict=False))
    else:
        raise RowError(f"`options` is a list of texts, a list of objects or an object, got {options!r:.60}")
    if not all(isinstance(key, str) and len(key) == 1 and key.isalpha() for key, _ in pairs):
        raise RowError(f"`options` are called by single letters, got {[key for key, _ in pairs]!r:.60}")
    return {key.upper(): str(text) for key, text in pairs}


def expected_letter(expected_answer: str, options: Options | None) -> str:
    """The letter of the right option. Raises `RowError` where there is not exactly one."""
    letters = read_options(options)
    if not isinstance(expected_answer, str):
        raise RowError(f"the expected answer is a letter or an option's text, got {expected_answer!r:.60}")
    if expected_answer.strip().upper() in letters:
        return expected_answer.strip().upper()
    same = [letter for letter, text in letters.items() if text and _folded(text) == _folded(expected_answer)]
    if len(same) != 1:
        named = "A to Z (the row has no `options`)" if options is None else ", ".join(letters)
        raise RowError(f"the expected answer {expected_answer!r:.60} is none of the options {named}")
    return same[0]


def check_choice(expected_answer: str, options: Options | None = None) -> None:
    expected_letter(expected_answer, options)


@grader(check=check_choice)
def boxed_choice(completion: str, expected_answer: str, options: Options | None = None) -> bool:
    r"""Whether the last `\boxed{}` holds the right letter (`\text{B}`, `(B)` and `B.` too) and nothing else."""
    inside = extract.boxed(extract.spoken(completion))
    if not inside:
        return False
    return _letter_in(inside) == expected_letter(expected_answer, options)


@grader(check=check_choice)
def choice(completion: str, expected_answer: str, options: Options | None = None) -> bool:
    r"""Whether the answer is the right option: its letter or its text in the last `\boxed{}` or after the last
    "Answer:"; else the whole of what was said; else the last letter of an option that stands alone."""
    letters = read_options(options)
    return _chosen(completion, letters) == expected_letter(expected_answer, options)


def _chosen(completion: str, letters: Mapping[str, str]) -> str | None:
    found = extract.final(completion)
    text = extract.spoken(completion).strip() if found is None else found
    option = _option(text, letters)
    if option is not None or extract.boxed(extract.spoken(completion)) is not None:
        return option
    alone = [match for match in _ALONE.finditer(text) if match[1] in letters and _is_letter(text, match)]
    return alone[-1][1] if alone else None


def _is_letter(text: str, match: re.Match[str]) -> bool:
    """Whether a capital stands for an option, and is not the word A or I."""
    after = text[match.end() : match.end() + 1]
    return (
        match[1] not in _WORDS or after != " " or text[: match.start()].rstrip().casefold().endswith(("option", "is"))
    )


def _option(text: str, letters: Mapping[str, str]) -> str | None:
    """The option that a whole text is: its letter, its text, or both."""
    letter = _letter_in(text)
    if letter is not None and letter in letters:
        return letter
    same = [key for key, option in letters.items() if option and _folded(option) == _folded(text)]
    if len(same) == 1:
        return same[0]
    both = _LETTER_THEN.fullmatch(_DRESSED.sub(r"\1", text))
    if both is not None and both[1].upper() in letters and "\n" not in both[2]:
        said, option = _folded(both[2]), _folded(letters[both[1].upper()])
        return both[1].upper() if not option or said == option else None
    return None


def _letter_in(text: str) -> str | None:
    found = _LETTER.fullmatch(_DRESSED.sub(r"\1", text))
    return None if found is None else found[1].upper()


def _folded(text: str) -> str:
    return " ".join(_DRESSED.sub(r"\1", text).split()).casefold().rstrip(".")
