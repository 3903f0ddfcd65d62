"""Pools of containers for a module's tests, and what every test of them needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from gymwire.servers.sandbox.docker import Docker, address
from gymwire.servers.sandbox.jobs import Limits
from gymwire.servers.sandbox.pool import Pool

from tests.docker_engine import required
from tests.servers.sandbox.relay import Relay

CEILING = Limits(wall_s=30.0, cpu_s=30.0, memory_mb=256, processes=32, output_bytes=1 << 20, files_bytes=8 << 20)


@pytest.fixture(scope="session")
def image() -> str:
    """An image with Python on an engine that answers."""
    return required()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(image: str) -> AsyncIterator[Pool]:
    """Two containers, shared by the module's tests: each must leave them clean for the next."""
    made = Pool(Docker(CEILING, image), slots=2)
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def relay(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Relay]:
    """The engine behind a socket of the test's own, which `DOCKER_HOST` names."""
    engine = address()
    if not engine.startswith("unix://"):
        pytest.skip("needs an engine at a Unix socket")
    made = Relay(tmp_path / "engine.sock", engine.removeprefix("unix://"))
    await made.start()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{made.path}")
    yield made
    await made.stop()
