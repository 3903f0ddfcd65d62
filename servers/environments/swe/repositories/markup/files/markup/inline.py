"""Marks inside a line. Text in backquotes is left as it is, apart from escaping."""

import re

CODE = re.compile(r"`([^`]+)`")
STRONG = re.compile(r"\*([^*\s](?:[^*]*[^*\s])?)\*")
SOFT = re.compile(r"(?<!\w)_([^_\s](?:[^_]*[^_\s])?)_(?!\w)")


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def inline(text):
    pieces = CODE.split(text)
    for index, piece in enumerate(pieces):
        safe = escape(piece)
        pieces[index] = f"<code>{safe}</code>" if index % 2 else _marked(safe)
    return "".join(pieces)


def _marked(text):
    text = STRONG.sub(r"<strong>\1</strong>", text)
    return SOFT.sub(r"<em>\1</em>", text)
