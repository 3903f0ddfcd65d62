"""Pools of containers for a module's tests, and what every test of them needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from gymwire.servers.sandbox.docker import Docker
from gymwire.servers.sandbox.jobs import Limits
from gymwire.servers.sandbox.pool import Pool
from tests.docker_engine import required

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
