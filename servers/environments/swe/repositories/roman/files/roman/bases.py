"""Digits of any base from 2 to 36."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(number, base):
    if not 2 <= base <= 36:
        raise ValueError("a base is from 2 to 36")
    sign, number = ("-" if number < 0 else ""), abs(number)
    digits = []
    while True:
        number, digit = divmod(number, base)
        digits.append(DIGITS[digit])
        if not number:
            return sign + "".join(reversed(digits))


def from_base(text, base):
    """The number of a text of digits, in large or small letters, underscores between digits allowed."""
    text = text.strip().lower()
    negative = text.startswith("-")
    digits = text[negative:].replace("_", "")
    if not digits:
        raise ValueError("no digits")
    number = 0
    for digit in digits:
        value = DIGITS.find(digit)
        if not 0 <= value < base:
            raise ValueError(f"{digit} is no digit of base {base}")
        number = number * base + value
    return -number if negative else number
