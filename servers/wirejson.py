"""JSON as it crosses the wires: exact both ways, where the fastest codec rounds or refuses.

Integers beyond 64 bits stay integers; NaN or Infinity in log-probabilities come back as they were sent.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

import orjson
from pydantic_core import from_json

#: Where numbers begin that trainers send along and read back, and that no grader looks at (NeMo Gym's output items).
_TOKEN_ARRAY = re.compile(rb'"(?:prompt_token_ids|generation_token_ids|generation_log_probs)"\s*:\s*(?=\[)')
_NAME = re.compile(rb'"sealed ([0-9a-f]{16}) (\d+)"')


def loads(text: bytes | str) -> Any:
    """Decode. Raises ValueError; a lone surrogate, which UTF-8 cannot carry, is no JSON here."""
    return from_json(text)


def dumps(value: Any, like: bytes = b"") -> bytes:
    """Encode; `like` is the text the value was decoded from, if it was."""
    if b"NaN" not in like and b"Infinity" not in like:
        try:
            return orjson.dumps(value)
        except TypeError:
            pass  # an integer beyond 64 bits
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Sealed:
    """Token ids and log-probabilities of one transcript, carried through undecoded: most of what a long one costs.

    `close` puts a name in the place of each array, `open` the arrays back in the place of the names. A quotation mark
    inside a JSON string is escaped, so nothing that a message says can look like such an array.
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)  # so that a message cannot hold a name that is ours
        self._arrays: list[bytes] = []

    def close(self, text: bytes) -> bytes:
        parts: list[bytes] = []
        done = 0
        for match in _TOKEN_ARRAY.finditer(text):
            start, end = match.end(), text.find(b"]", match.end()) + 1
            if any(text.find(other, start + 1, end) >= 0 for other in (b'"', b"[", b"{")):
                continue  # no array of numbers
            name = f'"sealed {self._mark} {len(self._arrays)}"'.encode()
            self._arrays.append(text[start:end])
            parts += (text[done:start], name)
            done = end
        return b"".join([*parts, text[done:]]) if parts else text

    def open(self, text: bytes) -> bytes:
        return _NAME.sub(self._array, text) if self._arrays else text

    def _array(self, name: re.Match[bytes]) -> bytes:
        return self._arrays[int(name[2])] if name[1] == self._mark.encode() else name[0]
