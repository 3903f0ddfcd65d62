"""Roman numerals from 1 to 3999, in the usual form only: IV, not IIII."""

SIGNS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"), (9, "IX"),
    (5, "V"), (4, "IV"), (1, "I"),
)


def to_roman(number):
    if not 0 < number < 4000:
        raise ValueError("Roman numerals go from 1 to 3999")
    signs = []
    for value, sign in SIGNS:
        count, number = divmod(number, value)
        signs.append(sign * count)
    return "".join(signs)


def from_roman(text):
    """The number of a numeral in large or small letters; raises ValueError for unusual forms."""
    text = text.strip().upper()
    number, rest = 0, text
    for value, sign in SIGNS:
        while rest.startswith(sign):
            number, rest = number + value, rest[len(sign) :]
    if rest or not text or to_roman(number) != text:
        raise ValueError(f"not a Roman numeral: {text}")
    return number
