"""All sessions of one process: seeding, finding, sweeping, draining. Known to no wire.

Unknown, closed, expired: an error that says which, never a silently fresh session. A seed waits in a fair
queue when the slots are taken; a verified, failed, expired or closed session has given its slot back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from . import running
from .answers import Code, Refused, gone
from .catalog import Served
from .closing import close_soon, closing_done
from .context import working_for
from .environment import Environment
from .failures import FailureLog, assign
from .gateway import Gateway
from .metrics import FAILED, Metrics
from .queueing import PerOwner, QueueTimeout, Slots, StoreSlots
from .results import clean_text
from .rows import RowsBroken
from .running import Threads
from .seeding import SeedRequest, caller_key, fingerprint, task_of
from .session import LIVE, NO_ROW, Session
from .signing import Signer
from .store import CallerKey, MemoryStore, Remembered
from .types import Failure, FailureKind, RowError, SessionState, Stage
from .wording import counted

if TYPE_CHECKING:
    from .tracing import Tracing

logger = logging.getLogger("gymwire.sessions")
RETRY_AFTER_S = 5
#: Of the queue timeout, for a token's own slots; both waits together stay below the clients' 60 s.
OWNERS_SHARE = 0.25
#: Seconds that environments may take to close when the server shuts down.
CLOSE_GRACE_S = 10.0
#: Ended sessions whose outcome is kept for a repeated verify; past it the oldest are forgotten.
KEPT_OUTCOMES = 16_384


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a server; times in seconds."""

    max_sessions: int = 1024
    idle_timeout_s: float = 600.0
    queue_timeout_s: float = 45.0
    lifetime_s: float = 3600.0
    sessions_per_token: int = 0  # 0: as many as there are


class Sessions:
    """The session engine's outside: what the faces and the in-process client use."""

    #: Whether other processes go on with sessions of replayable environments where this one ends.
    shared = False

    def __init__(self, limits: Limits | None = None, *, signer: Signer | None = None) -> None:
        self.limits = limits or Limits()
        self.signer = signer or Signer()
        self.metrics = Metrics()
        self.tracing: Tracing | None = None
        self.failures = FailureLog()
        self.slots = Slots(self.limits.max_sessions, self.limits.queue_timeout_s)
        self.owners = PerOwner(self.limits.sessions_per_token, self.limits.queue_timeout_s * OWNERS_SHARE)
        self.threads = Threads()
        self.store: MemoryStore[Session] = MemoryStore()
        self._ended: dict[str, Session] = {}
        self._gone: Remembered[Code] = Remembered()
        self._used_ids: Remembered[bool] = Remembered()
        self._pending: dict[CallerKey, asyncio.Future[Session]] = {}
        self.turned_away: Callable[[str, str], None] = lambda event, environment: None
        self._draining = False
        self._sweeper: asyncio.Task[None] | None = None
        self.failures.observers.append(self.metrics.failed)
        self.metrics.watch(self)

    async def open(self, served: Sequence[Served] = ()) -> None:
        """What must be done before these have a session, in the loop that will serve. Raises `DefinitionError`."""

    # ---- seeding

    async def seed(self, served: Served, request: SeedRequest, *, owner: str = "", wire: str = "local") -> Session:
        """Begin an episode. Raises `Refused`. Cancelling it leaves the queue and frees what was taken."""
        span = None if self.tracing is None else self.tracing.begin("seed", served.name, wire)
        session: Session | None = None
        try:
            session = await self._seed_of(served, request, owner, wire)
            return session
        except Refused as refused:
            self.metrics.refused(served.name, wire, refused.code)
            if span is not None:
                span.refused(refused)
            raise
        finally:
            if span is not None:
                span.end_of(session)

    async def _seed_of(self, served: Served, request: SeedRequest, owner: str, wire: str) -> Session:
        """A new session, or the one of an earlier seed by the same name."""
        if request.caller_id is None:
            return await self._seed(served, request, owner, wire, None)
        caller = caller_key(served, owner, request.caller_id)
        while (pending := self._pending.get(caller)) is not None:
            await asyncio.wait([pending])
        if (known := self.store.of_caller(caller)) is not None:
            return self._repeated(known, request)
        if self._used_ids.get(caller):
            raise Refused(Code.SEED_REFUSED, f"Session id {request.caller_id!r} was used and is closed.")
        pending = self._pending[caller] = asyncio.get_running_loop().create_future()
        try:
            return await self._seed(served, request, owner, wire, caller)
        finally:
            del self._pending[caller]
            pending.cancel()

    def check(self, served: Served, request: SeedRequest) -> None:
        """Whether there is such a task, before anything is given up for it. Raises `Refused`."""
        try:
            task_of(served, request)
        except RowsBroken:
            return  # our side's: the seed says so, and records it
        except RowError as error:
            raise Refused(Code.INVALID_ROW, clean_text(str(error))) from None

    def _repeated(self, known: Session, request: SeedRequest) -> Session:
        """The session of a seed that came before. An ended one says how it ended: there is nothing to play."""
        if known.data_fingerprint != fingerprint(request):
            text = f"Session id {request.caller_id!r} was already seeded with another task."
            raise Refused(Code.SEED_CONFLICT, text)
        if known.failure is not None:
            raise Refused(Code.SESSION_FAILED, "The session has failed.", failure=known.failure)
        if known.state not in LIVE:
            raise Refused(Code.SEED_REFUSED, f"Session id {request.caller_id!r} was used and is {known.state}.")
        known.last_used = self.now()
        return known

    async def _seed(
        self, served: Served, request: SeedRequest, owner: str, wire: str, caller: CallerKey | None
    ) -> Session:
        if self._draining:
            raise draining()
        handle = self.signer.new_handle()
        session = Session(self, served, handle, handle.partition(".")[0], NO_ROW, owner, wire, request.named())
        try:
            session.row, data = task_of(served, request)
        except Exception as error:
            self._not_begun(session, error)
        await self._take_slot(owner)
        started = time.perf_counter()
        try:
            with working_for(session.about):
                await self._begin(session, data, request.seed)
        except BaseException as error:
            self._abandon(session)
            self._not_begun(session, error)
        if self._draining:
            self._abandon(session)
            raise draining()
        if caller is not None:
            session.caller, session.data_fingerprint = caller, fingerprint(request)
        session.created = session.last_used = self.now()
        self.store.put(handle, session, caller)
        self.metrics.seeded(session, time.perf_counter() - started)
        self._watch()
        return session

    async def _take_slot(self, owner: str) -> None:
        started = time.perf_counter()
        try:
            await self.owners.take(owner)
        except QueueTimeout:
            if self._draining:
                raise draining() from None
            raise at_capacity(self.owners.size, " of this token", self.owners.queue_timeout_s) from None
        try:
            await self._take_common_slot()
        except BaseException:
            self.owners.give(owner)
            raise
        self.metrics.queued(time.perf_counter() - started)

    async def _take_common_slot(self) -> None:
        try:
            await self.slots.take()
        except QueueTimeout:
            if self._draining:
                raise draining() from None
            raise at_capacity(self.slots.size, "", self.limits.queue_timeout_s) from None

    async def _begin(self, session: Session, data: Any, seed: int | None) -> None:
        """Make the environment and reset it."""
        session.prompt = session.row.prompt
        served = session.served
        await served.setup()
        environment = session.environment = await self._made(served)
        environment.row, environment.data, environment.seed = session.row, data, seed
        if served.resets:
            message = await running.call(
                self.threads,
                partial(environment.reset, session.row),
                is_async=served.reset_is_async,
                timeout_s=environment.tool_timeout_s,
            )
            if message is not None:
                if not isinstance(message, str):
                    raise TypeError(f"reset returned {type(message).__name__}, not a string or None")
                session.prompt = [*session.row.prompt, {"role": "user", "content": clean_text(message)}]
        session.offered = served.offered(environment, session.row)
        session.tools = tuple(tool for _, tool in session.offered.values())

    async def _made(self, served: Served) -> Environment:
        """A new environment; an author's `__init__`, which may load much, does not hold up the loop."""
        if not served.initializes:
            return served.make()
        limit_s = served.environment.tool_timeout_s
        return await running.call(self.threads, served.make, is_async=False, timeout_s=limit_s)

    def _abandon(self, session: Session) -> None:
        """A seed that broke or was given up: nothing of it stays."""
        self._give_slot(session.owner)
        environment, session.environment = session.environment, None
        close_soon(self.threads, environment, session.about)

    def _give_slot(self, owner: str) -> None:
        self.owners.give(owner)
        self.slots.give()

    def _not_begun(self, session: Session, error: BaseException) -> NoReturn:
        """Say why a seed did not come about: the row does not fit, its client left, or our side broke."""
        if running.ends_task(error):
            raise error
        if isinstance(error, RowError) and not isinstance(error, RowsBroken):
            raise Refused(Code.INVALID_ROW, clean_text(str(error))) from None
        failure = assign(error, session.served.name, Stage.SEED, hidden=session.row.data)
        session.state = SessionState.FAILED
        self.failures.record(session.about, failure, error, session.row.data)
        raise Refused(Code.SESSION_FAILED, "The session could not be started.", failure=failure) from error

    # ---- finding

    def get(self, handle: str, served: Served, owner: str = "") -> Session:
        """The session of a handle. Raises `Refused` that says what became of it."""
        session = self.store.get(handle)
        if session is None or session.served is not served or session.owner != owner:
            self._turn_away(handle, session, served)
            raise gone(self._gone.get(handle) or Code.SESSION_LOST)
        return session

    async def find(self, handle: str, served: Served, owner: str = "") -> Session:
        """The session of a handle, from wherever it is. Raises `Refused` that says what became of it."""
        return self.get(handle, served, owner)

    def here(self) -> Iterator[Session]:
        """The sessions that this process holds."""
        return iter(self.store)

    async def check_found(self, served: Served, handle_in: Gateway) -> None:
        """Before a session that only this process can serve: whether its requests will come here, if they carry its
        handle in this place. Raises `Refused`."""

    def is_elsewhere(self, session: Session) -> bool:
        """Whether another process has the session by now, which counts it."""
        return False

    def _turn_away(self, handle: str, session: Session | None, served: Served) -> None:
        """Tell of a handle that is another's, or nobody's: what a policy or a tenant guesses."""
        if session is not None:
            self.turned_away("foreign_handle", served.name)
        elif handle and not self.signer.is_ours(handle):
            self.turned_away("forged_handle", served.name)

    def of_caller(self, served: Served, owner: str, caller_id: str) -> Session | None:
        return self.store.of_caller((served.name, owner, caller_id))

    async def close(self, session: Session) -> None:
        await session.close()
        self._forget(session, Code.SESSION_CLOSED)

    async def await_return(self, session: Session) -> None:
        """The client's connection broke, and it can come back: not for ever is the session kept for that."""
        session.last_used = self.now()

    async def close_caller(self, served: Served, owner: str, caller_id: str) -> None:
        """Close by the id its caller chose, live or not; that id is used up."""
        caller = caller_key(served, owner, caller_id)
        if (session := self.store.of_caller(caller)) is not None:
            await self.close(session)
        self._used_ids.put(caller, True)

    def _forget(self, session: Session, code: Code) -> None:
        self.store.drop(session.handle, session.caller)
        self._ended.pop(session.handle, None)
        self._gone.put(session.handle, code)
        if session.caller is not None:
            self._used_ids.put(session.caller, True)

    # ---- sweeping

    def _watch(self) -> None:
        if self._sweeper is None or self._sweeper.done():
            self._sweeper = asyncio.get_running_loop().create_task(self._sweep_for_ever())

    async def _sweep_for_ever(self) -> None:
        """One sweeper a process; ends when no session is left, so that an idle process is idle."""
        period_s = min(max(self.limits.idle_timeout_s / 20, 0.05), 5.0)
        while len(self.store):
            await asyncio.sleep(period_s)
            self.sweep()

    def sweep(self) -> int:
        """Expire what is over its limits; answers how many sessions were reclaimed."""
        now, reclaimed = self.now(), 0
        for session in self.store:
            if session.in_flight:
                continue
            idle = not session.sockets and now - session.last_used > self.limits.idle_timeout_s
            old = now - session.created > self.limits.lifetime_s
            if not (idle or old):
                continue
            if session.state in LIVE:
                limit = f"{self.limits.idle_timeout_s:g} s idle" if idle else f"{self.limits.lifetime_s:g} s lifetime"
                session.expire(f"past the limit of {limit}")
                self.metrics.reclaimed(session)
                reclaimed += 1
            self._forget(session, Code.SESSION_EXPIRED)
        return reclaimed

    # ---- capacity

    @property
    def queued(self) -> int:
        """Seeds that wait for a slot."""
        return self.slots.queued + self.owners.queued

    def slots_of(self, served: Served | None = None) -> tuple[int, int]:
        """Slots for sessions of an environment, and how many are free; without one, those of this process alone."""
        return self.slots.size, self.slots.free

    def store_slots(self) -> StoreSlots | None:
        """Slots that this process shares with others; None where it shares none."""

    # ---- draining

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def readiness(self) -> tuple[int, str]:
        """For gateways, as an HTTP status and a word: who drains answers its calls, and wants no session more.

        404 is what HAProxy takes for that (`disable-on-404`); after a 503 it would cut the calls in flight. To
        Kubernetes and others each says the same.
        """
        return (404, "draining") if self._draining else (200, "ok")

    def stop_seeding(self) -> None:
        """Refuse seeds from now on, those in the queue too. Safe in a signal handler of the loop's thread."""
        self._draining = True
        self.slots.refuse_all()
        self.owners.refuse_all()

    async def calls_done(self, grace_s: float) -> None:
        """Wait for the calls that are in flight now, as long as the grace lasts."""
        deadline = self.now() + grace_s
        busy = [session for session in self.here() if session.in_flight]
        while (busy := [session for session in busy if session.in_flight]) and self.now() < deadline:
            await asyncio.sleep(0.02)

    async def drain(self, grace_s: float = 30.0) -> int:
        """Stop seeding, finish calls in flight, fail what is left; answers how many sessions were failed."""
        self.stop_seeding()
        await self.calls_done(grace_s)
        left = [session for session in self.store if session.state in LIVE]
        for session in left:
            session.fail(Failure(FailureKind.SESSION_LOST, "the server was shut down", Stage.DRAIN))
        self.metrics.drained(FAILED, len(left))
        if self._sweeper is not None:
            self._sweeper.cancel()
        await closing_done(CLOSE_GRACE_S)
        self.threads.close()
        if left:
            logger.warning("shut down with %d live sessions; they count as failed", len(left))
        return len(left)

    # ---- the Host of every session

    def now(self) -> float:
        return time.monotonic()

    def called(self, session: Session, code: Code, seconds: float) -> None:
        self.metrics.called(session, code, seconds)

    def verified(self, session: Session, seconds: float) -> None:
        self.metrics.verified(session, seconds)

    def failed(self, session: Session, failure: Failure, error: BaseException | None) -> None:
        self.failures.record(session.about, failure, error, session.row.data)

    def settled(self, session: Session) -> None:
        self._give_slot(session.owner)
        self.metrics.ended(session)
        self._ended[session.handle] = session
        if len(self._ended) > KEPT_OUTCOMES:
            self._forget(next(iter(self._ended.values())), Code.SESSION_EXPIRED)


def at_capacity(places: int, whose: str, waited_s: float) -> Refused:
    text = f"Every place{whose} is taken ({counted(places, 'session')}); none came free in {waited_s:g} s."
    return Refused(Code.AT_CAPACITY, text, retry_after_s=RETRY_AFTER_S)


def draining() -> Refused:
    return Refused(Code.DRAINING, "This server is shutting down.", retry_after_s=RETRY_AFTER_S)
