"""An ASGI app on a free port, run by uvicorn in a thread: for endpoints that a test plays."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn


@contextmanager
def in_thread(listening: socket.socket, app: Any) -> Iterator[None]:
    """Serve until the block ends."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off"))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="endpoint")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
