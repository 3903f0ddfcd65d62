"""Figures that a process has once, whatever it serves: its resources, its sandbox and its graders."""

from __future__ import annotations

import asyncio
import inspect
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

from prometheus_client import PROCESS_COLLECTOR
from prometheus_client.core import GaugeMetricFamily, Metric

from .figures import Bounded, Figures, text_of
from .sandbox import watching
from .sandbox.jobs import SandboxUnavailable, Verdict
from .sandbox.watching import ABANDONED, LOST, RECYCLED, Watcher
from .version import package_version

PROCESS = Figures()
#: Graders of one process that are told apart: only its settings name them, never a row.
MAX_GRADERS = 100


def process_text() -> bytes:
    """The figures of this process alone, as a sandbox service shows them."""
    return text_of(PROCESS.registry)


# ---- the process


class Connections:
    """Who knows how many connections are open: the servers of this process, while they run."""

    def __init__(self) -> None:
        self._counts: list[Callable[[], int]] = []

    def watch(self, count: Callable[[], int]) -> Callable[[], None]:
        """Count in; answers what takes it out again."""
        self._counts.append(count)
        return lambda: self._counts.remove(count)

    def __len__(self) -> int:
        return sum(count() for count in self._counts)


CONNECTIONS = Connections()


def _process() -> Iterator[Metric]:
    yield from PROCESS_COLLECTOR.collect()
    build = GaugeMetricFamily("gymwire_build_info", "Always 1; which gymwire runs here.", labels=("version", "python"))
    build.add_metric((package_version(), platform.python_version()), 1)
    yield build
    yield GaugeMetricFamily("gymwire_open_connections", "Open client connections.", value=len(CONNECTIONS))


PROCESS.live(_process)


# ---- the sandbox


class SandboxFigures(Watcher):
    """What the pools of this process count. A pool is watched for as long as it lives."""

    def __init__(self, figures: Figures) -> None:
        self.jobs = figures.counter(
            "gymwire_sandbox_jobs", "Jobs in the sandbox by verdict; abandoned: the caller left.", ("verdict",)
        )
        self.unavailable = figures.counter(
            "gymwire_sandbox_unavailable", "Jobs that our side could not run: sessions failed by it."
        )
        self.replaced = figures.counter(
            "gymwire_sandbox_slots_replaced", "Slots replaced: lost, or recycled after long service.", ("why",)
        )
        self.queue_seconds = figures.histogram(
            "gymwire_sandbox_queue_seconds", "Seconds that a job waited for its slot."
        )
        self.job_seconds = figures.histogram("gymwire_sandbox_job_seconds", "Seconds of a job in its slot.")
        for verdict in (*Verdict, ABANDONED):
            self.jobs.labels(verdict)
        for why in (LOST, RECYCLED):
            self.replaced.labels(why)
        self._pools: WeakSet[Any] = WeakSet()
        figures.live(self._slots)

    def waited(self, seconds: float) -> None:
        self.queue_seconds.observe(seconds)

    def replaced_slot(self, why: str) -> None:
        self.replaced.labels(why).inc()

    def ended(self, verdict: str, started: float) -> None:
        self.jobs.labels(verdict).inc()
        self.job_seconds.observe(time.perf_counter() - started)

    @contextmanager
    def counting_unavailable(self) -> Iterator[None]:
        try:
            yield
        except SandboxUnavailable:
            self.unavailable.inc()
            raise

    def watch(self, pool: Any) -> None:
        """`pool` is a `sandbox.pool.Pool`."""
        self._pools.add(pool)

    def _slots(self) -> Iterator[Metric]:
        pools = [pool for pool in self._pools if not pool.closed]
        ready, alive = sum(len(pool.idle) for pool in pools), sum(len(pool.lines) for pool in pools)
        family = GaugeMetricFamily(
            "gymwire_sandbox_slots", "Slots of the sandbox: ready, busy, or missing.", labels=("state",)
        )
        family.add_metric(("ready",), ready)
        family.add_metric(("busy",), alive - ready)
        family.add_metric(("missing",), max(sum(pool.slots for pool in pools) - alive, 0))
        yield family
        waiting = sum(pool.waiting for pool in pools)
        yield GaugeMetricFamily("gymwire_sandbox_jobs_queued", "Jobs that wait for a slot.", value=waiting)


SANDBOX = watching.watcher = SandboxFigures(PROCESS)


# ---- graders


class GraderFigures:
    """How long graders take, and how often they break."""

    def __init__(self, figures: Figures) -> None:
        self._seconds = figures.histogram("gymwire_grader_seconds", "Seconds of one grading.", ("grader",))
        self._failures = figures.counter("gymwire_grader_failures", "Gradings that our side broke.", ("grader",))
        self._names = Bounded(MAX_GRADERS)

    def timed(self, grader: str, call: Callable[[], Any]) -> Any:
        """Call a grader. An awaitable that it returns counts when `follow` sees it done."""
        started = time.perf_counter()
        try:
            score = call()
        except BaseException:
            self._failed(grader)
            raise
        if not inspect.isawaitable(score):
            self._took(grader, started)
        return score

    def follow(self, grader: str, score: asyncio.Future[Any]) -> None:
        """Count a score that is awaited; one whose caller gives up is none of the grader's failures."""
        started = time.perf_counter()

        def done(score: asyncio.Future[Any]) -> None:
            if score.cancelled():
                return
            if score.exception() is None:
                self._took(grader, started)
            else:
                self._failed(grader)

        score.add_done_callback(done)

    def _took(self, grader: str, started: float) -> None:
        self._seconds.labels(self._names.label("", grader)).observe(time.perf_counter() - started)

    def _failed(self, grader: str) -> None:
        self._failures.labels(self._names.label("", grader)).inc()


GRADERS = GraderFigures(PROCESS)
