"""The servers under the soak, and what each holds: memory, files, threads, processes, slots, containers, keys."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from gymwire.servers.sandbox.docker import LABEL
from prometheus_client.parser import text_string_to_metric_families

from tests.serving import Running, serving

#: Below the load's sessions: so there is always a queue, and seeds that are given up in it.
SHARE_OF_SLOTS = 0.95
#: Clients that vanish are noticed after this.
IDLE_TIMEOUT_S = 30.0
SANDBOX_SLOTS = 2
BROKEN = "gymwire.adapters.demo_faults:"
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@dataclass(frozen=True, slots=True)
class Subject:
    """One server; `pids` are its process and its workers, if it has any. `redis` is the path of its store's socket."""

    name: str
    running: Running
    environments: tuple[str, ...]
    redis: Path | None = None

    @property
    def url(self) -> str:
        return self.running.url

    def pids(self) -> list[int]:
        """The server and its descendants that are Python servers of ours; programs of the sandbox are counted apart."""
        own = self.running.process.pid
        return [own, *(pid for pid in descendants(own) if "gymwire.servers.cli" in command_of(pid))]


@dataclass(frozen=True, slots=True)
class Holding:
    """What a server holds at one moment. `keys` are those of live sessions and their locks, without an end of their
    own; what is remembered for an hour about ended ones is not among them."""

    at: float
    episodes: int
    memory_mb: float
    files: int
    threads: int
    processes: int
    containers: int
    taken: int
    sessions: int
    keys: int


def holding(subject: Subject, episodes: int) -> Holding:
    pids = subject.pids()
    figures = scrape(subject.url)
    return Holding(
        at=time.monotonic(),
        episodes=episodes,
        memory_mb=sum(memory_mb(pid) for pid in pids),
        files=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        threads=sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in pids),
        processes=len(descendants(subject.running.process.pid)),
        containers=containers_of(pids),
        taken=sum(
            int(figures.get(f"{slots}", 0) - figures.get(f"{slots}_free", 0))
            for slots in ("gymwire_slots", "gymwire_store_slots")
        ),
        sessions=int(figures["live"]),
        keys=0 if subject.redis is None else keys_of(subject.redis),
    )


def scrape(url: str) -> dict[str, float]:
    """Figures of `/metrics` that have no label but a store's, and `live`: sessions that have not ended."""
    with _open(f"{url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    found = {"live": 0.0}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "gymwire_sessions" and sample.labels["state"] in ("seeded", "active"):
                found["live"] += sample.value
            elif sample.labels.keys() <= {"store"}:
                found[sample.name] = sample.value
    return found


def memory_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(pid)


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task")
    found: list[int] = []
    for task in children.iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except FileNotFoundError:  # a thread that has just ended
            continue
    return found + [one for child in found if Path(f"/proc/{child}").exists() for one in descendants(child)]


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except FileNotFoundError:
        return ""


def containers_of(pids: list[int]) -> int:
    """Containers of the sandbox that these processes started; 0 where there is no engine."""
    try:
        ask = ["docker", "ps", "--filter", f"label={LABEL}", "--format", "{{.Labels}}"]
        listed = subprocess.run(ask, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        return 0
    return sum(
        any(str(pid) in line.replace(":", " ").replace("=", " ").split() for pid in pids)
        for line in listed.stdout.splitlines()
    )


def keys_of(socket: Path) -> int:
    """Members of the sets that live sessions are in, and keys of sessions and their logs."""
    script = "local n = redis.call('ZCARD', 'gymwire:live') " + " ".join(
        f"n = n + #redis.call('KEYS', 'gymwire:{kind}:*')" for kind in "sl"
    )
    said = subprocess.run(
        ["redis-cli", "-s", str(socket), "EVAL", f"{script} return n", "0"], capture_output=True, text=True, check=True
    )
    return int(said.stdout)


@contextmanager
def subjects(folder: Path, sessions: int, sandbox: str, image: str) -> Iterator[list[Subject]]:
    """A server with its sessions in memory, and one with them in Redis where redis-server is installed.

    `sessions` are what each will be asked for at once.
    """
    limits = ["--max-sessions", str(int(sessions * SHARE_OF_SLOTS)), "--idle-timeout", f"{IDLE_TIMEOUT_S:g}"]
    plain = ["battery", "ledger", f"{BROKEN}battery", f"{BROKEN}ledger"]
    programs = ["math_python", "code_tests"] if sandbox else []
    options = ["--sandbox", sandbox, "--sandbox-slots", str(SANDBOX_SLOTS)] if sandbox else []
    options += ["--sandbox-image", image] if image else []
    with ExitStack() as stack:
        first = stack.enter_context(serving(folder / "memory.log", *plain, *programs, *limits, *options))
        made = [Subject("memory", first, ("battery", "ledger", *programs))]
        if (socket := stack.enter_context(redis(folder))) is not None:
            shared = [*plain, *limits, "--store", f"unix://{socket}"]
            second = stack.enter_context(serving(folder / "redis.log", *shared))
            made.append(Subject("redis", second, ("battery", "ledger"), socket))
        yield made


@contextmanager
def redis(folder: Path) -> Iterator[Path | None]:
    """The socket of a Redis of our own."""
    socket = folder / "redis.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--dir", str(folder), "--save", ""]
    try:
        process = subprocess.Popen(
            [*words, "--appendonly", "yes", "--appendfsync", "always"], stdout=subprocess.DEVNULL
        )
    except FileNotFoundError:
        yield None
        return
    try:
        deadline = time.monotonic() + 10
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start")
            time.sleep(0.02)
        yield socket
    finally:
        process.terminate()
        process.wait()
