"""Files of JSON lines that grow while they are read: what a dying process left unfinished is no line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as one line."""
    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # integers beyond 64 bits, half of a surrogate pair
        return json.dumps(record).encode() + b"\n"


def numbered(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a file that are JSON, with their numbers."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield number, json.loads(line)
            except ValueError:
                continue
