"""What a session engine counts, and the text of `/metrics`. Children are bound once per environment and wire, so a
call costs no lookup by label; what can be read at a scrape is read then.

Several workers behind one port: `merging.Merger` makes one text of theirs.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from .figures import Bounded, Figures, text_of
from .process_figures import PROCESS
from .types import Ending, FailureKind, SessionState

if TYPE_CHECKING:
    from .answers import Code
    from .context import About
    from .session import Session
    from .sessions import Sessions
    from .types import Failure

#: Failure kinds told apart in one environment, beside the public ones; it may make them up as it goes.
MAX_KINDS = 50
#: Tools told apart in one environment's failures; a bridged server may list any number.
MAX_TOOLS = 100
WHERE = ("environment", "wire")
#: What every replica of a store tells alike.
STORE_SLOTS = "gymwire_store_slots", "gymwire_store_slots_free"
#: What a drain does with a live session.
FAILED, HANDED_OVER = "failed", "handed_over"
#: What a session ends as: with an outcome, or closed without one.
ENDINGS = (*(ending.value for ending in Ending), SessionState.CLOSED.value)


class _PerWire:
    """The children of one environment on one wire."""

    def __init__(self, metrics: Metrics, environment: str, wire: str) -> None:
        labels = (environment, wire)
        self.seeded = metrics.seeds.labels(*labels)
        self.seed_seconds = metrics.seed_seconds.labels(*labels)
        self.call_seconds = metrics.call_seconds.labels(*labels)
        self.verify_seconds = metrics.verify_seconds.labels(*labels)
        self.reclaimed = metrics.reclaims.labels(*labels)
        self.codes: dict[Code, Counter] = {}
        #: From 0 on: a rate does not see the first of a series that begins with it.
        self.endings = {ending: metrics.episodes.labels(*labels, ending) for ending in ENDINGS}


class Metrics:
    """Everything that one session engine counts."""

    def __init__(self) -> None:
        own = self._own = Figures()
        self.registry = own.registry
        self.seeds = own.counter("gymwire_seeds", "Sessions seeded.", WHERE)
        self.seeds_refused = own.counter(
            "gymwire_seeds_refused", "Seeds refused, by the code of the refusal.", (*WHERE, "code")
        )
        self.calls = own.counter("gymwire_calls", "Tool calls by the code of their answer.", (*WHERE, "code"))
        self.episodes = own.counter(
            "gymwire_episodes",
            "Sessions that ended: finished and cut ones are scored, failed ones masked, closed ones neither.",
            (*WHERE, "ending"),
        )
        self.failures = own.counter(
            "gymwire_failures", "Sessions and seeds that our side broke.", ("environment", "kind", "stage", "tool")
        )
        self.reclaims = own.counter(
            "gymwire_reclaimed", "Live sessions that passed the idle or the lifetime limit.", WHERE
        )
        self.drains = own.counter(
            "gymwire_drained", "Live sessions at a shutdown: failed, or handed_over to other replicas.", ("fate",)
        )
        self.requests_refused = own.counter(
            "gymwire_requests_refused", "Requests refused before any session saw them.", ("code",)
        )
        self.seed_seconds = own.histogram(
            "gymwire_seed_seconds", "Seconds of a seed, without its wait for a slot.", WHERE
        )
        self.call_seconds = own.histogram(
            "gymwire_call_seconds", "Seconds of a tool call, its turn in the session included.", WHERE
        )
        self.verify_seconds = own.histogram("gymwire_verify_seconds", "Seconds of a verify that scored.", WHERE)
        self.queue_seconds = own.histogram("gymwire_queue_seconds", "Seconds that a seed waited for its slot.")
        for fate in (FAILED, HANDED_OVER):
            self.drains.labels(fate)
        self._kinds, self._tools = Bounded(MAX_KINDS, FailureKind), Bounded(MAX_TOOLS)
        self._bound: dict[tuple[str, str], _PerWire] = {}

    def watch(self, sessions: Sessions) -> None:
        self._own.live(lambda: _live(sessions, {environment for environment, _ in self._bound}))

    def text(self) -> bytes:
        """The engine's figures and the process's."""
        return text_of(self.registry, PROCESS.registry)

    # ---- counting

    def seeded(self, session: Session, seconds: float) -> None:
        bound = self._of(session)
        bound.seeded.inc()
        bound.seed_seconds.observe(seconds)

    def refused(self, environment: str, wire: str, code: Code) -> None:
        self.seeds_refused.labels(environment, wire, code.value).inc()

    def called(self, session: Session, code: Code, seconds: float) -> None:
        bound = self._of(session)
        counter = bound.codes.get(code)
        if counter is None:
            counter = bound.codes[code] = self.calls.labels(session.served.name, session.wire, code.value)
        counter.inc()
        bound.call_seconds.observe(seconds)

    def verified(self, session: Session, seconds: float) -> None:
        self._of(session).verify_seconds.observe(seconds)

    def ended(self, session: Session) -> None:
        """A session needs its slot no longer."""
        ending = session.outcome.ending.value if session.outcome is not None else session.state.value
        self._of(session).endings[ending].inc()

    def reclaimed(self, session: Session) -> None:
        self._of(session).reclaimed.inc()

    def lapsed(self, about: About) -> None:
        """A session passed a limit that this process does not hold: it is reclaimed, and ended so."""
        bound = self._at(about.environment, about.wire)
        bound.reclaimed.inc()
        bound.endings[Ending.FAILED].inc()

    def drained(self, fate: str, sessions: int = 1) -> None:
        """`fate` is FAILED or HANDED_OVER."""
        self.drains.labels(fate).inc(sessions)

    def queued(self, seconds: float) -> None:
        self.queue_seconds.observe(seconds)

    def turned_away(self, code: Code) -> None:
        """The door refused a request."""
        self.requests_refused.labels(code.value).inc()

    def failed(self, environment: str, failure: Failure) -> None:
        kind = self._kinds.label(environment, failure.kind)
        tool = failure.tool and self._tools.label(environment, failure.tool)
        self.failures.labels(environment, kind, failure.stage, tool).inc()

    def _of(self, session: Session) -> _PerWire:
        return self._at(session.served.name, session.wire)

    def _at(self, environment: str, wire: str) -> _PerWire:
        key = (environment, wire)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = _PerWire(self, *key)
        return bound


def _live(sessions: Sessions, environments: Collection[str]) -> Iterator[Metric]:
    """Figures read at a scrape; no live session in an environment is a 0."""
    states = Tally({(name, state): 0 for name in environments for state in ("seeded", "active")})
    calls = 0
    for session in sessions.here():
        states[session.served.name, session.state.value] += not sessions.is_elsewhere(session)
        calls += session.in_flight
    family = GaugeMetricFamily("gymwire_sessions", "Sessions by state.", labels=("environment", "state"))
    for key, count in sorted(states.items()):
        family.add_metric(key, count)
    yield family
    yield GaugeMetricFamily("gymwire_requests_in_flight", "Calls, verifies and closes that sessions serve.", calls)
    yield GaugeMetricFamily("gymwire_seeds_queued", "Seeds waiting for a slot.", sessions.queued)
    yield from _slots(sessions)


def _slots(sessions: Sessions) -> Iterator[Metric]:
    size, free = sessions.slots_of()
    yield GaugeMetricFamily("gymwire_slots", "Session slots of this process, free or taken.", size)
    yield GaugeMetricFamily("gymwire_slots_free", "Free session slots of this process.", free)
    shared = sessions.store_slots()
    for name, about, value in (
        (STORE_SLOTS[0], "Session slots of the store, free or taken: of all its replicas together.", "size"),
        (STORE_SLOTS[1], "Free session slots of the store: of all its replicas together.", "free"),
    ):
        family = GaugeMetricFamily(name, about, labels=("store",))
        if shared is not None:
            family.add_metric((shared.store,), getattr(shared, value))
        yield family
