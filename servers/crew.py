"""Several server processes on one host behind one port: `gymwire serve --workers N`.

The sessions are in a store that the workers share: the one of `--store`, else a private redis-server that lives as
long as the crew. Where all environments are replayable, the kernel gives each connection to some worker; else a private
HAProxy sends each session to the worker that has it. Each of the processes is started again when it dies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

from . import gateway
from .merging import Merger
from .workers import Place, ask, bound, end_with_parent, tell

logger = logging.getLogger("gymwire.crew")
START_S, STOP_S, POLL_S = 60.0, 45.0, 0.05
#: So many deaths of one process within so many seconds, and starting it again is no help.
MAX_DEATHS, WITHIN_S = 5, 30.0


class CrewError(Exception):
    """The crew cannot work; one sentence."""

    def __init__(self, sentence: str, status: int = 1) -> None:
        super().__init__(sentence)
        self.status = status


def missing(pinned: Sequence[str], store: str) -> str:
    """What a crew for these not replayable environments lacks on this machine, as a sentence; else empty."""
    if not store and shutil.which("redis-server") is None:
        return "--workers above 1 needs a store that the workers share: install redis-server, or give --store URL"
    if pinned and shutil.which("haproxy") is None:
        names = ", ".join(pinned)
        return (
            f"--workers above 1: sessions of {names} stay with one worker, and only a gateway can send them there: "
            "install haproxy, or serve them with --workers 1"
        )
    return ""


class Crew:
    """The parent of the workers. `run` it; it ends by SIGTERM or SIGINT."""

    def __init__(self, count: int, host: str, port: int, *, store: str, pinned: bool) -> None:
        self.host, self.pinned = host, pinned
        self._reserved = None if pinned else bound(host, port, shared=True)  # not listening: it only holds the port
        self.port = self._reserved.getsockname()[1] if self._reserved else _free(host, port)
        self._folder = Path(tempfile.mkdtemp(prefix="gymwire-"))
        self._places = [Place(self._folder, f"w{number}", pinned) for number in range(count)]
        self._store = store or f"unix://{self._folder}/redis.sock"
        self._private_store = not store
        self._merger = Merger()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def run(self) -> None:
        """Until a signal. Raises `CrewError`."""
        try:
            asyncio.run(self._run())
        finally:
            if self._reserved is not None:
                self._reserved.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        figures = await tell(self._places[0].all_figures, self._figures)
        companions: list[asyncio.Task[None]] = []
        try:
            if self._private_store:
                companions.append(self._keep("redis-server", self._redis()))
                await self._until_there(self._folder / "redis.sock", companions)
            self._tasks = [self._keep(place.name, self._worker(), place) for place in self._places]
            for place in self._places:
                await self._until_there(place.figures, self._tasks)
            if self.pinned:
                companions.append(self._keep("haproxy", self._haproxy()))
            logger.info("%d workers at %s:%d", len(self._places), self.host, self.port)
            await self._until_stopped([*companions, *self._tasks])
        finally:
            await _ended(self._tasks)
            await _ended(companions)
            figures.close()

    # ---- what runs

    def _worker(self) -> list[str]:
        return [sys.executable, *sys.orig_argv[1:]]

    def _redis(self) -> list[str]:
        at = self._folder
        durable = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        local = ["--port", "0", "--unixsocket", f"{at}/redis.sock", "--unixsocketperm", "700", "--dir", str(at)]
        return ["redis-server", *local, *durable, "--maxmemory-policy", "noeviction", "--loglevel", "warning"]

    def _haproxy(self) -> list[str]:
        file = self._folder / "haproxy.cfg"
        servers = {place.name: f"unix@{place.requests}" for place in self._places}
        host = f"[{self.host}]" if ":" in self.host else self.host
        file.write_text(gateway.config(f"{host}:{self.port}", servers))
        return ["haproxy", "-db", "-q", "-f", str(file)]

    def _keep(self, name: str, command: Sequence[str], place: Place | None = None) -> asyncio.Task[None]:
        own = {} if place is None else {"GYMWIRE_WORKER": str(place), "GYMWIRE_STORE": self._store}
        return asyncio.create_task(self._kept(name, command, own, place), name=name)

    async def _kept(self, name: str, command: Sequence[str], own: Mapping[str, str], place: Place | None) -> None:
        """Run a process, again and again, until this is cancelled; then stop it. Raises `CrewError`."""
        deaths: list[float] = []
        while True:
            if place is not None:
                place.requests.unlink(missing_ok=True)
                place.figures.unlink(missing_ok=True)
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **own},
                stdout=None if place is not None else asyncio.subprocess.DEVNULL,  # their warnings are no operator's
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
            try:
                status = await process.wait()
            except asyncio.CancelledError:
                await _stopped(process)
                raise
            deaths = [*(at for at in deaths if at > monotonic() - WITHIN_S), monotonic()]
            if place is not None and status == 2:  # it has said why it cannot serve
                raise CrewError("", status)
            if len(deaths) >= MAX_DEATHS:
                raise CrewError(f"{name} ended {MAX_DEATHS} times within {WITHIN_S:g} s, with status {status}")
            logger.error("%s ended with status %s; it is started again", name, status)

    # ---- waiting

    async def _until_there(self, place: Path, tasks: Sequence[asyncio.Task[None]]) -> None:
        deadline = monotonic() + START_S
        while not place.exists() and not self._stopping.is_set():
            for task in tasks:
                if task.done():
                    task.result()
            if monotonic() > deadline:
                raise CrewError(f"{place.stem} was not ready within {START_S:g} s; what it said stands above")
            await asyncio.sleep(POLL_S)

    async def _until_stopped(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        stopping = asyncio.ensure_future(self._stopping.wait())
        done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        for task in done - {stopping}:
            task.result()

    async def _figures(self) -> bytes:
        asked = await asyncio.gather(*(ask(place.figures) for place in self._places), return_exceptions=True)
        texts = {place.name: text for place, text in zip(self._places, asked, strict=True) if isinstance(text, bytes)}
        return self._merger.text(texts)


def _free(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises OSError."""
    with bound(host, port) as probe:
        return probe.getsockname()[1]


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and kill it where it does not."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
