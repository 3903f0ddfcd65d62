"""Names for files and links."""

import re
import unicodedata


def slug(text, longest=40):
    """Small letters, digits and single hyphens, cut at a word's end where that is possible."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    words = re.findall(r"[a-z0-9]+", plain.lower())
    name = ""
    for word in words:
        longer = f"{name}-{word}" if name else word
        if len(longer) > longest:
            break
        name = longer
    return name or "-".join(words)[:longest]


def unique(name, taken):
    """The name itself, or with the first number from 2 on that nobody has: notes, notes-2, notes-3."""
    if name not in taken:
        return name
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"
