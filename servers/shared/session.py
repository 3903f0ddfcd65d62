"""A session that any replica may go on with: the rules of `Session`, between taking it in Redis and committing.

Every operation takes the session (a lock with a fencing token), brings the copy of this process up to date, runs,
and commits before it answers. What a replica did whose lock was taken over in the meantime does not count: the commit
is refused, the copy is thrown away, and the client is told to repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any, TypeVar

from ..answers import UNAVAILABLE, Answer, Code, Refused, gone
from ..closing import close_soon
from ..context import About
from ..failures import assign, one_line
from ..order import Order
from ..session import LIVE, NO_ROW, Session, newest
from ..types import Ending, Failure, FailureKind, Outcome, SessionState, Stage
from .line import StoreAway
from .records import Entry, Head, Meta, Record, Unreadable, freeze, thaw

if TYPE_CHECKING:
    from ..catalog import Served
    from ..tracing import Tracing
    from .sessions import SharedSessions

T = TypeVar("T")
NEW = -1  # the version of a copy that knows nothing


class Held:
    """The host of a shared session: what it says counts only once the store has it."""

    def __init__(self, engine: SharedSessions) -> None:
        self.engine, self.threads = engine, engine.threads
        self.said: list[Callable[[], None]] = []
        self.ended = False

    def now(self) -> float:
        return self.engine.now()

    def called(self, session: Session, code: Code, seconds: float) -> None:
        self.said.append(partial(self.engine.called, session, code, seconds))

    def verified(self, session: Session, seconds: float) -> None:
        self.said.append(partial(self.engine.verified, session, seconds))

    def failed(self, session: Session, failure: Failure, error: BaseException | None) -> None:
        self.said.append(partial(self.engine.failed, session, failure, error))

    @property
    def tracing(self) -> Tracing | None:
        return self.engine.tracing

    def settled(self, session: Session) -> None:
        self.ended = True
        self.said.append(partial(self.engine.metrics.ended, session))

    def tell(self) -> None:
        said, self.said = self.said, []
        for tell in said:
            tell()


class SharedSession(Session):
    """This process's copy of a session in the store."""

    __slots__ = ("_entry", "_head", "_held", "_in_turn", "_line", "_snapshot", "_stored", "engine", "seed", "version")

    def __init__(
        self, engine: SharedSessions, served: Served, handle: str, owner: str, wire: str, episode_id: str = ""
    ) -> None:
        self._held = Held(engine)
        super().__init__(self._held, served, handle, handle.partition(".")[0], NO_ROW, owner, wire, episode_id)
        self.engine = engine
        self.seed: int | None = None
        self.version = NEW
        self._line = Order()
        self._in_turn = False
        self._head = self._snapshot = self._stored = b""
        self._entry: Entry | None = None

    @property
    def known(self) -> bool:
        """Whether the store has said that it is, and that it is this owner's."""
        return bool(self.wire)

    # ---- what clients ask

    async def call(self, name: str, arguments: bytes, key: str | None = None) -> Answer:
        async def work() -> Answer:
            answer = await super(SharedSession, self).call(name, arguments, key)
            if self._entry is not None and key is not None:
                self._entry = self._entry._replace(key=key)
            return answer

        return await self._alone(work, repeatable=key is not None)

    async def end_turn(self, key: str | None = None) -> str | None:
        async def work() -> str | None:
            return await super(SharedSession, self).end_turn(key)

        return await self._alone(work, repeatable=key is not None)

    async def _end_turn(self, key: str | None) -> str | None:
        prompt = await super()._end_turn(key)
        if not self._freeze(Stage.END_TURN) or self.state not in LIVE:
            return None
        if key is not None and self._answers is not None and (known := self._answers[key]) is not None:
            self._entry = Entry(*known, key, logged=False)
        return prompt

    async def verify(self, items: Sequence[Any] = (), ending: Ending = Ending.FINISHED) -> Outcome:
        return await self._alone(partial(super().verify, items, ending), repeatable=True)

    async def close(self) -> None:
        await self._alone(super().close, repeatable=True)

    async def refresh(self) -> None:
        """Have the session as it is in the store. Raises `Refused` where it is gone."""
        await self._alone(_nothing, repeatable=True)

    def fail(self, failure: Failure, error: BaseException | None = None) -> Answer:
        """Within an operation at once; at any other time as soon as the session can be taken."""
        if self._in_turn:
            return super().fail(failure, error)
        self.engine.doom(self, failure)
        return UNAVAILABLE

    # ---- one operation

    async def _alone(self, work: Callable[[], Awaitable[T]], *, repeatable: bool) -> T:
        self.in_flight += 1
        try:
            if not self._line.try_enter():
                await self._line.enter()
            try:
                return await self._turn(work, repeatable)
            finally:
                self._line.leave()
        finally:
            self.in_flight -= 1
            self.last_used = self.engine.now()

    async def _turn(self, work: Callable[[], Awaitable[T]], repeatable: bool) -> T:
        fence = await self._take()
        self._in_turn = True
        try:
            await self._catch_up()
            value = await work()
        except BaseException:
            self._in_turn = False
            await asyncio.shield(asyncio.ensure_future(self._commit(fence, repeatable)))
            raise
        finally:
            self._in_turn = False
        await self._commit(fence, repeatable)
        return value

    async def _take(self) -> int:
        """Lock the session; its newest state is here then. Raises `Refused`."""
        deadline = self.engine.now() + self.engine.longest_wait_s(self.served)
        while True:
            try:
                answer = await self.engine.take(self.id, self.version)
            except StoreAway as away:
                raise self._broken(FailureKind.PROVIDER_UNAVAILABLE, str(away)) from None
            fence = answer[0]
            if fence > 0:
                if (others_first_s := self.engine.doomed.others_first_s(self)) > 0:
                    await self._let_go(fence)
                    await asyncio.sleep(others_first_s)
                    continue
                if len(answer) > 1:
                    await self._adopt(fence, answer[1:])
                return fence
            if fence < 0:
                raise self._vanish(Code(answer[1].decode() or Code.SESSION_LOST))
            if self.engine.now() > deadline:
                raise repeat_it("Another replica works on this session.")
            await asyncio.sleep(min(answer[1] / 1000, 0.05) * uniform(0.4, 1.0))

    async def _commit(self, fence: int, repeatable: bool) -> None:
        """What was done is in the store when this returns. Raises `Refused` where it does not count."""
        entry, self._entry = self._entry, None
        head = Head(self.state, self.outcome, self.failure, bool(self.calls)).dumps()
        live, snapshot = self.state in LIVE, self._snapshot
        changed = entry is not None or head != self._head or (live and snapshot != self._stored)
        try:
            if self.state is SessionState.CLOSED:
                done = await self.engine.put_close(self, fence)
            else:
                new = snapshot if live and snapshot != self._stored else b""
                text = b"" if entry is None else entry.dumps()
                done = await self.engine.put_commit(self, fence, head if changed else b"", new, text, self._held.ended)
        except BaseException as error:  # nobody knows whether the store has it
            self._throw_away()
            if isinstance(error, StoreAway):
                raise self._broken(FailureKind.PROVIDER_UNAVAILABLE, str(error)) from None
            raise
        if done != 1:
            self._throw_away()
            if repeatable:
                raise repeat_it("Another replica has taken this session over; what ran here does not count.")
            raise self._broken(FailureKind.SESSION_LOST, "its replica was held up, and another one took it over")
        self.version += changed
        self._head, self._stored = head, snapshot
        self._held.tell()
        if not live:
            self.engine.settled_here(self)

    def _broken(self, kind: FailureKind, reason: str) -> Refused:
        """The session is failed as soon as that can be written."""
        failure = Failure(kind, reason, Stage.CALL)
        self.engine.doom(self, failure)
        return Refused(Code.SESSION_FAILED, "The session has failed.", failure=failure)

    # ---- the copy

    async def _adopt(self, fence: int, answer: Sequence[Any]) -> None:
        """Become what the store holds. Raises `Refused` for another's session, or one that cannot be read."""
        self._throw_away()
        try:
            record = Record.read(answer)
        except Unreadable as error:
            await self._let_go(fence)
            raise self._broken(FailureKind.SESSION_LOST, str(error)) from None
        meta = record.meta
        if meta.environment != self.served.name or meta.owner != self.owner:
            await self._let_go(fence)
            self.engine.forget(self)
            raise gone(Code.SESSION_LOST)
        self.version = record.version
        self.wire, self.data_fingerprint, self.seed = meta.wire, meta.fingerprint, meta.seed
        self.about = About(self.id, meta.environment, meta.wire, one_line(meta.caller_id or ""))
        self.caller = None if meta.caller_id is None else (meta.environment, meta.owner, meta.caller_id)
        self.state, self.outcome, self.failure, keeps_log = record.head
        self._head, self._stored = record.head.dumps(), record.snapshot
        self._snapshot = record.snapshot
        answers = {entry.key: (entry.name, entry.arguments, entry.answer) for entry in record.log if entry.key}
        live = self.state in LIVE
        self._answers = {**answers} if live else newest({**answers})
        self.calls = [entry.record() for entry in record.log if entry.logged] if live or keeps_log else []
        if live:
            self.row = meta.row
            self.prompt = meta.row.prompt if meta.prompt is None else meta.prompt

    async def _let_go(self, fence: int) -> None:
        with suppress(StoreAway):  # the lock ends by itself
            await self.engine.put_commit(self, fence, b"", b"", b"", False)

    async def _catch_up(self) -> None:
        """An environment for a session that was adopted; and the failure that could not be written before."""
        if (failure := self.engine.doomed.get(self)) is not None:
            super().fail(failure)
        if self.environment is not None or self.state not in LIVE:
            return
        try:
            await self.engine.revive(self, self._stored)
        except Unreadable as error:
            super().fail(Failure(FailureKind.SESSION_LOST, str(error), Stage.CALL), error)
        except Exception as error:  # the boundary of an author's `__init__` and `set_state`
            super().fail(assign(error, self.served.name, Stage.CALL), error)

    def _throw_away(self) -> None:
        """Nothing that this copy knows counts any more."""
        self.version = NEW
        self._held.said.clear()
        self._held.ended = False
        self._entry = None
        environment, self.environment = self.environment, None
        close_soon(self.engine.threads, environment, self.about)

    def drop(self) -> None:
        """Forget the copy; the session lives on in the store."""
        self._throw_away()
        self.calls, self._answers = [], None

    def _vanish(self, code: Code) -> Refused:
        """The store has it no more."""
        self._throw_away()
        if code is Code.SESSION_LOST and (failure := self.engine.doomed.get(self)) is not None:
            self.engine.failed(self, failure, None)  # it cannot be written any more
        self.state = SessionState.EXPIRED if code is Code.SESSION_EXPIRED else SessionState.CLOSED
        refused = gone(code)
        if self.state is SessionState.EXPIRED:
            self.outcome = refused.as_outcome()
        self.engine.forget(self)
        return refused

    # ---- keeping what ran

    async def _call(self, name: str, arguments: bytes) -> Answer:
        before, state = len(self.calls), self.state
        answer = await super()._call(name, arguments)
        logged = len(self.calls) > before
        spec = self.served.specs.get(name)
        if self.state in LIVE and (spec is None or not spec.tool.read_only) and not self._freeze(Stage.CALL, name):
            answer, logged = UNAVAILABLE, False
        if logged or self.state is not state:
            kept = self.calls[-1] if logged else None
            asked = (name, arguments) if kept is None else (kept.name, kept.raw_arguments)
            self._entry = Entry(*asked, answer, None, logged)
        return answer

    def _freeze(self, stage: Stage, tool: str = "") -> bool:
        """Take the environment's state as it is now; whether that went well."""
        if self.state not in LIVE or self.environment is None:
            return True
        try:
            self._snapshot = freeze(self.environment)
        except Exception as error:  # the boundary of an author's `get_state`
            self._fail(error, stage, tool)
            return False
        return True

    def begin(self) -> tuple[bytes, bytes, bytes]:
        """Meta, head and snapshot of a session that was just seeded. Raises what `get_state` raises."""
        assert self.environment is not None
        prompt = None if self.prompt is self.row.prompt else list(self.prompt)
        caller_id = None if self.caller is None else self.caller[2]
        meta = Meta(
            self.served.name, self.owner, self.wire, self.row, self.seed, prompt, caller_id, self.data_fingerprint
        )
        self._snapshot = self._stored = freeze(self.environment)
        self._head = Head(self.state, None, None, False).dumps()
        self.version = 1
        return meta.dumps(), self._head, self._stored


async def _nothing() -> None:
    return None


async def revived(engine: SharedSessions, session: SharedSession, snapshot: bytes) -> None:
    """Make the environment that was frozen. Raises what an author's code raises, and `Unreadable`."""
    served = session.served
    await served.setup()
    environment = await engine.made(served)
    try:
        environment.row, environment.data, environment.seed = session.row, served.check_data(session.row), session.seed
        thaw(environment, snapshot)
        session.offered = served.offered(environment, session.row)
    except BaseException:
        close_soon(engine.threads, environment, session.about)
        raise
    session.tools = tuple(tool for _, tool in session.offered.values())
    session.environment = environment


def repeat_it(text: str) -> Refused:
    return Refused(Code.REPEAT, f"{text} Repeat the request.", retry_after_s=1)
