"""The server of the peers that score episodes: two environments that work, and one whose own code breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving import serving


@pytest.fixture(scope="session")
def breaking_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with battery, ledger, and a ledger that breaks in every second row."""
    log = tmp_path_factory.mktemp("breaking") / "server.log"
    with serving(log, "battery", "ledger", "tests.peers.broken:BrokenLedger") as running:
        yield running.url
