from roman import from_base, from_roman, to_base, to_roman, words


def _said(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__


def probe_to_roman():
    return [_said(to_roman, number) for number in (1, 4, 9, 14, 40, 49, 90, 400, 444, 944, 1990, 3999, 0, 4000, -1)]


def probe_from_roman():
    texts = ("i", "iv", "MCMXC", " xlix ", "MMMCMXCIX", "IIII", "IC", "VX", "", "MMMM", "A", "IXI", "XCX")
    return [_said(from_roman, text) for text in texts]


def probe_back_and_forth():
    return all(from_roman(to_roman(number)) == number for number in range(1, 4000))


def probe_to_base():
    return [to_base(*asked) for asked in ((0, 2), (10, 2), (255, 16), (-35, 36), (36, 36), (7, 8), (8, 8))]


def probe_from_base():
    asked = [("1010", 2), ("FF", 16), ("-z", 36), ("1_000", 10), ("12", 2), ("", 10), ("-", 10), ("0", 2), ("!", 10)]
    return [_said(from_base, *pair) for pair in asked]


def probe_bad_bases():
    return [_said(to_base, 5, 1), _said(to_base, 5, 37), _said(to_base, 5, 2)]


def probe_words():
    numbers = [0, 7, 13, 20, 21, 80, 100, 101, 120, 999, 1000, 1001, 1099, 1100, 12_345, 100_000, 999_999, 1_000_000, -1]
    return [_said(words, number) for number in numbers]
