from formulas import names, read, show, simplify, value


def _value(text, **values):
    try:
        result = value(read(text), **values)
        return [result.numerator, result.denominator]
    except Exception as error:
        return type(error).__name__


def probe_values():
    texts = ("1 + 2 * 3", "8 - 3 - 2", "12 / 2 / 3", "2 ^ 3 ^ 2", "-2 ^ 2", "(-2) ^ 2", "2 * -3", "1 / 3", "2 ^ -1", "--4")
    return [_value(text) for text in texts]


def probe_names_have_values():
    return [_value("x ^ 2 - y", x=3, y=10), _value("x + y", x=1), _value("a1 * 2", a1="1/2"), sorted(names(read("a*b+a/2")))]


def probe_bad_formulas():
    return [_value(text) for text in ("", "1 +", "(1", "1)", "1 2", "* 3", "1 $ 2", "()", "x y")]


def probe_bad_numbers():
    return [_value(text) for text in ("1 / 0", "0 ^ -1", "2 ^ (1 / 2)", "2 ^ 1001", "2 ^ (0 - 1001)")]


def probe_simplify():
    texts = ("x + 0", "0 + x", "x - 0", "0 - x", "1 * x", "x / 1", "x ^ 1", "x * 0", "2 + 3", "2 - 3", "6 / 3", "x * (3 - 2)")
    return [show(simplify(read(text))) for text in texts]


def probe_simplify_inside():
    return [show(simplify(read(text))) for text in ("(x + 0) * (2 * 3)", "a - (b - 0)", "(0 + a) ^ (1 * 1)", "1 / x")]


def probe_show():
    texts = (
        "(a + b) * c", "a + (b + c)", "a - (b - c)", "a - b - c", "a / (b / c)", "a / (b * c)", "a * (b / c)",
        "(a ^ b) ^ c", "a ^ b ^ c", "(a * b) ^ 2", "a ^ (b + 1)", "-a", "a - (b + c)", "((a))",
    )
    return [show(read(text)) for text in texts]


def probe_shown_and_read_again():
    texts = ("1 - (2 - 3)", "2 ^ 3 ^ 2", "(2 ^ 3) ^ 2", "12 / (6 / 2)", "-(1 + 2) * 3", "5 - -3")
    return [_value(show(read(text))) == _value(text) for text in texts]
