"""Replicas of a server with one store behind a real gateway, and what happens to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from gymwire.servers import gateway

from tests.servers.shared.conftest import RedisServer
from tests.serving import ROOT, START_TIMEOUT_S, STOP_TIMEOUT_S, free_port

_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def need(*programs: str) -> None:
    """Skip a test, or fail it where everything must be there, for want of a program."""
    for program in programs:
        if shutil.which(program) is None:
            if os.environ.get("REQUIRE_DOCKER") == "1":
                pytest.fail(f"{program} is not installed", pytrace=False)
            pytest.skip(f"{program} is not installed")


class Replica:
    """One server process at a port of its own, to be killed, held up and started again."""

    def __init__(self, log: Path, store: str, environments: Sequence[str]) -> None:
        self.log, self.port = log, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        serve = [sys.executable, "-m", "gymwire.servers.cli", "serve", *environments]
        self._words = [*serve, "--store", store, "--gateway", "bodies", "--port", str(self.port)]
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT
            )

    def start(self) -> None:
        self.begin()
        until_it_answers(self.url)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end(self) -> None:
        self.send(signal.SIGTERM)
        assert self.process is not None
        self.process.wait(STOP_TIMEOUT_S)


def until_it_answers(url: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with _open(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            assert time.monotonic() < deadline, f"{url} does not answer: {error}"
            time.sleep(0.05)


@contextmanager
def replicas(folder: Path, store: str, count: int, *environments: str) -> Iterator[list[Replica]]:
    made = [Replica(folder / f"replica{number}.log", store, environments) for number in range(count)]
    try:
        for replica in made:
            replica.begin()
        for replica in made:
            until_it_answers(replica.url)
        yield made
    finally:
        for replica in made:
            replica.kill()


@contextmanager
def balanced(folder: Path, servers: Sequence[Replica]) -> Iterator[str]:
    """The URL of a gateway in front of the servers."""
    port, path = free_port(), folder / "haproxy.cfg"
    named = {f"r{number}": f"127.0.0.1:{server.port}" for number, server in enumerate(servers)}
    path.write_text(gateway.config(f"127.0.0.1:{port}", named))
    with (folder / "haproxy.log").open("wb") as output:
        process = subprocess.Popen(["haproxy", "-db", "-f", str(path)], stdout=output, stderr=subprocess.STDOUT)
    try:
        until_it_answers(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


class Chaos:
    """Kills, holds up and restarts replicas at random, all but one at most; restarts the store once."""

    def __init__(self, servers: Sequence[Replica], redis: RedisServer, seed: int) -> None:
        self.servers, self.redis, self.rng = list(servers), redis, Random(seed)
        self.well = set(range(len(servers)))
        self.done: Counter[str] = Counter()
        self._over = asyncio.Event()
        self._first = iter(("killed", "held up"))

    def over(self) -> None:
        self._over.set()

    async def run(self, store_after_s: float) -> None:
        """Until `over`; whatever was begun is ended then."""
        async with asyncio.TaskGroup() as group:
            for _ in range(len(self.servers) - 1):
                group.create_task(self._trouble())
            group.create_task(self._restart_store(store_after_s))

    async def _pause(self, seconds: float) -> bool:
        """Whether it is over by then."""
        try:
            await asyncio.wait_for(self._over.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _trouble(self) -> None:
        while not await self._pause(self.rng.uniform(0.2, 1.5)):
            number = self.rng.choice(sorted(self.well))
            self.well.discard(number)
            kind = next(self._first, None) or self.rng.choice(("killed", "killed", "held up", "held up", "restarted"))
            await self._do(kind, self.servers[number])
            self.done[kind] += 1
            self.well.add(number)

    async def _do(self, kind: str, server: Replica) -> None:
        if kind == "held up":
            server.send(signal.SIGSTOP)
            brief = self.rng.random() < 0.3  # a lock ends after 4 s: then others go on
            await self._pause(self.rng.uniform(0.5, 2.0) if brief else self.rng.uniform(4.5, 7.0))
            server.send(signal.SIGCONT)
            return
        await asyncio.to_thread(server.kill if kind == "killed" else server.end)
        if not await self._pause(self.rng.uniform(0.0, 1.5)):
            await asyncio.to_thread(server.start)

    async def _restart_store(self, after_s: float) -> None:
        if await self._pause(after_s):
            return
        await asyncio.to_thread(self.redis.kill)
        await self._pause(self.rng.uniform(0.2, 1.0))
        await asyncio.to_thread(self.redis.start)
        self.done["store restarted"] += 1
