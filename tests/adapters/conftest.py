"""A server with the troublesome environment, and a connection to it on each wire and in-process."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import Connection, connect

from tests.adapters.trouble import Trouble
from tests.serving import free_port, serving

TROUBLE = "tests.adapters.trouble:Trouble"
WIRES = ("local", "nemo-gym", "openenv", "mcp")
Connecting = Callable[..., AbstractAsyncContextManager[Connection]]


@pytest.fixture(scope="session")
def trouble_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("trouble") / "server.log", TROUBLE) as running:
        yield running.url


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """The URL of a strange shop (`strange_shop.py`) over HTTP, open."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).with_name("strange_shop.py")), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not _is_open(port):
            assert time.monotonic() < deadline, "the strange shop does not open"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def connecting(wire: str, trouble_url: str) -> Connecting:
    """`async with connecting() as env`: the troublesome environment on this test's wire."""

    @asynccontextmanager
    async def make(**options: Any) -> AsyncIterator[Connection]:
        target = Trouble if wire == "local" else trouble_url
        async with connect(target, wire=wire, **options) as connection:
            yield connection

    return make
