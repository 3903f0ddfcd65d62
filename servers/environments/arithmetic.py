"""Arithmetic for `ledger`'s calculator: exact, without eval, and bounded in time and memory.

    sum     = product (("+" | "-") product)*
    product = sign (("*" | "/") sign)*
    sign    = ("+" | "-") sign | power
    power   = atom ("^" sign)?            "**" is "^"; the exponent is a whole number from -20 to 20
    atom    = number | "(" sum ")"        a decimal mark is a point or a comma

Everything outside these lines is a `BadExpression`, whose message the policy may read.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_CHARACTERS = 200
MAX_DEPTH = 20
MAX_BITS = 512
MAX_EXPONENT = 20
SHOWN_DECIMALS = 6

_TOKEN = re.compile(r"\s*(?:(\d+(?:[.,]\d+)?)|(\*\*|[-+*/^()]))", re.ASCII)
_ALIASES = str.maketrans({"×": "*", "·": "*", "÷": "/", ":": "/", "−": "-", "–": "-"})  # noqa: RUF001


class BadExpression(ValueError):
    """What was sent is no arithmetic, or goes past a limit."""


def calculate(expression: str) -> Fraction:
    """The exact value of an expression."""
    if len(expression) > MAX_CHARACTERS:
        raise BadExpression(f"an expression has at most {MAX_CHARACTERS} characters")
    return _Parser(_tokens(expression.translate(_ALIASES))).parse()


def as_decimal(value: Fraction) -> str:
    """In full where it has at most six decimals, else rounded and marked."""
    scaled = value * 10**SHOWN_DECIMALS
    rounded = round(scaled)
    sign, digits = "-" if rounded < 0 else "", str(abs(rounded)).zfill(SHOWN_DECIMALS + 1)
    decimals = digits[-SHOWN_DECIMALS:].rstrip("0")
    text = sign + digits[:-SHOWN_DECIMALS] + (f".{decimals}" if decimals else "")
    return text if rounded == scaled else f"about {text}"


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise BadExpression(f"{text[position]!r} at character {position + 1} is not arithmetic")
        tokens.append(match[1] or match[2])
        position = match.end()
    return tokens


class _Parser:
    """Reads tokens by recursive descent; the depth is limited, and so is every value on the way."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0
        self._depth = 0

    def parse(self) -> Fraction:
        value = self._sum()
        if self._position < len(self._tokens):
            raise BadExpression(f"{self._next()!r} stands where an operator or the end was expected")
        return value

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _sum(self) -> Fraction:
        value = self._product()
        while self._peek() in ("+", "-"):
            value = _bounded(value + self._product() if self._next() == "+" else value - self._product())
        return value

    def _product(self) -> Fraction:
        value = self._sign()
        while self._peek() in ("*", "/"):
            value = _bounded(value * self._sign() if self._next() == "*" else _quotient(value, self._sign()))
        return value

    def _sign(self) -> Fraction:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise BadExpression(f"brackets and signs may be nested {MAX_DEPTH} deep")
        if self._peek() in ("+", "-"):
            value = self._sign() if self._next() == "+" else -self._sign()
        else:
            value = self._power()
        self._depth -= 1
        return value

    def _power(self) -> Fraction:
        base = self._atom()
        if self._peek() not in ("^", "**"):
            return base
        self._next()
        return _power(base, self._sign())

    def _atom(self) -> Fraction:
        token = self._next()
        if token == "(":
            value = self._sum()
            if self._next() != ")":
                raise BadExpression("a closing bracket is missing")
            return value
        if not token or not token[0].isdigit():
            raise BadExpression(f"a number was expected, not {token!r}" if token else "the expression is incomplete")
        return _bounded(Fraction(token.replace(",", ".")))


def _quotient(value: Fraction, divisor: Fraction) -> Fraction:
    if divisor == 0:
        raise BadExpression("division by zero")
    return value / divisor


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise BadExpression(f"an exponent is a whole number from -{MAX_EXPONENT} to {MAX_EXPONENT}")
    if base == 0 and exponent < 0:
        raise BadExpression("division by zero")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise BadExpression("a value on the way is too large or has too many decimals")
    return value
