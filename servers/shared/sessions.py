"""All sessions of a deployment, as one replica sees them: those of replayable environments live in the store.

Sessions of other environments stay in this process, as without a store.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from random import uniform
from typing import Any

from ..answers import Code, Refused
from ..catalog import Served
from ..context import About, working_for
from ..environment import DefinitionError, Environment
from ..failures import one_line
from ..gateway import Gateway
from ..metrics import HANDED_OVER
from ..queueing import StoreSlots
from ..seeding import SeedRequest, caller_key, fingerprint, task_of
from ..session import LIVE, Session
from ..sessions import Limits, Sessions, at_capacity, draining
from ..store import CallerKey
from ..types import Failure, FailureKind, Stage
from . import scripts
from .doomed import Doomed
from .fleet import Fleet
from .line import Address, Line, StoreAway
from .records import Record, Unreadable
from .scripts import PREFIX
from .session import SharedSession, repeat_it, revived

logger = logging.getLogger("gymwire.shared")
#: Milliseconds a lock outlives the replica that took it, and how often one that works renews its own.
LOCK_MS, BEAT_S = 4_000, 1.0
#: Milliseconds for which is remembered how a session went.
REMEMBERED_MS = 3_600_000
SWEPT_AT_ONCE = 200
#: Seconds in which a client whose socket broke may come back; ours try for 60.
RETURN_S = 90.0


#: Where requests carry the handle. A socket carries its session itself; OpenEnv's other routes ask for themselves.
HANDLE_IN = {"nemo-gym": Gateway.HEADERS, "mcp": Gateway.BODIES}


class _Known(Exception):
    """The caller's id names a session already."""

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.id = session_id


class SharedSessions(Sessions):
    """The engine of one replica. `open` it before it is used; `drain` hands its sessions over."""

    shared = True

    def __init__(
        self,
        address: Address,
        limits: Limits | None = None,
        *,
        timeout_s: float = 20.0,
        keys: Sequence[bytes] = (),
        gateway: Gateway = Gateway.NONE,
    ) -> None:
        """`keys` sign handles, those of all replicas; without any, the replicas keep one in the store."""
        super().__init__(limits)
        self.replica = secrets.token_hex(6)
        self.timeout_s, self.gateway = timeout_s, gateway
        self.line = Line(address, timeout_s)
        self.fleet = Fleet(self.line, self.replica, self.limits.lifetime_s, keys)
        self.doomed = Doomed(self.line)
        self._copies: dict[str, SharedSession] = {}
        self._finding: dict[tuple[str, str, str], asyncio.Task[SharedSession]] = {}
        self._fences: dict[str, int] = {}
        self._reserved: dict[str, tuple[str, bytes]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._waiting = 0
        self._pinned = False

    async def open(self, served: Sequence[Served] = ()) -> None:
        """Reach the store, and agree with its replicas on what handles are signed with. Again, it changes nothing."""
        self._pinned = any(not item.environment.replayable for item in served)
        if self._keeper is not None:
            return
        try:
            self.signer = await self.fleet.join()
        except StoreAway as error:
            raise DefinitionError(f"--store: {error}") from None
        self._keeper = asyncio.create_task(self._keep_for_ever())

    def here(self) -> Iterator[Session]:
        return chain(self.store, list(self._copies.values()))

    async def check_found(self, served: Served, handle_in: Gateway) -> None:
        await self.fleet.check_found(f"Sessions of {served.name}", self.gateway, handle_in)

    def is_elsewhere(self, session: Session) -> bool:
        return session.id in self.fleet.elsewhere

    # ---- capacity

    @property
    def queued(self) -> int:
        return super().queued + self._waiting

    def slots_of(self, served: Served | None = None) -> tuple[int, int]:
        """None of this process's own where every session is in the store."""
        if served is not None and served.environment.replayable:
            return self.store_slots()[1:]
        return super().slots_of() if self._pinned else (0, 0)

    def store_slots(self) -> StoreSlots:
        return self.fleet.slots(self.limits.max_sessions)

    # ---- seeding

    async def seed(self, served: Served, request: SeedRequest, *, owner: str = "", wire: str = "local") -> Session:
        try:
            return await super().seed(served, request, owner=owner, wire=wire)
        except _Known as known:
            if not known.id:
                text = f"Session id {request.caller_id!r} was used and is closed."
                raise Refused(Code.SEED_REFUSED, text) from None
            session = await self.find(self.signer.handle_of(known.id), served, owner)
            return self._repeated(session, request)

    async def _seed(
        self, served: Served, request: SeedRequest, owner: str, wire: str, caller: CallerKey | None
    ) -> Session:
        if not served.environment.replayable:
            if (handle_in := HANDLE_IN.get(wire)) is not None:
                await self.check_found(served, handle_in)
            return await super()._seed(served, request, owner, wire, caller)
        if self._draining:
            raise draining()
        episode_id = request.named()
        session = SharedSession(self, served, self.signer.new_handle(), owner, wire, episode_id)
        try:
            session.row, data = task_of(served, request)
        except Exception as error:
            self._not_begun(session, error)
        session.seed = request.seed
        if caller is not None:
            session.caller, session.data_fingerprint = caller, fingerprint(request)
        try:
            started = asyncio.get_running_loop().time()
            await self._reserve(session)
            self.metrics.queued(asyncio.get_running_loop().time() - started)
            await self._begin_shared(session, data, request.seed)
        except StoreAway as away:
            await self._abandon_shared(session)
            raise repeat_it(f"{away}.") from None
        except (Refused, _Known):
            await self._abandon_shared(session)
            raise
        except BaseException as error:
            await self._abandon_shared(session)
            self._not_begun(session, error)
        self._copies[session.handle] = session
        self.metrics.seeded(session, asyncio.get_running_loop().time() - started)
        return session

    async def _begin_shared(self, session: SharedSession, data: Any, seed: int | None) -> None:
        with working_for(session.about):
            await self._begin(session, data, seed)
        if self._draining:
            raise draining()
        meta, head, snapshot = session.begin()
        limits = self.limits
        times = int(limits.idle_timeout_s * 1000), int(limits.lifetime_s * 1000)
        key, live, of_owner, caller = self._keys(session)
        keys = (key, PREFIX + "expiry", live, of_owner, *caller)
        said = (session.id, self.replica, meta, head, snapshot, *times, session.owner, REMEMBERED_MS)
        if not await self.line.run(scripts.PUT, keys, *said):
            raise repeat_it("Another replica seeds this session.")
        self._reserved.pop(session.id, None)

    def _keys(self, session: SharedSession) -> tuple[str, str, str, tuple[bytes, ...]]:
        caller = () if session.caller is None else (_caller_name(session.caller),)
        return f"{PREFIX}s:{session.id}", PREFIX + "live", f"{PREFIX}live:{session.owner}", caller

    async def _reserve(self, session: SharedSession) -> None:
        """A place among the live sessions of all replicas, and the caller's id. Raises `Refused`, `_Known`."""
        _, live, of_owner, caller = self._keys(session)
        limits = self.limits
        said = (session.id, limits.max_sessions, limits.sessions_per_token, LOCK_MS, self.replica)
        deadline = asyncio.get_running_loop().time() + limits.queue_timeout_s
        # Known from now on: whoever is cancelled while the answer is on its way may have the place already.
        self._reserved[session.id] = of_owner, caller[0] if caller else b""
        while True:
            answer, *rest = await self.line.run(scripts.RESERVE, (live, of_owner, *caller), *said)
            if answer == 1:
                return
            if answer == 2:
                raise _Known(rest[0].decode())
            if self._draining:
                raise draining()
            if asyncio.get_running_loop().time() > deadline:
                if answer == 3:
                    raise repeat_it("Another replica seeds this session.")
                most, whose = (
                    (limits.sessions_per_token, " of this token") if answer == 4 else (limits.max_sessions, "")
                )
                raise at_capacity(most, whose, limits.queue_timeout_s)
            self._waiting += 1
            try:
                await asyncio.sleep(uniform(0.02, 0.08))
            finally:
                self._waiting -= 1

    async def _abandon_shared(self, session: SharedSession) -> None:
        session.drop()
        if self._reserved.pop(session.id, None) is None:
            return
        _, live, of_owner, caller = self._keys(session)
        with suppress(StoreAway):  # the reservation ends by itself
            await self.line.run(scripts.UNRESERVE, (live, of_owner, *caller), session.id, self.replica, patience_s=1.0)

    # ---- finding

    async def find(self, handle: str, served: Served, owner: str = "") -> Session:
        copy = self._copies.get(handle)
        if copy is not None and copy.served is served and copy.owner == owner:
            return copy
        hidden = copy is not None and copy.known
        if hidden or not served.environment.replayable or not self.signer.is_ours(handle):
            return self.get(handle, served, owner)
        newest = self.signer.handle_of(handle.partition(".")[0])
        if newest != handle:  # signed with an older key; one session has one copy here
            return await self.find(newest, served, owner)
        asked = handle, served.name, owner
        task = self._finding.get(asked)
        if task is None:
            task = self._finding[asked] = asyncio.ensure_future(self._fetch(handle, served, owner))
            task.add_done_callback(lambda _: self._finding.pop(asked, None))
        return await asyncio.shield(task)

    async def _fetch(self, handle: str, served: Served, owner: str) -> SharedSession:
        session = SharedSession(self, served, handle, owner, "")
        await session.refresh()
        copy = self._copies.get(handle)
        if copy is None or not copy.known:  # one that is not was asked for during an outage, by anybody
            copy = self._copies[handle] = session
        return copy

    async def await_return(self, session: Session) -> None:
        await super().await_return(session)
        if isinstance(session, SharedSession) and session.state in LIVE and not session.sockets:
            within_ms = int(min(self.limits.idle_timeout_s, RETURN_S) * 1000)
            with suppress(StoreAway):  # then it ends at its idle limit
                await self.line.run(scripts.TOUCH, (PREFIX + "expiry",), within_ms, session.id, patience_s=1.0)

    async def close_caller(self, served: Served, owner: str, caller_id: str) -> None:
        if not served.environment.replayable:
            await super().close_caller(served, owner, caller_id)
            return
        name = _caller_name(caller_key(served, owner, caller_id))
        try:
            known = await self.line.ask(("GET", name), self.timeout_s)
            if known and not known.startswith(b"pending:"):
                with suppress(Refused):  # gone already
                    await self.close(await self.find(self.signer.handle_of(known.decode()), served, owner))
            await self.line.run(scripts.CLAIM, (name,), "", REMEMBERED_MS)
        except StoreAway as away:
            raise repeat_it(f"{away}.") from None

    async def close(self, session: Session) -> None:
        if not isinstance(session, SharedSession):
            await super().close(session)
            return
        with suppress(Refused):  # gone already, or failed: it is nobody's any more
            await session.close()
        self.forget(session)

    # ---- what a session asks of the store

    async def take(self, session_id: str, version: int) -> list[Any]:
        keys = f"{PREFIX}s:{session_id}", f"{PREFIX}l:{session_id}", f"{PREFIX}g:{session_id}"
        answer = await self.line.run(scripts.TAKE, keys, self.replica, version, LOCK_MS)
        if answer[0] > 0:
            self._fences[session_id] = answer[0]
            self.fleet.elsewhere.discard(session_id)
        return answer

    async def put_commit(
        self, session: SharedSession, fence: int, head: bytes, snapshot: bytes, entry: bytes, ended: bool
    ) -> int:
        key, live, of_owner, _ = self._keys(session)
        keys = key, f"{PREFIX}l:{session.id}", PREFIX + "expiry", live, of_owner
        idle_ms = int(self.limits.idle_timeout_s * 1000)
        try:
            return await self.line.run(
                scripts.COMMIT, keys, fence, session.id, idle_ms, head, snapshot, entry, int(ended)
            )
        finally:
            self._fences.pop(session.id, None)

    async def put_close(self, session: SharedSession, fence: int) -> int:
        key, live, of_owner, caller = self._keys(session)
        gone = f"{PREFIX}g:{session.id}"
        keys = key, f"{PREFIX}l:{session.id}", PREFIX + "expiry", live, of_owner, gone, *caller
        try:
            return await self.line.run(scripts.CLOSE, keys, fence, session.id, REMEMBERED_MS)
        finally:
            self._fences.pop(session.id, None)

    async def revive(self, session: SharedSession, snapshot: bytes) -> None:
        with working_for(session.about):
            await revived(self, session, snapshot)

    async def made(self, served: Served) -> Environment:
        return await self._made(served)

    def longest_wait_s(self, served: Served) -> float:
        """How long an operation waits for another replica's."""
        environment = served.environment
        return max(environment.tool_timeout_s, environment.verify_timeout_s) + LOCK_MS / 1000

    def doom(self, session: SharedSession, failure: Failure) -> None:
        """Have a session fail as soon as it can be written; until then this replica knows it alone."""
        self._copies.setdefault(session.handle, session)
        self.doomed.add(session, failure)

    def settled_here(self, session: SharedSession) -> None:
        self.doomed.settled(session)

    def forget(self, session: SharedSession) -> None:
        self.doomed.settled(session)
        if self._copies.get(session.handle) is session:
            del self._copies[session.handle]
        self.fleet.elsewhere.discard(session.id)

    # ---- the keeper

    async def _keep_for_ever(self) -> None:
        while True:
            try:
                await self._keep()
            except StoreAway as error:
                logger.warning("%s", error)
            except Exception:  # the boundary of a task nobody awaits: without it, sessions would never end
                logger.exception("keeping the store failed")
            await asyncio.sleep(BEAT_S)

    async def _keep(self) -> None:
        """Renew what this replica works on, and end what is over its limits."""
        fences, reserved = dict(self._fences), dict(self._reserved)
        names = {name: self.replica for _, name in reserved.values() if name}
        if fences or names:
            keys = (*(f"{PREFIX}s:{name}" for name in fences), *names)
            said = (LOCK_MS, len(fences), *fences.values(), *names.values())
            await self.line.run(scripts.RENEW, keys, *said, patience_s=BEAT_S)
        if reserved:
            keys = PREFIX + "live", *(of_owner for of_owner, _ in reserved.values())
            await self.line.run(scripts.KEEP_RESERVED, keys, LOCK_MS, *reserved, patience_s=BEAT_S)
        if open_sockets := [copy.id for copy in self._copies.values() if copy.sockets and copy.state in LIVE]:
            idle_ms = int(self.limits.idle_timeout_s * 1000)
            await self.line.run(scripts.TOUCH, (PREFIX + "expiry",), idle_ms, *open_sockets, patience_s=BEAT_S)
        await self.fleet.beat(BEAT_S)
        await self.fleet.look_for([copy for copy in self._copies.values() if copy.state in LIVE], BEAT_S)
        await self.sweep_store()
        self._drop_idle()

    async def sweep_store(self) -> int:
        """End the sessions of all replicas that are over their limits; each is ended by one replica alone."""
        keys = PREFIX + "expiry", PREFIX + "live"
        over = await self.line.run(scripts.SWEEP, keys, SWEPT_AT_ONCE, REMEMBERED_MS, patience_s=BEAT_S)
        for session_id, meta, head, by_lifetime in over:
            try:
                self._lapsed(session_id.decode(), Record.read((0, meta, head, b"", ())), bool(by_lifetime))
            except Unreadable as error:
                logger.warning("session %s is past its limits; %s", session_id.decode(), error)
        return len(over)

    def _lapsed(self, session_id: str, record: Record, by_lifetime: bool) -> None:
        if record.head.state not in LIVE:
            return
        limits, meta = self.limits, record.meta
        limit = f"{limits.lifetime_s:g} s lifetime" if by_lifetime else f"{limits.idle_timeout_s:g} s idle"
        failure = Failure(FailureKind.SESSION_EXPIRED, f"past the limit of {limit}", Stage.IDLE)
        about = About(session_id, meta.environment, meta.wire, one_line(meta.caller_id or ""))
        self.failures.record(about, failure, None, meta.row.data)
        self.metrics.lapsed(about)

    def _drop_idle(self) -> None:
        """Copies that nobody asked for lately; their sessions are in the store."""
        oldest = self.now() - self.limits.idle_timeout_s
        for copy in list(self._copies.values()):
            if not copy.in_flight and not copy.sockets and copy.last_used < oldest and copy not in self.doomed:
                copy.drop()
                self.forget(copy)

    async def drain(self, grace_s: float = 30.0) -> int:
        """Finish calls in flight; sessions in the store are handed over, the others fail."""
        self.stop_seeding()
        await self.calls_done(grace_s)
        await self.doomed.close()
        handed_over = sum(copy.state in LIVE for copy in self._copies.values())
        if self._keeper is not None:
            self._keeper.cancel()
        for copy in list(self._copies.values()):
            copy.drop()
        self._copies.clear()
        self.metrics.drained(HANDED_OVER, handed_over)
        failed = await super().drain(grace_s)
        with suppress(StoreAway):
            await self.fleet.leave()
        await self.line.close()
        if handed_over:
            logger.info("shut down; %d live sessions go on at other replicas", handed_over)
        return failed


def _caller_name(caller: CallerKey) -> bytes:
    """A key of the store; a caller's id may hold what is no Unicode."""
    return f"{PREFIX}c:{caller[0]}:{caller[1]}:{caller[2]}".encode("utf-8", "surrogatepass")
