r"""Formulas as text: what a completion's final answer is, without dressing (`$`, `\left`, units, a full stop).

Where there is no box and no mark (see `extract`), the answer is the whole text if that is one formula without words,
else the last number that stands alone: the 2 of `4\sqrt{2}` does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import decimal

from . import extract
from .units import is_unit, spelled_out

MAX_FORMULA_CHARACTERS = 1_000

_DRESS = re.compile(
    r"\\(?:left|right|bigg?|Bigg?|displaystyle|limits)(?![A-Za-z])|\\[!,;:>]|\\\(|\\\)|\\\[|\\\]|\\quad|~"
)
_FRACTIONS = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_DEGREES = re.compile(r"\^\{?\\circ\}?|\u00b0")
_TEXT = re.compile(r"\\(?:text|textbf|textit|mathrm|mbox|operatorname)\s*\{([^{}]*)\}")
_TEXT_AT_END = re.compile(_TEXT.pattern + r"((?:\^\{?[23]\}?)?)\s*$")
#: A number, then a unit as words: `5 cm`, `12 square meters`, `30 km/h`.
_UNIT = re.compile(r"(.*[0-9)}!%])(\s*)([A-Za-z\u00b5][ ./^{}0-9A-Za-z\u00b5]*)")
_DIGIT = re.compile(r"\d")
_FUNCTIONS = re.compile(r"(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|infty|frac|mod|in|or|and|cup|cap)\b")
#: `x = 5`, but not `y = 3 - x`, which is an equation.
_NAMED = re.compile(r"[A-Za-z]\s*=\s*(?=(?:\\[A-Za-z]+|[^=A-Za-z])+$)")
_WORD = re.compile(r"(?<![A-Za-z\\])(?:[A-Za-z]{3,}|(?:so|is|it|to|of|we|as|by|be|at|if|on|no|my)\b)")
#: Digits are taken whole (`++`), and a comma before a digit ends no number: `1,234` is one, and `1,2` none.
_LONELY = re.compile(
    r"(?<![^\s$*_=:(\[\u2248~])(?P<number>[-+\u2212]?\\?\$?"
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]++)(?:\.[0-9]++)?|\.[0-9]++)"
    r"(?:/[0-9]++)?\s?\\?%?)(?=[\s$*_).;:!?\]]|,(?![0-9])|$)"
)


@dataclass(frozen=True, slots=True)
class Formula:
    """An answer without its dressing; `unit` is what words stood behind a number."""

    text: str
    unit: str = ""


def answer_of(completion: str) -> Formula | None:
    """The final answer of what a policy wrote, or None where there is none."""
    text = extract.spoken(completion)
    inside = extract.boxed(text)
    if inside is not None:
        return undress(inside) if inside else None
    marked = extract.marked(text)
    return _within(text if marked is None else marked)


def expected_of(text: str) -> Formula:
    """The row's expected answer: its box, what follows "####", or all of it."""
    inside = extract.boxed(text)
    if inside is None and "####" in text:
        inside = text.rpartition("####")[2]
    return undress(text if inside is None else inside)


def _within(text: str) -> Formula | None:
    """All of the text if it is one formula, else the last number in it that stands alone."""
    if len(text) <= MAX_FORMULA_CHARACTERS:
        formula = undress(text)
        if formula.text and not _is_prose(formula.text):
            return formula
    numbers = [match["number"] for match in _LONELY.finditer(text)]
    return undress(numbers[-1]) if numbers else None


def _is_prose(text: str) -> bool:
    return "\n" in text or (" " in text and _WORD.search(_FUNCTIONS.sub("", text)) is not None)


def undress(text: str) -> Formula:
    """The formula without what does not change its value."""
    text = spelled_out(_DIGIT.sub(lambda digit: str(decimal(digit[0])), text.strip().strip("*`").strip()))
    if text.count("$") >= 2 and not text.startswith("\\$"):
        text = text.replace("\\$", "").replace("$", "")
    text = text.replace("\\$", "").replace("$", "")
    text = _FRACTIONS.sub(r"\\frac", _DEGREES.sub("", _DRESS.sub(" ", text)))
    text, unit = _cut_unit(text.strip().removesuffix(".").strip())
    text = _TEXT.sub(lambda match: f" {match[1]} ", text).strip()
    text = _NAMED.sub("", text, count=1) if _NAMED.match(text) else text
    return Formula(" ".join(text.split()), " ".join(unit.split()))


def _cut_unit(text: str) -> tuple[str, str]:
    r"""The formula and its unit: words behind a number, or a `\text{...}` at the end."""
    words = _TEXT_AT_END.search(text)
    if words is not None and text[: words.start()].strip() and is_unit(words[1].strip() or "the"):
        return text[: words.start()], words[1] + words[2]
    found = None if "\\" in text else _UNIT.fullmatch(text)
    if found is None or not is_unit(found[3], attached=not found[2]):
        return text, ""
    return found[1], found[3]
