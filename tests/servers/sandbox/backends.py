"""A pool of either backend, for tests that hold on both."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from gymwire.servers.sandbox.bubblewrap import INSTALL
from gymwire.servers.sandbox.jobs import Limits
from gymwire.servers.sandbox.line import Line
from gymwire.servers.sandbox.pool import Pool
from gymwire.servers.sandbox.select import CEILING, Choice, launcher_of
from gymwire.servers.sandbox.slots import Launcher

from tests.docker_engine import required

#: For parametrising by backend: what needs a container engine is marked so.
BACKENDS = (pytest.param("docker", marks=pytest.mark.docker), "bubblewrap")


def launcher(backend: str, ceiling: Limits = CEILING) -> Launcher:
    """The backend as `serve` makes it; skips the test, or fails it, where this machine cannot have it."""
    if backend == "docker":
        return launcher_of(Choice(backend, image=required()), ceiling)
    if shutil.which("bwrap") is None:
        (pytest.fail if os.environ.get("REQUIRE_DOCKER") == "1" else pytest.skip)(INSTALL)
    return launcher_of(Choice(backend), ceiling)


async def busy(pool: Pool, but: Line | None = None) -> Line:
    """The worker that a job has just been given to; `but` one that has just been killed."""
    async with asyncio.timeout(20):
        while not (taken := pool.lines - {but, *pool.idle}):
            await asyncio.sleep(0.005)
    return next(iter(taken))


@asynccontextmanager
async def pool_of(backend: str, slots: int = 2, ceiling: Limits = CEILING) -> AsyncIterator[Pool]:
    pool = Pool(launcher(backend, ceiling), slots)
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()
