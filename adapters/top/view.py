"""What is shown of some servers, as data: sums over all of them, and a line for each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .scrape import Labels, Series, Server

LIVE = ("seeded", "active")
SHARES = (0.5, 0.95, 0.99)
Totals = Mapping[str, Mapping[Labels, float]]


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds within which half, 95 % and 99 % were done; None where nothing was. Read off buckets."""

    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServerLine:
    """One server. Rates are a second's, over the minute that was watched at most."""

    url: str
    problem: str
    note: str
    version: str
    uptime_s: float
    live: int
    slots: int
    slots_free: int
    queued: int
    episodes_per_s: float
    calls_per_s: float
    connections: int
    cpu: float  # processors in use
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class EnvironmentLine:
    environment: str
    states: Mapping[str, int]
    episodes_per_s: float
    calls_per_s: float
    masked: float | None  # share of the sessions that ended; None where none did
    call: Latency
    verify: Latency


@dataclass(frozen=True, slots=True)
class FailureLine:
    environment: str
    kind: str
    stage: str
    tool: str
    last_minute: int
    in_all: int


@dataclass(frozen=True, slots=True)
class Sandbox:
    slots: Mapping[str, int]
    queued: int
    verdicts: Mapping[str, int]
    unavailable: int
    replaced: int
    jobs_per_s: float
    wait: Latency
    job: Latency


@dataclass(frozen=True, slots=True)
class GraderLine:
    grader: str
    per_s: float
    seconds: Latency
    failures: int


@dataclass(frozen=True, slots=True)
class View:
    servers: Sequence[ServerLine]
    environments: Sequence[EnvironmentLine]
    failures: Sequence[FailureLine]
    graders: Sequence[GraderLine]
    queue: Latency
    sandbox: Sandbox | None = None
    #: Sums over all servers that answer.
    total: Mapping[str, float] = field(default_factory=dict)


def view(servers: Sequence[Server], now: float) -> View:
    """What there is to show; `now` is the time of day, in seconds."""
    lines = [_server(server, now) for server in servers]
    figures = _Figures(servers)
    sums = ("live", "queued", "episodes_per_s", "calls_per_s", "connections", "cpu", "memory_bytes")
    total = {name: math.fsum(getattr(line, name) for line in lines) for name in sums}
    total |= {name: figures.places(name) for name in ("slots", "slots_free")}
    return View(
        lines,
        [figures.environment(name) for name in figures.environments()],
        figures.failures(),
        [figures.grader(name) for name in figures.graders()],
        figures.latency("gymwire_queue_seconds"),
        figures.sandbox(),
        total,
    )


_BROKEN = "gymwire_grader_failures_total"


class _Figures:
    """Sums over servers: of values now, of what was counted in all, and within the window."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        answering = [server for server in servers if server.look is not None and not server.problem]
        chosen = {server.env for server in servers}
        self._env = chosen.pop() if len(chosen) == 1 else None
        self._looks = [server.look for server in answering if server.look is not None]
        self.now = _summed(look.values for look in self._looks)
        self.all = _summed(server.look.growing for server in servers if server.look is not None)
        self.lately = _summed(growth.series for server in servers for growth in server.growths)
        self.seconds = max((math.fsum(growth.seconds for growth in server.growths) for server in servers), default=0.0)

    def environments(self) -> list[str]:
        """Those that are served, also where nobody has played yet."""
        seen = {dict(labels)["environment"] for labels in self.all.get("gymwire_seeds_total", ())}
        found = seen.union(*(server.environments for server in self._servers))
        return sorted(found if self._env is None else found & {self._env})

    def places(self, name: str) -> int:
        """Slots of the servers' own, and those of their stores, each of which all of its replicas tell."""
        stores: dict[Labels, float] = {}
        for look in self._looks:
            for labels, value in look.values.get(f"gymwire_store_{name}", {}).items():
                stores[labels] = max(value, stores.get(labels, 0.0))
        return int(total(self.now, f"gymwire_{name}") + math.fsum(stores.values()))

    def graders(self) -> list[str]:
        names = ("gymwire_grader_seconds_count", _BROKEN)
        return sorted({dict(labels)["grader"] for name in names for labels in self.all.get(name, ())})

    def rate(self, name: str, **labels: str) -> float:
        return total(self.lately, name, **labels) / self.seconds if self.seconds else 0.0

    def latency(self, name: str, **labels: str) -> Latency:
        """Of what was watched; where nothing happened, of everything there was."""
        bounds = _matching(self.all, f"{name}_bucket", labels)
        for series in (self.lately, self.all):
            buckets = _buckets(bounds, series.get(f"{name}_bucket", {}))
            if buckets and buckets[-1][1] > 0:
                return Latency(*(quantile(buckets, share) for share in SHARES))
        return Latency()

    def environment(self, name: str) -> EnvironmentLine:
        of = {"environment": name}
        states = {dict(labels)["state"]: int(value) for labels, value in _matching(self.now, "gymwire_sessions", of)}
        endings: dict[str, float] = defaultdict(float)
        for labels, value in _matching(self.all, "gymwire_episodes_total", of):
            endings[dict(labels)["ending"]] += value
        ended = math.fsum(endings.values()) - endings["closed"]
        return EnvironmentLine(
            name,
            states,
            self.rate("gymwire_episodes_total", **of),
            self.rate("gymwire_calls_total", **of),
            endings["failed"] / ended if ended else None,
            self.latency("gymwire_call_seconds", **of),
            self.latency("gymwire_verify_seconds", **of),
        )

    def failures(self) -> list[FailureLine]:
        of = {} if self._env is None else {"environment": self._env}
        lately = dict(_matching(self.lately, "gymwire_failures_total", of))
        lines = []
        for labels, value in _matching(self.all, "gymwire_failures_total", of):
            said = {"environment": "", "kind": "", "stage": "", "tool": "", **dict(labels)}
            counts = int(lately.get(labels, 0)), int(value)
            lines.append(FailureLine(said["environment"], said["kind"], said["stage"], said["tool"], *counts))
        return sorted(lines, key=lambda line: (-line.last_minute, -line.in_all, line.environment, line.kind))

    def grader(self, name: str) -> GraderLine:
        seconds = self.latency("gymwire_grader_seconds", grader=name)
        per_s = self.rate("gymwire_grader_seconds_count", grader=name)
        return GraderLine(name, per_s, seconds, int(total(self.all, _BROKEN, grader=name)))

    def sandbox(self) -> Sandbox | None:
        """None where no server here has opened one."""
        slots = {
            dict(labels)["state"]: int(value) for labels, value in self.now.get("gymwire_sandbox_slots", {}).items()
        }
        verdicts = {
            dict(labels)["verdict"]: int(value)
            for labels, value in self.all.get("gymwire_sandbox_jobs_total", {}).items()
        }
        if not any(slots.values()) and not any(verdicts.values()):
            return None
        return Sandbox(
            slots,
            int(total(self.now, "gymwire_sandbox_jobs_queued")),
            verdicts,
            int(total(self.all, "gymwire_sandbox_unavailable_total")),
            int(total(self.all, "gymwire_sandbox_slots_replaced_total")),
            self.rate("gymwire_sandbox_jobs_total"),
            self.latency("gymwire_sandbox_queue_seconds"),
            self.latency("gymwire_sandbox_job_seconds"),
        )


def _server(server: Server, now: float) -> ServerLine:
    own = _Figures([server])
    values = own.now
    sessions = values.get("gymwire_sessions", {})
    live = math.fsum(value for labels, value in sessions.items() if dict(labels).get("state") in LIVE)
    builds = {dict(labels).get("version", "") for labels in values.get("gymwire_build_info", {})}
    born = min(values.get("process_start_time_seconds", {}).values(), default=now)
    return ServerLine(
        str(server.root).rstrip("/"),
        server.problem,
        "several processes answer here in turn: give each one's own URL" if server.several else "",
        " ".join(sorted(builds)),
        max(now - born, 0.0),
        int(live),
        own.places("slots"),
        own.places("slots_free"),
        int(total(values, "gymwire_seeds_queued")),
        own.rate("gymwire_episodes_total"),
        own.rate("gymwire_calls_total"),
        int(total(values, "gymwire_open_connections")),
        own.rate("process_cpu_seconds_total"),
        int(total(values, "process_resident_memory_bytes")),
    )


def _summed(several: Iterable[Series]) -> Totals:
    sums: dict[str, dict[Labels, float]] = {}
    for series in several:
        for name, values in series.items():
            own = sums.setdefault(name, {})
            for labels, value in values.items():
                own[labels] = own.get(labels, 0.0) + value
    return sums


def _matching(series: Totals, name: str, labels: Mapping[str, str]) -> list[tuple[Labels, float]]:
    wanted = labels.items()
    return [(found, value) for found, value in series.get(name, {}).items() if wanted <= found]


def total(series: Totals, name: str, **labels: str) -> float:
    return math.fsum(value for _, value in _matching(series, name, labels))


def _buckets(bounds: Sequence[tuple[Labels, float]], series: Mapping[Labels, float]) -> list[tuple[float, float]]:
    """Upper bounds and how many lie below, over all these series; one that did not grow is none of `series`."""
    counts: dict[float, float] = defaultdict(float)
    for labels, _ in bounds:
        counts[float(dict(labels)["le"])] += series.get(labels, 0.0)
    below, made = 0.0, []
    for bound in sorted(counts):
        below = max(below, counts[bound])
        made.append((bound, below))
    return made


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """As Prometheus' `histogram_quantile` reads it: even within a bucket, at the last bound beyond it."""
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank, low, under = share * buckets[-1][1], 0.0, 0.0
    for bound, below in buckets:
        if below >= rank:
            if math.isinf(bound):
                return low
            return low + (bound - low) * (rank - under) / (below - under) if below > under else bound
        low, under = bound, below
    return low
