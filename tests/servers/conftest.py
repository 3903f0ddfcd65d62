"""An engine per test; afterwards every slot must be free."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.servers.engine import Engine


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    made = Engine(max_sessions=64, queue_timeout_s=5.0)
    yield made
    await made.drain(0)
    assert made.all_free, "a slot leaked"
