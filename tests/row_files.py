"""Real rows of others, kept beside the clone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "rows"


def row_file(name: str) -> Path:
    """The file, or a skip with the reason; a failure where REQUIRE_ROWS=1."""
    path = FOLDER / name
    if not path.exists():
        tell = pytest.fail if os.environ.get("REQUIRE_ROWS") == "1" else pytest.skip
        tell(f"real rows: {name} is not beside this clone")
    return path
