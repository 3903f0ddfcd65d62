"""A row's task data does not leave by the words of an exception: neither in a reason on a wire, nor in the log.

What an environment raises may quote what it works on (`KeyError: 'the answer'`). Values of the row are taken out of
such texts wherever they stand as they are; what an environment computed from them is its author's to keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

VEIL = "[task data]"
#: Shorter values say little, and are parts of many words.
SHORTEST, SHORTEST_NUMBER = 4, 3
#: Values looked for; the rest of a huge row is not.
MOST_VALUES = 5_000


def veiled(text: str, data: Mapping[str, Any]) -> str:
    """The text without the values of the data, however Python or JSON had escaped them."""
    if not data:
        return text
    for value in sorted(_forms(data), key=len, reverse=True):
        if value in text:
            text = text.replace(value, VEIL)
    return text


def _forms(data: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for count, value in enumerate(_leaves(data)):
        if count >= MOST_VALUES:
            break
        if isinstance(value, str):
            if len(value) >= SHORTEST:
                found |= {value, repr(value)[1:-1]}
        elif len(shown := repr(value)) >= SHORTEST_NUMBER:
            found.add(shown)
    return found


def _leaves(value: Any) -> Iterator[str | int | float]:
    """Strings and numbers in order; without recursion, as a row may be deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend(reversed(list(item.values())))
        elif isinstance(item, list | tuple):
            waiting.extend(reversed(item))
        elif isinstance(item, str | int | float) and not isinstance(item, bool):
            yield item
