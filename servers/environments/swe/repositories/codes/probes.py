from codes import decode, encode, expand, luhn, pack, shorten, unpack, with_check_digit


def _said(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__


def probe_shorten():
    return [shorten(text) for text in ("", "a", "aab", "a" * 12, "112", "a\\\\b", "abba", "  x")]


def probe_expand():
    return [_said(expand, text) for text in ("", "a", "2ab", "12a", "2\\12", "\\\\", "a3", "\\", "2\\", "0a", "2  x")]


def probe_runs_and_back():
    texts = ("aaab", "1112222", "\\\\3\\", "aa11bb", "9" * 30, "a1a11a111")
    return [expand(shorten(text)) == text for text in texts]


def probe_luhn():
    numbers = ("79927398713", "79927398710", "4539 1488 0343 6467", "0", "00", "18", "", "1a8", "4539-1488-0343-6467", "59")
    return [luhn(number) for number in numbers]


def probe_check_digits():
    return [with_check_digit(number) for number in ("7992739871", "1", "5", "0", "9999", "4539148803436")]


def probe_encode():
    asked = [("Hello, World!", "key"), ("abc", "a"), ("xyz", "b"), ("A b C", "bcd"), ("Zz", "Z"), ("äa", "b"), ("", "k")]
    return [encode(*pair) for pair in asked]


def probe_decode():
    return [decode(encode(text, "Lemon"), "lemon") for text in ("Attack at dawn!", "ZyX 123 ä")]


def probe_bad_keys():
    return [_said(encode, "abc", key) for key in ("", "a b", "k1", "ü")]


def probe_pack():
    asked = [([1, 2], [4, 4]), ([3, 0, 1], [2, 5, 1]), ([], []), ([16], [4]), ([15], [4]), ([-1], [4]), ([1], [1, 1]), ([0], [0])]
    return [_said(pack, *pair) for pair in asked]


def probe_unpack():
    asked = [(18, [4, 4]), (193, [2, 5, 1]), (0, []), (256, [4, 4]), (255, [8]), (1, [])]
    return [_said(unpack, *pair) for pair in asked]
