"""Texts that several exports write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from ...servers.rows import json_line
from ...servers.types import Json

#: What JSON leaves as it is, and TOML or YAML refuse or take for the end of a line.
_SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


def rows_text(rows: Iterable[Json]) -> str:
    """Rows as a JSONL file has them."""
    return b"".join(json_line(row) for row in rows).decode()


def quoted(text: str) -> str:
    """A text inside the double quotes of TOML, YAML or Python."""
    return literal(text)[1:-1]


def literal(value: object) -> str:
    """A value of JSON, as YAML reads it."""
    return _SPECIAL.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def uninterpolated(text: str) -> str:
    """A text in which OmegaConf finds no `${...}` to fill."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", text)
