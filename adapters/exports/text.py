"""Texts that several exports write."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ...servers.rows import json_line
from ...servers.types import Json


def rows_text(rows: Iterable[Json]) -> str:
    """Rows as a JSONL file has them."""
    return b"".join(json_line(row) for row in rows).decode()


def quoted(text: str) -> str:
    """A text inside the double quotes of TOML, YAML or Python."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
