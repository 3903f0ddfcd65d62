"""Whether a program's output, or a value that it returned, is what was expected. Runs in our process, on hostile data.

Outputs are compared as text, line by line: spaces and tabs between words, at the ends of lines, the kind of line end
and blank lines do not count; everything else does, the case of letters and where lines break too. A word is equal as it
is written; only where the expected word is a decimal (`0.5`, `1e-9`; no integer) a number within the tolerance will do.
Integers are never rounded: `10000001` is not `10000000`, in whatever form the program wrote it.

Values are compared as Python compares them, with three rules: a tuple is as good as a list (JSON has no tuples), a
dict's keys are compared as JSON writes them, and where a float is expected, a number within the tolerance will do.

The tolerance is relative (1e-6 unless said), and 1e-9 around zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from math import isfinite
from typing import Any

TOLERANCE = 1e-6
NEAR_ZERO = 1e-9
LARGEST_FLOAT_BITS = 1024
MAX_DIGITS = 60  # of a decimal; longer ones are compared as they are written
_DECIMAL = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d{1,4})?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
#: Exact enough for two decimals of `MAX_DIGITS`, and it never raises.
_EXACT = Context(prec=2 * MAX_DIGITS, traps=[])


def same_output(said: bytes, expected: str, tolerance: float = TOLERANCE) -> bool:
    """Whether a program's stdout is the expected one."""
    said_lines, expected_lines = _lines(said.decode("utf-8", "replace")), _lines(expected)
    if len(said_lines) != len(expected_lines):
        return False
    return all(_same_line(*pair, tolerance) for pair in zip(said_lines, expected_lines, strict=True))


def _lines(text: str) -> list[str]:
    return [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]


def _same_line(said: str, expected: str, tolerance: float) -> bool:
    if said == expected:
        return True
    said_words, expected_words = said.split(), expected.split()
    if len(said_words) != len(expected_words):
        return False
    return all(_same_word(*pair, tolerance) for pair in zip(said_words, expected_words, strict=True))


def _same_word(said: str, expected: str, tolerance: float) -> bool:
    if said == expected:
        return True
    if max(len(said), len(expected)) > MAX_DIGITS or not _DECIMAL.fullmatch(expected) or not _NUMBER.fullmatch(said):
        return False
    return _near(Decimal(said), Decimal(expected), tolerance)


def _near(said: Decimal, expected: Decimal, tolerance: float) -> bool:
    difference = _EXACT.abs(_EXACT.subtract(said, expected))
    allowed = max(_EXACT.multiply(Decimal(repr(tolerance)), _EXACT.abs(expected)), Decimal(repr(NEAR_ZERO)))
    return difference <= allowed


def same_value(raw: Any, expected: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether a value as `inside.plain` encodes it is the expected one, a JSON value or one with tuples in it.

    The encoded form is compared, and never decoded: nothing of a program's choice becomes a key of a set here.
    """
    if isinstance(expected, Mapping):
        return _same_items(raw, expected, tolerance)
    if isinstance(expected, Sequence) and not isinstance(expected, str | bytes):
        return _same_sequence(raw, expected, tolerance)
    return _same_scalar(_scalar(raw), expected, tolerance)


def _same_sequence(raw: Any, expected: Sequence[Any], tolerance: float) -> bool:
    if not isinstance(raw, list) or not raw or raw[0] not in ("list", "tuple") or len(raw) != len(expected) + 1:
        return False
    return all(same_value(one, other, tolerance) for one, other in zip(raw[1:], expected, strict=True))


def _same_items(raw: Any, expected: Mapping[Any, Any], tolerance: float) -> bool:
    if not isinstance(raw, list) or not raw or raw[0] != "dict" or len(raw) != len(expected) + 1:
        return False
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in raw[1:]):
        return False
    try:
        items = {_key(_scalar(key)): item for key, item in raw[1:]}
    except ValueError:  # an integer of thousands of digits, which no row's key is
        return False
    wanted = {_key(key): item for key, item in expected.items()}
    return items.keys() == wanted.keys() and all(same_value(items[key], wanted[key], tolerance) for key in wanted)


def _key(key: Any) -> str:
    """A key as JSON writes it."""
    if key is True or key is False or key is None:
        return {True: "true", False: "false", None: "null"}[key]
    return key if isinstance(key, str) else repr(key)


class _NoScalar:
    """Equal to nothing that can be expected."""


def _scalar(raw: Any) -> Any:
    if not isinstance(raw, list):
        return _NoScalar() if isinstance(raw, Mapping) else raw
    try:
        tag, text = raw
        if tag == "int":
            return int(text, 16)
        if tag == "float":
            return float.fromhex(text)
        if tag == "bytes":
            return bytes.fromhex(text)
    except (ValueError, TypeError, OverflowError):
        pass
    return _NoScalar()


def _same_scalar(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(value, _NoScalar):
        return False
    if not isinstance(expected, float) or isinstance(value, bool) or not isinstance(value, int | float):
        return (type(value) is type(expected) and value == expected) or _equal_numbers(value, expected)
    if not isfinite(expected) or (isinstance(value, float) and not isfinite(value)):
        return value == expected or (value != value and expected != expected)
    if isinstance(value, int) and value.bit_length() > LARGEST_FLOAT_BITS:
        return False
    return _near(Decimal(value), Decimal(expected), tolerance)


def _equal_numbers(value: Any, expected: Any) -> bool:
    """1 == True == 1.0, as in Python, and exactly: an int is never rounded to a float."""
    return isinstance(value, int | float) and isinstance(expected, int | float) and value == expected
