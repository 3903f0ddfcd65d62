"""What can be done with a tree."""

from fractions import Fraction

BINDS = {"+": 1, "-": 1, "*": 2, "/": 2, "^": 3}


def value(tree, **values):
    """The formula's exact value; raises KeyError for a name without a value, ZeroDivisionError."""
    if isinstance(tree, int):
        return Fraction(tree)
    if isinstance(tree, str):
        return Fraction(values[tree])
    sign, left, right = tree
    first, second = value(left, **values), value(right, **values)
    if sign == "+":
        return first + second
    if sign == "-":
        return first - second
    if sign == "*":
        return first * second
    if sign == "/":
        return first / second
    if second.denominator != 1 or abs(second) > 1000:
        raise ValueError("an exponent is a whole number of at most 1000")
    return first ** int(second)


def names(tree):
    if isinstance(tree, str):
        return {tree}
    return set() if isinstance(tree, int) else names(tree[1]) | names(tree[2])


def simplify(tree):
    """Without additions of 0, multiplications by 1 or 0, and with whole numbers brought together."""
    if not isinstance(tree, tuple):
        return tree
    sign, left, right = tree[0], simplify(tree[1]), simplify(tree[2])
    if isinstance(left, int) and isinstance(right, int) and sign in "+-*":
        result = {"+": left + right, "-": left - right, "*": left * right}[sign]
        return result if result >= 0 else (sign, left, right)
    if sign == "*" and 0 in (left, right):
        return 0
    if (sign == "+" and left == 0) or (sign == "*" and left == 1):
        return right
    if (sign in "+-" and right == 0) or (sign in "*/^" and right == 1):
        return left
    return sign, left, right


def show(tree):
    """The formula with as few brackets as can be."""
    if not isinstance(tree, tuple):
        return str(tree)
    sign, left, right = tree
    before, after = show(left), show(right)
    if _bind(left) < BINDS[sign] or (sign == "^" and _bind(left) == 3):
        before = f"({before})"
    if _bind(right) < BINDS[sign] or (sign in "-/" and _bind(right) == BINDS[sign]):
        after = f"({after})"
    return f"{before} {sign} {after}"


def _bind(tree):
    return BINDS[tree[0]] if isinstance(tree, tuple) else 4
