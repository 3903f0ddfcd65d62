"""A server with the troublesome environment, and a connection to it on each wire and in-process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from gymwire.adapters import Connection, connect

from tests.adapters.trouble import Trouble
from tests.serving import serving

TROUBLE = "tests.adapters.trouble:Trouble"
WIRES = ("local", "nemo-gym", "openenv", "mcp")
Connecting = Callable[..., AbstractAsyncContextManager[Connection]]


@pytest.fixture(scope="session")
def trouble_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("trouble") / "server.log", TROUBLE) as running:
        yield running.url


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
