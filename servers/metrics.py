"""Prometheus figures of one process. Children are bound once per environment and wire: a call costs no lookup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from .answers import Code
    from .session import Session
    from .sessions import Sessions
    from .types import Failure

#: Failure kinds told apart; an environment may make them up as it goes.
MAX_KINDS = 100
SECONDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class _PerWire:
    """The children of one environment on one wire."""

    def __init__(self, metrics: Metrics, environment: str, wire: str) -> None:
        labels = (environment, wire)
        self.seeded = metrics.seeds.labels(*labels)
        self.call_seconds = metrics.call_seconds.labels(*labels)
        self.verify_seconds = metrics.verify_seconds.labels(*labels)
        self.reclaimed = metrics.reclaims.labels(*labels)
        self.codes: dict[Code, Counter] = {}


class Metrics:
    """Everything `/metrics` shows."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        where = ("environment", "wire")
        self.seeds = self._counter("gymwire_seeds", "Sessions seeded.", where)
        self.calls = self._counter("gymwire_calls", "Tool calls by what they answered.", (*where, "code"))
        self.failures = self._counter(
            "gymwire_failures", "Sessions that our side broke.", ("environment", "kind", "stage", "tool")
        )
        self.reclaims = self._counter("gymwire_reclaimed", "Sessions reclaimed by a limit.", where)
        self.call_seconds = self._histogram("gymwire_call_seconds", "Tool call latency.", where)
        self.verify_seconds = self._histogram("gymwire_verify_seconds", "Verify latency.", where)
        self.queue_seconds = self._histogram("gymwire_queue_seconds", "Wait of a seed for its slot.", ())
        self._kinds: set[str] = set()
        self._bound: dict[tuple[str, str], _PerWire] = {}

    def watch(self, sessions: Sessions) -> None:
        self.registry.register(_Live(sessions))

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def seeded(self, session: Session) -> None:
        self._of(session).seeded.inc()

    def called(self, session: Session, code: Code, seconds: float) -> None:
        bound = self._of(session)
        counter = bound.codes.get(code)
        if counter is None:
            counter = bound.codes[code] = self.calls.labels(session.served.name, session.wire, code.value)
        counter.inc()
        bound.call_seconds.observe(seconds)

    def verified(self, session: Session, seconds: float) -> None:
        self._of(session).verify_seconds.observe(seconds)

    def reclaimed(self, session: Session) -> None:
        self._of(session).reclaimed.inc()

    def queued(self, seconds: float) -> None:
        self.queue_seconds.observe(seconds)

    def failed(self, environment: str, failure: Failure) -> None:
        kind = failure.kind
        if kind not in self._kinds and len(self._kinds) >= MAX_KINDS:
            kind = "other"
        self._kinds.add(kind)
        self.failures.labels(environment, kind, failure.stage, failure.tool).inc()

    def _of(self, session: Session) -> _PerWire:
        key = (session.served.name, session.wire)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = _PerWire(self, *key)
        return bound

    def _counter(self, name: str, about: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, labels: tuple[str, ...]) -> Histogram:
        return Histogram(name, about, labels, buckets=SECONDS, registry=self.registry)


class _Live(Collector):
    """Figures read at scrape time."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def collect(self) -> Iterator[Metric]:
        states: dict[tuple[str, str], int] = {}
        for session in self._sessions.store:
            key = (session.served.name, session.state.value)
            states[key] = states.get(key, 0) + 1
        family = GaugeMetricFamily("gymwire_sessions", "Sessions by state.", labels=("environment", "state"))
        for key, count in sorted(states.items()):
            family.add_metric(key, count)
        yield family
        slots = self._sessions.slots
        yield GaugeMetricFamily("gymwire_slots_free", "Free session slots.", value=slots.free)
        yield GaugeMetricFamily("gymwire_seeds_queued", "Seeds waiting for a slot.", value=slots.queued)
