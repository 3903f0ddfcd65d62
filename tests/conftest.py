"""Fixtures for everybody: a server with the bundled environments, one process for the whole run."""

from __future__ import annotations

import logging
import signal
from collections.abc import Generator, Iterator

import pytest

from tests.sandboxes import can_run
from tests.serving import serving
from tests.worlds import BUNDLED, PLACES


def pytest_configure() -> None:
    """A shell's background ignores Ctrl-C, and so would every command that tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a gymwire server that serves the bundled environments."""
    log = tmp_path_factory.mktemp("server") / "server.log"
    with serving(log, *_bundled()) as running:
        yield running.url


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with the bundled environments and those that only tests need."""
    log = tmp_path_factory.mktemp("worlds") / "server.log"
    with serving(log, *_bundled(), *PLACES) as running:
        yield running.url


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """A command that a test runs in this process sets the log up; the next test's lines would go where it sent them."""
    root, mcp = logging.getLogger(), logging.getLogger("mcp")
    handlers, level, mcp_level = root.handlers[:], root.level, mcp.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    mcp.setLevel(mcp_level)
    logging.captureWarnings(False)


def _bundled() -> list[str]:
    return [name for name, environment in BUNDLED.items() if can_run(environment)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Half surrogate pairs that a test logs on purpose cannot be sent by the parallel runner's workers."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report
