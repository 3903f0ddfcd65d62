"""One of several server processes behind one port (`crew` is their parent), and the figures of all of them.

A worker learns its place from its environment. Kernel or gateway, whichever balances, hands a scrape of `/metrics` to
any worker: it asks the parent, who asks all workers and merges. Both ask over local sockets: whoever connects is
written the text and the end.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PLACE = "GYMWIRE_WORKER"
PR_SET_PDEATHSIG = 1
ASK_S = 5.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker belongs: its name in the crew's folder, and whether a gateway sends it its requests."""

    folder: Path
    name: str
    behind_gateway: bool

    @classmethod
    def mine(cls) -> Place | None:
        """This process's place, taken from its environment; None where it is no worker."""
        text = os.environ.pop(PLACE, "")
        if not text:
            return None
        name, gateway, folder = text.split(":", 2)
        return cls(Path(folder), name, gateway == "gateway")

    def __str__(self) -> str:
        return f"{self.name}:{'gateway' if self.behind_gateway else 'kernel'}:{self.folder}"

    @property
    def requests(self) -> Path:
        """The socket on which a gateway finds the worker."""
        return self.folder / f"{self.name}.http"

    @property
    def figures(self) -> Path:
        """The socket on which the worker tells its own figures: it is there once the worker answers requests."""
        return self.folder / f"{self.name}.figures"

    @property
    def all_figures(self) -> Path:
        return self.folder / "all.figures"

    def bind(self, host: str, port: int) -> socket.socket:
        """What this worker listens on. Raises OSError."""
        if self.behind_gateway:
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(self.requests))
            return listening
        return bound(host, port, shared=True)


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A socket on an address, which other processes may have as well where it is `shared`. Raises OSError."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.set_inheritable(True)
    return listening


def end_with_parent() -> None:
    """Have this process ended when its parent is killed: nobody would stop it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


async def tell(place: Path, text: Callable[[], Awaitable[bytes]]) -> asyncio.Server:
    """Write a text to whoever connects to a local socket."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # who asked has left
            writer.write(await text())
            await writer.drain()
        writer.close()

    with suppress(FileNotFoundError):
        place.unlink()
    return await asyncio.start_unix_server(answer, str(place))


async def ask(place: Path) -> bytes:
    """What is told on a local socket. Raises OSError, also for silence."""
    async with asyncio.timeout(ASK_S):  # its TimeoutError is an OSError
        reader, writer = await asyncio.open_unix_connection(str(place))
        try:
            return await reader.read()
        finally:
            writer.close()
