r"""What the shape of two formulas says before any algebra, which would read `4=5` as 5 and `3:30` as 3.

`decided` answers True or False where the shape alone decides, else None.
"""

from __future__ import annotations

import re
from fractions import Fraction

from .numbers import NotNumeric, TooLarge, read

_BASED = re.compile(r"([0-9A-Za-z]+)_\{?([0-9]{1,2})\}?")
_EQUALS = re.compile(r"(?<![<>!:\\])=(?!=)")
_CLOCK = re.compile(r"[0-9.]+(?:\s*:\s*[0-9.]+)+")
_PRODUCT = re.compile(r"[-+]?[0-9.]+\s*(?!(?:pi|e)$)[A-Za-z]+")
_APART = re.compile(r"[0-9]\s+[0-9]")


def decided(expected: str, given: str) -> bool | None:
    for rule in (_bases, _colons, _brackets, _chains, _spaces, _letters):
        if (verdict := rule(expected, given)) is not None:
            return verdict
    return None


def _bases(expected: str, given: str) -> bool | None:
    """`1010_2`: by value where both say their base; who is asked for a base may leave it out, nobody may add one."""
    wanted, said = _BASED.fullmatch(expected), _BASED.fullmatch(given)
    if said is None:
        return None if wanted is None else wanted[1].casefold() == given.casefold()
    value = _in_base(said)
    if value is None:
        return None
    return value == (_in_base(wanted) if wanted is not None else _number(expected))


def _in_base(found: re.Match[str]) -> int | None:
    try:
        return int(found[1], int(found[2]))
    except ValueError:
        return None


def _colons(expected: str, given: str) -> bool | None:
    """Times and ratios, part by part; `2:3` is 2/3, too."""
    wanted, said = _parts(expected), _parts(given)
    if wanted is None and said is None:
        return None
    if wanted is not None and said is not None:
        return wanted == said
    one, other = (wanted, given) if wanted is not None else (said, expected)
    assert one is not None
    return len(one) == 2 and one[1] != 0 and one[0] / one[1] == _number(other)


def _parts(text: str) -> list[Fraction] | None:
    if not _CLOCK.fullmatch(text):
        return None
    try:
        return [Fraction(part.strip()) for part in text.split(":")]
    except ValueError:
        return None


def _brackets(expected: str, given: str) -> bool | None:
    """A pair or an interval is no set."""
    wanted, said = _outer(expected), _outer(given)
    return False if wanted and said and "," in expected and (wanted == "{}") != (said == "{}") else None


def _outer(text: str) -> str:
    text = text.replace("\\{", "{").replace("\\}", "}")
    pair = text[:1] + text[-1:]
    return pair if pair in ("{}", "()", "[]", "(]", "[)") else ""


def _chains(expected: str, given: str) -> bool | None:
    """`2+3=5` is 5; `4=5` is nothing."""
    if _EQUALS.search(expected):
        return None
    values = [value for part in _EQUALS.split(given) if (value := _number(part)) is not None]
    return False if "=" in given and any(value != values[-1] for value in values) else None


def _spaces(expected: str, given: str) -> bool | None:
    """`1 2` is not 12; what is one number all the same (`1 000`, `1 1/2`) the reader of numbers knows."""
    apart = [text for text in (expected, given) if _APART.search(text) and "\\" not in text]
    return False if any(_number(text) is None for text in apart) else None


def _letters(expected: str, given: str) -> bool | None:
    """`2ab` is not 2; what is a unit is gone by now."""
    for one, other in ((expected, given), (given, expected)):
        if _PRODUCT.fullmatch(one) and _number(one) is None and _number(other) is not None:
            return False
    return None


def _number(text: str) -> object:
    try:
        return read(text).value
    except (NotNumeric, TooLarge):
        return None
