"""Graders of texts: `exact`, `regex` and `qa_match`."""

from __future__ import annotations

import re as plain_re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import re2

from ..types import RowError
from . import extract
from .registry import grader

References = str | int | float | Sequence[str | int | float]

#: Of a compiled pattern's program: a pattern that repeats repetitions is refused instead of filling the memory.
PATTERN_MEMORY_BYTES = 8 << 20
_ARTICLES = plain_re.compile(r"\b(a|an|the)\b")
#: A point before a digit, and the minus of a number, are no punctuation: 3.5 is not 35, and -5 not 5.
_MARK = plain_re.compile(r"(?P<number>(?<![^\W\d])\.(?=\d)|(?<![\w.)])[-\u2212](?=\.?\d))|[^\w\s]|_")
#: LaTeX's way to set a whole answer as text.
_SET = plain_re.compile(r"\\(?:text|math)[a-z]{0,6}\s{0,9}\{([^{}]*)\}")
#: Whole numbers that a float holds exactly.
LARGEST_WHOLE = 2.0**53


def references(expected_answer: References) -> list[str]:
    """One or several expected answers, as texts. Raises `RowError` for what is none."""
    several = [expected_answer] if isinstance(expected_answer, str | int | float) else expected_answer
    if not isinstance(several, list | tuple):
        raise RowError(f"an expected answer is a text or a number, got {several!r:.60}")
    if not several:
        raise RowError("the list of expected answers is empty")
    for value in several:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise RowError(f"an expected answer is a text or a number, got {value!r:.60}")
        if isinstance(value, str) and not value.strip():
            raise RowError("an expected answer is empty")
    return [text for value in several for text in _written(value)]


def _written(value: str | int | float) -> list[str]:
    """A number as it may be written: a table's column of floats has 5.0 where 5 is meant."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < LARGEST_WHOLE
    return [str(value), str(int(value))] if whole else [str(value)]


def answered(completion: str) -> str:
    r"""The answer in the last `\\boxed{}` or after the last "Answer:", else all that was said."""
    found = extract.final(completion)
    text = (extract.spoken(completion) if found is None else found).strip()
    whole = _SET.fullmatch(text)
    return whole[1].strip() if whole else text


def check_references(expected_answer: References) -> None:
    references(expected_answer)


@grader(check=check_references)
def exact(completion: str, expected_answer: References, ignore_case: bool = False) -> bool:
    r"""Whether the answer is one of the expected texts, but for white space at its ends (and case, if asked for).
    `\\text{}` around all of it does not count, and after "Answer:" the full stop of the sentence does not."""
    wanted = {_shape(text, ignore_case) for text in references(expected_answer)}
    said = _shape(answered(completion), ignore_case)
    return said in wanted or (said.removesuffix(".") in wanted and _is_marked(completion))


def _is_marked(completion: str) -> bool:
    text = extract.spoken(completion)
    return extract.boxed(text) is None and extract.marked(text) is not None


def _shape(text: str, ignore_case: bool) -> str:
    text = unicodedata.normalize("NFC", text.strip())
    return text.casefold() if ignore_case else text


def check_pattern(pattern: str) -> None:
    """Whether a pattern compiles. Raises `RowError`."""
    if not isinstance(pattern, str):
        raise RowError(f"`pattern` is a text, got {pattern!r:.60}")
    try:
        compiled(pattern)
    except re2.error as error:
        said = error.args[0] if error.args else error
        reason = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        hint = " (RE2 has no look-around and no back-references)" if "perl operator" in reason else ""
        raise RowError(f"the pattern {pattern!r:.80} cannot be used: {reason}{hint}") from error


@grader(check=check_pattern)
def regex(completion: str, pattern: str, full: bool = False) -> bool:
    """Whether the pattern is found in what the policy said (`full`: whether it is all of it, but for white space at its
    ends). RE2's syntax: matching takes linear time, so there is no look-around and there are no back-references."""
    said = extract.spoken(completion).encode("utf-8", "replace").decode()
    found = compiled(pattern)
    return (found.fullmatch(said.strip()) if full else found.search(said)) is not None


@lru_cache(4096)
def compiled(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES
    options.log_errors = False
    return re2.compile(pattern.encode("utf-8", "replace").decode(), options)


def check_qa(expected_answer: References, em: float = 0.5, f1: float = 0.5) -> None:
    """Whether answers could be compared. Raises `RowError`."""
    for name, share in (("em", em), ("f1", f1)):
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise RowError(f"`{name}` says how much of the score it is: a number, got {share!r:.60}")
    if not all(map(normalized, references(expected_answer))):
        raise RowError("nothing is left of an expected answer without articles and punctuation; grade it with `exact`")


@grader(check=check_qa)
def qa_match(completion: str, expected_answer: References, em: float = 0.5, f1: float = 0.5) -> dict[str, float]:
    """Short answers to questions: exact match and the overlap of words (F1), each against the best of the references.

    Texts are compared as SQuAD does: lower case, without punctuation (that of any script), articles and surplus white
    space; but a number keeps its point and its minus. `em` and `f1` say how much of the score each is.
    """
    said = normalized(answered(completion))
    wanted = [normalized(text) for text in references(expected_answer)]
    overlap = max(word_f1(said, text) for text in wanted)
    return {"em": em * (said in wanted), "f1": f1 * overlap}


def normalized(text: str) -> str:
    """SQuAD's normal form, in which numbers stay what they are."""
    text = _MARK.sub(_kept, unicodedata.normalize("NFC", text).lower())
    return " ".join(_ARTICLES.sub(" ", text).split())


def _kept(mark: plain_re.Match[str]) -> str:
    if mark["number"]:
        return "." if mark[0] == "." else "-"
    punctuation = mark[0] in string.punctuation or unicodedata.category(mark[0]).startswith("P")
    return "" if punctuation else mark[0]


def word_f1(said: str, wanted: str) -> float:
    """The harmonic mean of the shares of words that both have."""
    words, expected = said.split(), wanted.split()
    common = sum((Counter(words) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(expected)
    return 2 * precision * recall / (precision + recall)
