"""A whole gymwire app on a free port inside the test's own process, so that a test can look at its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from gymwire.servers import Environment
from gymwire.servers.app import App
from gymwire.servers.auth import Guard
from gymwire.servers.catalog import Served
from gymwire.servers.sessions import Limits, Sessions

from tests.serving import free_port


@dataclass(frozen=True, slots=True)
class Live:
    url: str
    sessions: Sessions
    served: dict[str, Served]


@asynccontextmanager
async def live(
    *environments: type[Environment],
    limits: Limits | None = None,
    tokens: tuple[str, ...] = (),
    sessions: Sessions | None = None,
    **options: Any,
) -> AsyncIterator[Live]:
    """Serve the environments until the block ends."""
    served = [Served(environment) for environment in environments]
    sessions = sessions or Sessions(limits or Limits())
    app: Any = App(served, sessions, guard=Guard(tokens), **options)
    port = free_port()
    config = uvicorn.Config(
        app, port=port, http="httptools", ws="websockets-sansio", log_config=None, timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        assert not task.done(), "the server did not start"
        await asyncio.sleep(0.005)
    try:
        yield Live(f"http://127.0.0.1:{port}", sessions, {item.name: item for item in served})
    finally:
        server.should_exit = True
        await task
