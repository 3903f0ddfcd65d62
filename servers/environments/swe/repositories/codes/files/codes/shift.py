"""A cipher with a key word: each letter is moved by the key's letter, a by 0 to z by 25; other signs stay."""


def encode(text, key):
    return _move(text, key, 1)


def decode(text, key):
    return _move(text, key, -1)


def _move(text, key, direction):
    if not key.isascii() or not key.isalpha():
        raise ValueError("a key is letters from a to z")
    steps = [ord(letter) - ord("a") for letter in key.lower()]
    out, used = [], 0
    for sign in text:
        if sign.isascii() and sign.isalpha():
            base = ord("a") if sign.islower() else ord("A")
            sign = chr(base + (ord(sign) - base + direction * steps[used % len(steps)]) % 26)
            used += 1
        out.append(sign)
    return "".join(out)
