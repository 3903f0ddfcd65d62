"""A server with few slots and a short patience, watched from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.watching import Watched, watching
from tests.serving import Running, serving
from tests.wires import WIRES
from tests.worlds import PLACES

SLOTS = 64


@contextmanager
def _small(log: Path, idle_s: int) -> Iterator[Running]:
    with serving(log, *PLACES, "counter", "--max-sessions", str(SLOTS), "--idle-timeout", str(idle_s)) as running:
        yield running
        text = running.log_text()
        assert "Exception in ASGI" not in text and "Task exception was never retrieved" not in text, text[-4000:]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with _small(tmp_path_factory.mktemp("small") / "server.log", idle_s=2) as running:
        yield running


@pytest.fixture
async def crowded(tmp_path: Path) -> AsyncIterator[Watched]:
    """A small server for a crowd of clients in one process, on a slow machine: between a seed and a call is a while."""
    with _small(tmp_path / "server.log", idle_s=10) as running:
        async with watching(running) as made:
            yield made


@pytest.fixture
async def watched(small: Running) -> AsyncIterator[Watched]:
    """The small server; every slot must be free again after the test."""
    async with watching(small) as made:
        await made.until_free(SLOTS)
        yield made
        await made.until_free(SLOTS)


@pytest.fixture(params=WIRES[1:])
def wire(request: pytest.FixtureRequest) -> str:
    """The wires between two processes."""
    return request.param
