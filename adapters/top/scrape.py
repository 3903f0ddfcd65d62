"""The figures of one server, look after look: what it says now, and how much was counted in between.

A counter that went back belongs to a process that was started again: all it has counted since is new. Where several
processes answer at one URL in turn (replicas behind a gateway), each is compared with itself.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from yarl import URL

from ...servers.answers import Code
from ..patience import Undelivered
from ..pool import Pool, Reply
from ..resolve import Place, places, read_listing
from ..session import SessionFailed, WrongRequest

ASK_TIMEOUT_S = 10.0
#: Seconds that rates and "in the last minute" look back.
WINDOW_S = 60.0
#: Every gymwire server exports it, and nobody else.
MARK = "gymwire_build_info"
BORN = "process_start_time_seconds"
#: Figures that are told apart by a label: one without it is none of ours.
TOLD_BY = {
    "gymwire_seeds_total": "environment",
    "gymwire_sessions": "state",
    "gymwire_episodes_total": "ending",
    "gymwire_sandbox_slots": "state",
    "gymwire_sandbox_jobs_total": "verdict",
    "gymwire_grader_seconds_count": "grader",
    "gymwire_grader_failures_total": "grader",
}
#: Beyond it a float counts no more.
MOST = 2.0**53
Labels = frozenset[tuple[str, str]]
Series = Mapping[str, Mapping[Labels, float]]


class NotAnswering(Exception):
    """No figures are to be had at the moment; one sentence."""


@dataclass(frozen=True)
class Look:
    """One reading of a server's figures."""

    at: float
    #: Values by sample name, then labels; `growing` has those of counters and histograms alone.
    values: Series
    growing: Series

    @property
    def process(self) -> float:
        """Tells processes at one URL apart: when it began; 0 for a text that is made of several workers'."""
        born = self.values.get(BORN, {})
        return next(iter(born.values())) if len(born) == 1 and not any(next(iter(born))) else 0.0

    @classmethod
    def of(cls, text: str, at: float) -> Look:
        """Raises ValueError for what is no Prometheus text; what no gymwire server would say is left out."""
        values: dict[str, dict[Labels, float]] = {}
        growing: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in filter(_usable, family.samples):
                labels = frozenset(sample.labels.items())
                values.setdefault(sample.name, {})[labels] = sample.value
                if family.type in ("counter", "histogram"):
                    growing.setdefault(sample.name, {})[labels] = sample.value
        return cls(at, values, growing)


def _usable(sample: Sample) -> bool:
    bound = sample.labels.get("le", "") if sample.name.endswith("_bucket") else "0"
    told_by = TOLD_BY.get(sample.name)
    return abs(sample.value) <= MOST and _is_bound(bound) and (told_by is None or told_by in sample.labels)


def _is_bound(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class Growth:
    """What was counted in some seconds, up to a moment."""

    at: float
    seconds: float
    series: Series


@dataclass
class Server:
    """One URL that is watched."""

    root: URL
    env: str | None = None
    #: What it serves, whether or not somebody has played there.
    environments: tuple[str, ...] = ()
    look: Look | None = None
    #: Why the last look came to nothing; empty when it did not.
    problem: str = ""
    growths: deque[Growth] = field(default_factory=deque)
    #: Whether other processes answer at this URL in turn.
    several: bool = False
    _last: dict[float, Look] = field(default_factory=dict)
    _wall: float = 0.0

    def take(self, look: Look, wall: float) -> None:
        """Take up a new reading; `wall` is the time of day, in seconds."""
        before, process = self.look, look.process
        known = self._last.get(process)
        if before is not None:
            if known is None and process > self._wall - 1.0:  # begun since the last look: all of it is new
                known = Look(look.at, {}, {})
            series = {} if known is None else dict(grown(known.growing, look.growing))
            self.growths.append(Growth(look.at, look.at - before.at, series))
            self.several |= process in self._last and process != before.process
        while self.growths and self.growths[0].at < look.at - WINDOW_S:
            self.growths.popleft()
        self.look, self._last[process], self._wall, self.problem = look, look, wall, ""


def grown(before: Series, after: Series) -> Iterator[tuple[str, dict[Labels, float]]]:
    """How much each series has grown; one that went back has begun again at 0."""
    for name, values in after.items():
        earlier = before.get(name, {})
        found: dict[Labels, float] = {}
        for labels, value in values.items():
            more = value - earlier.get(labels, 0.0)
            more = value if more < 0 else more
            if more:
                found[labels] = more
        if found:
            yield name, found


async def find(pool: Pool, url: URL, *, has_token: bool) -> Server:
    """The server that a URL means (its root, an environment, a face), looked at once.

    Raises `WrongRequest` in one sentence that says what to do.
    """
    for place in places(url):
        try:
            server = Server(place.root, place.env)
            reply = await _asked(pool, server)
        except NotAnswering as problem:
            raise WrongRequest(f"{problem}; is the server running?") from None
        look = _read(reply)
        if look is not None:
            server.take(look, time.time())
            server.environments = await _environments(pool, server)
            if place.env is None or place.env in server.environments:
                return server
            continue  # a path of its own behind a proxy
        _explain(reply, place, has_token=has_token)
    raise WrongRequest(
        f"{url} is no gymwire server: it has no gymwire figures at /metrics, and top shows nothing else."
    )


async def look_again(pool: Pool, server: Server) -> None:
    """One more look; where there is none to be had, `problem` says why."""
    try:
        reply = await _asked(pool, server)
    except NotAnswering as problem:
        server.problem = str(problem)
        return
    look = _read(reply)
    if look is None:
        server.problem = f"/metrics answers with status {reply.status}"
    else:
        server.take(look, time.time())


async def _asked(pool: Pool, server: Server) -> Reply:
    try:
        return await pool.get(server.root / "metrics", timeout_s=ASK_TIMEOUT_S)
    except Undelivered as error:
        raise NotAnswering(f"nothing answers at {server.root}: {error}") from None
    except SessionFailed as failure:
        raise NotAnswering(f"nothing answers at {server.root}: {failure.reason}") from None


async def _environments(pool: Pool, server: Server) -> tuple[str, ...]:
    """None for a sandbox's service."""
    listing = read_listing(await pool.get(server.root / "environments", timeout_s=ASK_TIMEOUT_S))
    return tuple(str(item["name"]) for item in listing["environments"]) if listing else ()


def _read(reply: Reply) -> Look | None:
    if reply.status != 200:
        return None
    try:
        look = Look.of(reply.text, time.monotonic())
    except (ValueError, KeyError, IndexError):  # what the parser makes of other texts
        return None
    return look if MARK in look.values else None


def _explain(reply: Reply, place: Place, *, has_token: bool) -> None:
    """Say what keeps a gymwire server from answering; a stranger's refusal says nothing here."""
    code = reply.headers.get("X-Gymwire-Code")
    if code == Code.UNAUTHORIZED or reply.status == 401:
        how = "does not accept this token" if has_token else "asks for a token: give --token-file FILE"
        raise WrongRequest(f"the server at {place.root} {how}.")
    if code == Code.FORBIDDEN_SCOPE or reply.status == 403:
        raise WrongRequest(f"the server at {place.root} shows its figures to tokens of the scope `admin` alone.")
    if code == Code.FORBIDDEN_HOST:
        raise WrongRequest(f"the server at {place.root} refuses the host name: serve with --allow-host.")
