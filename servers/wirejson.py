"""JSON as it crosses the wires: exact both ways, where the fastest codec rounds or refuses.

Integers beyond 64 bits stay integers; NaN or Infinity in log-probabilities come back as they were sent.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
from pydantic_core import from_json

_NOT_FINITE = re.compile(rb"NaN|Infinity")


def loads(text: bytes | str) -> Any:
    """Decode. Raises ValueError; a lone surrogate, which UTF-8 cannot carry, is no JSON here."""
    return from_json(text)


def dumps(value: Any, like: bytes = b"") -> bytes:
    """Encode; `like` is the text the value was decoded from, if it was."""
    if _NOT_FINITE.search(like) is None:
        try:
            return orjson.dumps(value)
        except TypeError:
            pass  # an integer beyond 64 bits
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
