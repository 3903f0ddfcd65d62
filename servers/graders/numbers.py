r"""Numbers exactly: text such as `1,234.5`, `-\frac{3}{4}`, `2^{99}`, `\binom{10}{3}` or `1/2004!` as a rational.

Nothing is rounded, so 1/2^99 is not 1/2^98. What would pass `MAX_BITS` is not evaluated at all (`TooLarge`), nor is a
text that costs more than `BUDGET_BITS` of arithmetic in sum: a power tower ends here within a millisecond.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial, lgamma, log

#: Of a numerator or denominator: about 19,700 digits. 5,900! fits.
MAX_BITS = 1 << 16
BUDGET_BITS = 1 << 20
MAX_CHARACTERS = 2_000
MAX_DEPTH = 40

_NUMBER = re.compile(r"(?:[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+")
#: `1 000 000`, and a mixed number as plain text, `1 1/2`.
_GROUPS = re.compile(r"[0-9]{1,3}(?:(?: |\\,)[0-9]{3})+(?![0-9])(?! ?/)")
_PLAIN_MIXED = re.compile(r"([0-9]+) ([0-9]+) ?/ ?([0-9]+)(?![0-9])")
_REPEATING = re.compile(r"([0-9]*)\.([0-9]*)\\(?:overline|bar)\{?([0-9]+)\}?")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,6})(?![A-Za-z0-9])")
_SPACE = re.compile(r"(?:\s|\\[,;:! ]|\\quad|~)+")
_TIMES = re.compile(r"\*(?!\*)|\\cdot(?![A-Za-z])|\\times(?![A-Za-z])|[\u00d7\u00b7]")
_OVER = re.compile(r"/|\\div(?![A-Za-z])|[\u00f7\u2044]")
_FRAC = re.compile(r"\\[dtc]?frac(?![A-Za-z])")
_SIGN = re.compile(r"[+\-\u2212]")
_POWER = re.compile(r"\^|\*\*")
_FACTORIAL, _DOUBLE = re.compile("!"), re.compile("!!")
_PERCENT = re.compile(r"\\?%")
_OPENING, _BRACE, _DIGIT = re.compile(r"[({]"), re.compile(r"\{"), re.compile("[0-9]")
_BINOM = re.compile(r"\\[dt]?binom(?![A-Za-z])")


class NotNumeric(Exception):
    """The text is no number that this reader knows."""


class TooLarge(Exception):
    """The number is not evaluated: it would take too much memory or time."""


@dataclass(frozen=True, slots=True)
class Number:
    """A rational, and how it was written."""

    value: Fraction
    is_decimal: bool = False  # written with decimals, so perhaps rounded
    is_percent: bool = False


def read(text: str) -> Number:
    """The number that a text is. Raises `NotNumeric` or `TooLarge`."""
    if len(text) > MAX_CHARACTERS:
        raise NotNumeric
    return _Reader(text).number()


def equal(expected: Number, given: Number, tolerance: float) -> bool:
    """Exactly equal; or, where neither is whole and one was written with decimals, within a relative tolerance.

    A percentage is both the share and the figure before the sign: 50% is 0.5, and 50 where one asks for per cent.
    """
    pairs = [(expected.value, given.value)]
    if expected.is_percent != given.is_percent:
        scale = (100, 1) if expected.is_percent else (1, 100)
        pairs.append((expected.value * scale[0], given.value * scale[1]))
    may_be_rounded = expected.is_decimal or given.is_decimal
    return any(a == b or (may_be_rounded and _close(a, b, tolerance)) for a, b in pairs)


def _close(a: Fraction, b: Fraction, tolerance: float) -> bool:
    if a.denominator == 1 or b.denominator == 1:
        return False
    return abs(a - b) <= Fraction(tolerance) * abs(a)


class _Reader:
    """A recursive descent over the text; every value that it makes is paid from one budget."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth, self.budget = text, 0, 0, BUDGET_BITS
        self.is_decimal = False

    def number(self) -> Number:
        value = self.sum()
        percent = self.take(_PERCENT) is not None
        self.skip()
        if self.at < len(self.text):
            raise NotNumeric
        return Number(value / 100 if percent else value, self.is_decimal, percent)

    # ---- grammar

    def sum(self) -> Fraction:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge
        value = self.product()
        while sign := self.take(_SIGN):
            other = self.product()
            value = self.paid(value, other, value - other if sign != "+" else value + other)
        self.depth -= 1
        return value

    def product(self) -> Fraction:
        value = self.signed()
        while True:
            if self.take(_TIMES):
                value = self.times(value, self.signed())
            elif self.take(_OVER):
                value = self.over(value, self.signed())
            elif self.peek() in ("(", "{") or self.looking_at(_BINOM) or self.looking_at(_FRAC):
                value = self.times(value, self.power())
            else:
                return value

    def signed(self) -> Fraction:
        negative = False
        while sign := self.take(_SIGN):
            negative ^= sign != "+"
        value = self.power()
        return -value if negative else value

    def power(self) -> Fraction:
        base = self.postfix()
        if not self.take(_POWER):
            return base
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge
        exponent = self.signed()
        self.depth -= 1
        return self.raised(base, exponent)

    def postfix(self) -> Fraction:
        value = self.primary()
        if self.take(_DOUBLE):
            raise NotNumeric
        if self.take(_FACTORIAL):
            return self.factorial(value)
        return value

    def primary(self) -> Fraction:
        self.skip()
        if self.take(_FRAC):
            return self.over(self.group(), self.group())
        if self.take(_BINOM):
            return self.binomial(self.group(), self.group())
        if opening := self.take(_OPENING):
            value = self.sum()
            self.expect(")" if opening == "(" else "}")
            return value
        return self.literal()

    def group(self) -> Fraction:
        r"""What a LaTeX command takes: braces, or one digit (`\frac12`)."""
        if self.take(_BRACE):
            value = self.sum()
            self.expect("}")
            return value
        digit = self.take(_DIGIT)
        if digit is None:
            raise NotNumeric
        return Fraction(int(digit))

    def literal(self) -> Fraction:
        if (special := self.special()) is not None:
            return self.paid(special, special, special)
        written = self.take(_NUMBER)
        if written is None:
            raise NotNumeric
        value = Fraction(written.replace("{,}", "").replace(",", ""))
        if "." in written:
            self.is_decimal = True
        exponent = _EXPONENT.match(self.text, self.at)
        if exponent:
            self.at = exponent.end()
            value = self.times(value, self.raised(Fraction(10), Fraction(int(exponent[1]))))
        elif "." not in written and self.looking_at(_FRAC):
            value = self.mixed(value)
        return self.paid(value, value, value)

    def special(self) -> Fraction | None:
        """Forms that a plain number is only the beginning of."""
        self.skip()
        if found := _REPEATING.match(self.text, self.at):
            self.at = found.end()
            whole, fixed, period = found[1] or "0", found[2], found[3]
            nines = (10 ** len(period) - 1) * 10 ** len(fixed)
            return Fraction(whole + "." + fixed + "0") + Fraction(int(period), nines)
        if (found := _PLAIN_MIXED.match(self.text, self.at)) and int(found[3]):
            self.at = found.end()
            return int(found[1]) + Fraction(int(found[2]), int(found[3]))
        if found := _GROUPS.match(self.text, self.at):
            self.at = found.end()
            return Fraction(re.sub("[^0-9]", "", found[0]))
        return None

    def mixed(self, whole: Fraction) -> Fraction:
        r"""A mixed number, `1\frac{1}{2}`: the fraction adds."""
        self.take(_FRAC)
        return whole + self.over(self.group(), self.group())

    # ---- arithmetic within the budget

    def paid(self, a: Fraction, b: Fraction, result: Fraction) -> Fraction:
        self.budget -= bits(a) + bits(b)
        if self.budget < 0 or bits(result) > MAX_BITS:
            raise TooLarge
        return result

    def times(self, a: Fraction, b: Fraction) -> Fraction:
        if bits(a) + bits(b) > 2 * MAX_BITS:
            raise TooLarge
        return self.paid(a, b, a * b)

    def over(self, a: Fraction, b: Fraction) -> Fraction:
        if b == 0:
            raise NotNumeric
        return self.times(a, 1 / b)

    def raised(self, base: Fraction, exponent: Fraction) -> Fraction:
        if exponent.denominator != 1:
            raise NotNumeric
        if base == 0 and exponent <= 0:
            raise NotNumeric
        if abs(base) in (0, 1):
            return base ** (int(exponent) % 2 or 2) if base else base
        if bits(base) * abs(exponent) > MAX_BITS + bits(base):
            raise TooLarge
        return self.paid(base, exponent, base ** int(exponent))

    def factorial(self, value: Fraction) -> Fraction:
        if value.denominator != 1 or value < 0:
            raise NotNumeric
        if value > MAX_BITS or lgamma(int(value) + 1) / log(2) > MAX_BITS:
            raise TooLarge
        return self.paid(value, value, Fraction(factorial(int(value))))

    def binomial(self, n: Fraction, k: Fraction) -> Fraction:
        if n.denominator != 1 or k.denominator != 1 or n < 0:
            raise NotNumeric
        if not 0 <= k <= n:
            return Fraction(0)
        k = min(k, n - k)
        if bits(n) * k > MAX_BITS:
            raise TooLarge
        return self.paid(n, k, Fraction(comb(int(n), int(k))))

    # ---- text

    def skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()

    def peek(self) -> str:
        self.skip()
        return self.text[self.at : self.at + 1]

    def looking_at(self, pattern: re.Pattern[str]) -> bool:
        self.skip()
        return pattern.match(self.text, self.at) is not None

    def take(self, pattern: re.Pattern[str]) -> str | None:
        self.skip()
        found = pattern.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        return found[0]

    def expect(self, closing: str) -> None:
        if self.peek() != closing:
            raise NotNumeric
        self.at += 1


def bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
