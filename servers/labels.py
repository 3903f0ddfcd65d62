"""Values of a row's task data: what only the grader may know, and which of them look like the answer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .types import Row

#: Field names that hold an answer, in the public data sets and trainers.
LABEL = re.compile(
    r"(^|_)(answers?|expected|targets?|solutions?|labels?|gold|golden|ground_?truth|reference|correct)(_|$)"
)
#: A shorter text stands in others by chance.
MIN_TEXT = 6


class Private(NamedTuple):
    """A value that only the grader may know, and where the row has it."""

    path: str
    name: str
    value: Any
    is_label: bool


def private_values(row: Row) -> list[Private]:
    """The scalars of the row's task data."""
    return list(_walk(row.data, "", "", False))


def _walk(value: Any, path: str, name: str, is_label: bool) -> Iterator[Private]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            where = f"{path}.{key}" if path else str(key)
            yield from _walk(inner, where, str(key), is_label or LABEL.search(str(key).lower()) is not None)
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{place}]", name, is_label)
    elif value is not None:
        yield Private(path, name, value, is_label)
