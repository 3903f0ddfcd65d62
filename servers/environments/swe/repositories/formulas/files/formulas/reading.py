"""From text to a tree: numbers, names, and (operator, left, right). A minus before a term is (0 - term)."""

import re

TOKEN = re.compile(r"\s*(?:(\d+)|([a-z]\w*)|(.))")
LEVELS = (("+", "-"), ("*", "/"))


class BadFormula(ValueError):
    pass


def read(text):
    tokens = [number or name or sign for number, name, sign in TOKEN.findall(text.strip())]
    tree, rest = _level(tokens, 0)
    if rest:
        raise BadFormula(f"unexpected: {rest[0]}")
    return tree


def _level(tokens, level):
    """Operators of one level bind from the left: 8 - 3 - 2 is 3."""
    if level == len(LEVELS):
        return _power(tokens)
    tree, rest = _level(tokens, level + 1)
    while rest and rest[0] in LEVELS[level]:
        right, after = _level(rest[1:], level + 1)
        tree, rest = (rest[0], tree, right), after
    return tree, rest


def _power(tokens):
    """Powers bind from the right: 2 ^ 3 ^ 2 is 2 ^ 9. A minus before binds less: -2 ^ 2 is -4."""
    if tokens and tokens[0] == "-":
        tree, rest = _power(tokens[1:])
        return ("-", 0, tree), rest
    tree, rest = _term(tokens)
    if rest and rest[0] == "^":
        right, rest = _power(rest[1:])
        tree = ("^", tree, right)
    return tree, rest


def _term(tokens):
    if not tokens:
        raise BadFormula("the formula ends too early")
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        tree, rest = _level(rest, 0)
        if not rest or rest[0] != ")":
            raise BadFormula("a bracket is not closed")
        return tree, rest[1:]
    if first.isdigit():
        return int(first), rest
    if first.isidentifier():
        return first, rest
    raise BadFormula(f"unexpected: {first}")
