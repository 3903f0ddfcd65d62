"""Real rows of others, kept beside the clone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "shared" / "rows"

FILES = (
    "code_gen",
    "example_mcp_weather",
    "example_multi_step",
    "example_session_state_mgmt",
    "example_tool_call_multireward",
    "mcqa",
    "single_step_tool_use_with_argument_comparison",
    "workplace_assistant",
)


def row_file(name: str) -> Path:
    """The file, or a skip with the reason; a failure where REQUIRE_ROWS=1."""
    path = FOLDER / name
    if not path.exists():
        tell = pytest.fail if os.environ.get("REQUIRE_ROWS") == "1" else pytest.skip
        tell(f"real rows: {name} is not beside this clone")
    return path
