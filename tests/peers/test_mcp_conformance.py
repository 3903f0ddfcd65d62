"""The protocol's own conformance suite against the fixture environment, in both revisions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .mcp_fixture import serving_fixture
from .processes import finished
from .venvs import node_tool, required

HERE = Path(__file__).parent
pytestmark = [pytest.mark.peers, pytest.mark.slow]
#: Scenarios that the suite runs without counting them, and that this server must pass all the same.
BESIDES = {
    "2026-07-28": ("json-schema-2020-12", "http-header-validation", "http-custom-header-server-validation"),
    "2025-11-25": ("json-schema-2020-12", "server-session-lifecycle"),
}


@pytest.fixture(scope="module")
def fixture_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving_fixture(tmp_path_factory.mktemp("fixture") / "log") as url:
        yield url


@pytest.mark.parametrize("revision", BESIDES)
def test_fails_only_what_a_tool_server_does_not_offer(fixture_url: str, revision: str, tmp_path: Path) -> None:
    command = [*required(node_tool, "conformance"), "server", "--url", fixture_url, "--requirements", revision]
    command += ["--expected-failures", str(HERE / f"mcp_expected_failures_{revision}.yml")]
    status, output = finished(command, tmp_path / "log", os.environ, tmp_path, timeout_s=110)
    assert status == 0, output[-6000:]
    for scenario in BESIDES[revision]:
        assert f"✓ {scenario}: " in output, output[-6000:]
