"""Figures as `/metrics` shows them: how they are made, kept from growing without end, and written as text.

Names end in their unit (`_seconds`, `_bytes`), counters in `_total`. A label's values are bounded here, whatever an
environment, a bridged server or a policy makes up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

#: Upper bounds of a latency's buckets: what a call costs here begins at some ten microseconds, a limit ends it.
SECONDS = (0.0001, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"


class Figures:
    """A registry, and the instruments in it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

    def counter(self, name: str, about: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, about, tuple(labels), registry=self.registry)

    def histogram(self, name: str, about: str, labels: Iterable[str] = ()) -> Histogram:
        return Histogram(name, about, tuple(labels), buckets=SECONDS, registry=self.registry)

    def live(self, families: Callable[[], Iterable[Metric]]) -> None:
        """Figures that are read when somebody asks, at no cost before."""
        self.registry.register(_Live(families))


class _Live(Collector):
    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families()


class Bounded:
    """Values of a label that others make up: the first `most` are told apart in each scope, all later ones are
    "other". `known` ones always are themselves, so that a flood of inventions does not hide them."""

    def __init__(self, most: int, known: Collection[str] = ()) -> None:
        self.most, self._known = most, frozenset(known)
        self._seen: dict[str, set[str]] = {}

    def label(self, scope: str, value: str) -> str:
        if value in self._known:
            return value
        seen = self._seen.setdefault(scope, set())
        if value not in seen:
            if len(seen) >= self.most:
                return OTHER
            seen.add(value)
        return value


def text_of(*registries: Collector) -> bytes:
    """The Prometheus text of everything in some registries, which share no name."""
    return b"".join(generate_latest(_Told(registry)) for registry in registries)


class _Told(Collector):
    """Without the times at which series were created, which would be as many lines again and tell an operator
    nothing that the process's start does not."""

    def __init__(self, registry: Collector) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family
