"""What stands after the question mark."""

HEX = "0123456789ABCDEFabcdef"
SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"


def read_query(text):
    """Names and lists of values, in order: "a=1&b=&a=2" is {"a": ["1", "2"], "b": [""]}."""
    values = {}
    for pair in text.removeprefix("?").split("&"):
        if pair:
            name, _, value = pair.partition("=")
            values.setdefault(_decoded(name), []).append(_decoded(value))
    return values


def write_query(values):
    """A text that `read_query` reads back; names by alphabet, values in their order."""
    return "&".join(f"{_encoded(name)}={_encoded(value)}" for name in sorted(values) for value in values[name])


def _decoded(text):
    """Plus signs are blanks, %41 is A; what is no such code stays as it is."""
    out, index = bytearray(), 0
    data = text.replace("+", " ")
    while index < len(data):
        code = data[index + 1 : index + 3]
        if data[index] == "%" and len(code) == 2 and all(sign in HEX for sign in code):
            out.append(int(code, 16))
            index += 3
        else:
            out += data[index].encode()
            index += 1
    return out.decode("utf-8", "replace")


def _encoded(text):
    return "".join(chr(byte) if chr(byte) in SAFE else f"%{byte:02X}" for byte in text.encode())
