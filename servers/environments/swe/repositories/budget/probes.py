from budget import parse, settle, show, split


def probe_split():
    asked = [(1000, [1, 1, 1]), (100, [1, 2]), (7, [5, 3, 2]), (0, [1]), (1, [0, 1]), (99, [0.5, 0.5]), (5, [1] * 6)]
    return [split(cents, weights) for cents, weights in asked]


def probe_negative_amounts():
    return [split(-100, [1, 1, 1]), split(-5, [2, 1])]


def probe_largest_remainder():
    return [split(10, [4, 3, 3, 3]), split(101, [10, 10, 12]), split(11, [1, 8, 8])]


def probe_zero_weights():
    return split(5, [0, 0])


def probe_negative_weights():
    return split(5, [3, -1])


def probe_parse():
    return [parse(text) for text in ("12.50", "12.5", "0.07", "1,234,567", "-3.20", "+4", " 9 ", "1234.5")]


def probe_bad_thousands():
    return parse("1,23.50")


def probe_three_places():
    return parse("1.234")


def probe_show():
    return [show(cents) for cents in (0, 5, 1250, -320, -5, 123_456_789)]


def probe_settle():
    return [
        settle({"ada": 300, "bo": 100}),
        settle({"ada": 0, "bo": 0}),
        settle({"cy": 900, "ada": 0, "bo": 0}),
        settle({"a": 1000, "b": 500, "c": 0, "d": 1}),
        settle({"a": 1, "b": 0, "c": 0}),
    ]
