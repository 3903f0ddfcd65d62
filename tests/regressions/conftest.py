"""The table of cases: each test asks for its own by `case("X01")`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.wires import WIRES

TABLE = Path(__file__).with_name("cases.jsonl")


@pytest.fixture(scope="session")
def cases() -> dict[str, Any]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    return {made["id"]: made for made in map(json.loads, lines)}


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return request.param
