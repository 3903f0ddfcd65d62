"""The servers of a run: each started when first asked for, kept, and stopped at the end."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from ..peers.venvs import PeerMissing, peer_env, peer_python
from .processes import BenchError, Server, gymwire

SCRIPTS = Path(__file__).parent / "servers"
MakeServer = Callable[[], Server]


def echo() -> Server:
    return Server("echo", [sys.executable, str(SCRIPTS / "echo.py"), "{port}"])


def ours() -> Server:
    """Roomy, and quick to forget the sessions that an earlier load left open."""
    return gymwire("counter", "--max-sessions", "8192", "--idle-timeout", "20")


def nemo_gym() -> Server:
    return _peer("nemo-gym 0.7.0", "nemo_gym_0_7", "nemo_gym_counter.py")


def openenv_tools() -> Server:
    return _peer("openenv 0.10.0 MCPEnvironment", "openenv", "openenv_counter.py", "tools")


def openenv_plain() -> Server:
    return _peer("openenv 0.10.0 plain", "openenv", "openenv_counter.py", "plain")


def sdk() -> Server:
    return Server("mcp 2.3.0 MCPServer", [sys.executable, str(SCRIPTS / "mcp_counter.py"), "{port}"])


def _peer(name: str, venv: str, script: str, *arguments: str) -> Server:
    python = peer_python(venv)
    return Server(name, [str(python), str(SCRIPTS / script), "{port}", *arguments], peer_env(python))


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int
    timed_s: float
    crowds: tuple[int, ...]
    episodes: int
    live: int
    hold_s: float
    #: Of a rollout.
    sessions: int


FULL = Size(rounds=3, timed_s=0.7, crowds=(64, 256), episodes=10_000, live=10_000, hold_s=9.5, sessions=512)
QUICK = Size(rounds=1, timed_s=0.4, crowds=(64,), episodes=1_000, live=1_000, hold_s=4.0, sessions=128)


@dataclass(slots=True)
class Bench:
    """One run: its servers, its size, and where it says what it is doing."""

    size: Size
    console: Console
    _running: dict[MakeServer, Server] = field(default_factory=dict)
    _missing: dict[MakeServer, str] = field(default_factory=dict)

    def server(self, make: MakeServer) -> Server | None:
        """The running server, or None where its peer cannot be had, which is said once."""
        if make in self._missing:
            return None
        if make not in self._running:
            try:
                server = make()
                server.start()
                server.wait()
            except (PeerMissing, BenchError) as missing:
                self._missing[make] = str(missing)
                self.console.print(f"[yellow]left out: {make.__name__}: {missing}[/yellow]")
                return None
            self._running[make] = server
        return self._running[make]

    def required(self, make: MakeServer) -> Server:
        server = self.server(make)
        if server is None:
            raise BenchError(self._missing[make])
        return server

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{text}[/dim]")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._running.values():
            server.stop()
