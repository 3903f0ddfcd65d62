"""Runs of equal signs: aaab is 3ab. Digits and backslashes of the text itself are written after a backslash."""


def shorten(text):
    out, index = [], 0
    while index < len(text):
        sign, end = text[index], index
        while end < len(text) and text[end] == sign:
            end += 1
        count = end - index
        out.append((str(count) if count > 1 else "") + ("\\" if sign.isdigit() or sign == "\\" else "") + sign)
        index = end
    return "".join(out)


def expand(text):
    """The text again; raises ValueError for a number or a backslash without a sign after it."""
    out, count, index = [], "", 0
    while index < len(text):
        sign = text[index]
        if sign.isdigit():
            count += sign
            index += 1
            continue
        if sign == "\\":
            index += 1
            if index == len(text):
                raise ValueError("nothing after the backslash")
            sign = text[index]
        out.append(sign * int(count or 1))
        count = ""
        index += 1
    if count:
        raise ValueError("nothing after the number")
    return "".join(out)
