r"""Graders of multiple choice: `boxed_choice` and `choice`.

`options` (or `choices`) may be a list of texts, a list of `{"A": text}`, `{"A": text, ...}`, or `{"label": [letters],
"text": [texts]}`; without it the letters A to Z count.
The expected answer is a letter, or the text of exactly one option.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise
from string import ascii_uppercase
from typing import Any

from ..types import RowError
from . import extract
from .registry import grader

Options = Mapping[str, str] | Sequence[Any]

#: What may stand around a letter in a box: `\text{B}`, `(B)`, `B.`, `B: the option`.
_DRESSED = re.compile(r"\\(?:text|math)[a-z]{0,6}\s*\{([^{}]*)\}|\\([()])")
_LETTER = re.compile(r"[\s(\[*$`<]*([A-Za-z])[\s)\]*$`>.;]*")
_LETTER_THEN = re.compile(r"[\s(\[*$`<]*([A-Za-z])\s*[).:\]*>]+\s*(.*)", re.DOTALL)
_ALONE = re.compile(r"(?<![\w'\u2019\\-])([A-Z])(?![\w'\u2019+#-])")
#: Between two letters it says that neither is the answer alone: `A or B`, `A, B`, `A/B`.
_JOINED = re.compile(r"[\s)\]*`$]{0,4}(?:[,/&|;]|or|and|and/or)?[\s(\[*`$]{0,4}")
_DENIED = re.compile(r"\b(?:not|nor|neither|never|than|n't)[\s(\[*\"'`$]{0,4}$", re.IGNORECASE)
#: "A" and "I" are words, too: there a bracket, a mark, such a word or the end of the text must say that a letter is
#: meant.
_WORDS = frozenset("AI")
_REASONS = re.compile(r" (?:because|since|as|is|was|due|for|so|and|or|but|not|[B-Z])\b")
#: How far around a letter is looked.
NEAR = 24


def read_options(options: Options | None) -> dict[str, str]:
    """Options by letter. Raises `RowError`."""
    if options is None:
        return dict.fromkeys(ascii_uppercase, "")
    if isinstance(options, Mapping) and options.keys() == {"label", "text"}:
        pairs = _paired(options["label"], options["text"])
    elif isinstance(options, Mapping):
        pairs = list(options.items())
    elif isinstance(options, list | tuple) and all(isinstance(item, Mapping) for item in options):
        pairs = [pair for item in options for pair in item.items()]
    elif isinstance(options, list | tuple):
        pairs = _paired(ascii_uppercase[: len(options)], options)
    else:
        raise RowError(f"`options` is a list of texts, a list of objects or an object, got {options!r:.60}")
    if not all(isinstance(key, str) and len(key) == 1 and key.isalpha() for key, _ in pairs):
        raise RowError(f"`options` are called by single letters, got {[key for key, _ in pairs]!r:.60}")
    return {key.upper(): str(text) for key, text in pairs}


def _paired(labels: Any, texts: Any) -> list[tuple[str, Any]]:
    if not isinstance(texts, list | tuple) or not texts or len(labels) != len(texts):
        raise RowError("`options` has one text for each letter, 26 at most")
    return list(zip(labels, texts, strict=True))


def expected_letter(expected_answer: str, options: Options | None) -> str:
    """The letter of the right option. Raises `RowError` where there is not exactly one."""
    letters = read_options(options)
    if not isinstance(expected_answer, str):
        raise RowError(f"the expected answer is an option's letter or text (no index), got {expected_answer!r:.60}")
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
    inside = extract.boxed(_plain(extract.spoken(completion)))
    if not inside:
        return False
    return _letter_in(inside) == expected_letter(expected_answer, options)


@grader(check=check_choice)
def choice(completion: str, expected_answer: str, options: Options | None = None) -> bool:
    r"""Whether the answer is the right option: its letter or its text in the last `\boxed{}` or after the last
    "Answer:"; else the whole of what was said. Else, after a mark the first letter of an option that stands alone,
    unless it is denied ("not A but B"); without one the last such letter. Several joined letters ("A or B") are no
    answer."""
    letters = read_options(options)
    return _chosen(completion, letters) == expected_letter(expected_answer, options)


def _chosen(completion: str, letters: Mapping[str, str]) -> str | None:
    spoken = _plain(extract.spoken(completion))
    found = extract.final(spoken)
    text = spoken.strip() if found is None else found
    option = _option(text, letters)
    if option is not None or extract.boxed(spoken) is not None:
        return option
    alone = [match for match in _ALONE.finditer(text) if match[1] in letters and _is_letter(text, match)]
    if found is None:
        return None if _all_joined(text, alone) else alone[-1][1] if alone else None
    meant = [match for match in alone if not _DENIED.search(text[max(0, match.start() - NEAR) : match.start()])]
    return None if not meant or _joined(text, *meant[:2]) else meant[0][1]


def _all_joined(text: str, alone: Sequence[re.Match[str]]) -> bool:
    """Whether the text is a list of letters, and nothing else."""
    if len(alone) < 2 or _LETTER.match(text) is None:
        return False
    ends = not text[alone[-1].end() :].strip(" \n.!?)]*`$")
    return ends and all(_joined(text, *pair) for pair in pairwise(alone))


def _joined(text: str, first: re.Match[str], second: re.Match[str] | None = None) -> bool:
    """Whether a letter is named in one breath with the next, which is another one."""
    if second is None or second[1] == first[1] or second.start() - first.end() > NEAR:
        return False
    return _JOINED.fullmatch(text[first.end() : second.start()].lower()) is not None


def _is_letter(text: str, match: re.Match[str]) -> bool:
    """Whether a capital stands for an option, and is not the word A or I."""
    after = text[match.end() : match.end() + NEAR]
    before = text[max(0, match.start() - NEAR) : match.start()].rstrip().casefold()
    return (
        match[1] not in _WORDS
        or not after.startswith(" ")
        or before.endswith(("option", "is"))
        or _REASONS.match(after) is not None
    )


def _option(text: str, letters: Mapping[str, str]) -> str | None:
    """The option that a whole text is: its letter, its text, or both."""
    letter = _letter_in(text)
    if letter is not None and letter in letters:
        return letter
    same = [key for key, option in letters.items() if option and _folded(option) == _folded(text)]
    if len(same) == 1:
        return same[0]
    both = _LETTER_THEN.fullmatch(_undressed(text))
    if both is not None and both[1].upper() in letters and "\n" not in both[2]:
        said, option = _folded(both[2]), _folded(letters[both[1].upper()])
        return both[1].upper() if not option or said == option else None
    return None


def _letter_in(text: str) -> str | None:
    found = _LETTER.fullmatch(_undressed(text))
    return None if found is None else found[1].upper()


def _undressed(text: str) -> str:
    return _DRESSED.sub(lambda match: match[1] or match[2] or "", text)


def _plain(text: str) -> str:
    """Full-width letters and marks as ordinary ones."""
    return unicodedata.normalize("NFKC", text)


def _folded(text: str) -> str:
    return " ".join(_plain(_undressed(text)).split()).casefold().rstrip(".")
