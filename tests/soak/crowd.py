"""The load: as many sessions as the soak is told to keep in flight, on three wires, and what goes wrong in them.

Each member plays one episode after the other, with pauses. Of its episodes, some are on a twin whose tools break, some
are cancelled while they are seeded, some in the middle of a call; and client processes are killed with sessions open.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache
from itertools import count
from pathlib import Path
from random import Random

from gymwire.adapters import Connection, SessionFailed, connect
from gymwire.adapters.demo_faults import broken_name
from gymwire.adapters.drive import drive
from gymwire.adapters.session import Session
from gymwire.servers.catalog import find
from gymwire.servers.policies import Call, Script
from gymwire.servers.types import Row, ToolResult

from .servers import IDLE_TIMEOUT_S, Subject

WIRES = ("nemo-gym", "openenv", "mcp")
#: Mean pause before a turn, and the longest: a session that waits longer would expire.
THINK_S, THINK_AT_MOST_S = 1.5, IDLE_TIMEOUT_S / 5
POLICIES = ("random", "rule", "oracle")
ROWS = 40
#: Of a hundred episodes: on a broken twin, cancelled while seeding, cancelled in play. In one of so many members,
#: programs run in the sandbox.
BROKEN, CANCELLED_SEED, CANCELLED_PLAY = 8, 8, 8
PROGRAMS_EVERY = 10
PROGRAMS = frozenset({"math_python", "code_tests"})
#: How often a client process is killed with its sessions open, and how many it has.
VANISH_EVERY_S, VANISH_SESSIONS = 20.0, 4


class Tally:
    """What became of the episodes, by server; and what should not have."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = Counter()
        self.kinds: dict[str, int] = Counter()
        self.wrong: list[str] = []
        self._rewards: dict[tuple[str, str, int], float | None] = {}

    def scored(self, subject: str, environment: str, policy: str, index: int, reward: float | None) -> None:
        """The same policy on the same row earns the same, whichever wire and store."""
        self.count(subject, "scored")
        known = self._rewards.setdefault((environment, policy, index), reward)
        if known != reward:
            self.wrong.append(f"{subject}: {environment} {policy} row {index} earned {reward}, before {known}")

    def failed(self, subject: str, failure: SessionFailed, *, expected: bool) -> None:
        self.count(subject, "broken on purpose" if expected else "failed")
        if not expected:
            self.wrong.append(f"{subject}: {failure}")

    def count(self, subject: str, kind: str) -> None:
        self.ended[subject] += 1
        self.kinds[kind] += 1


class Crowd:
    """All members of the load of one server."""

    def __init__(self, subject: Subject, size: int, tally: Tally, log: Path) -> None:
        self.subject, self.size, self.tally, self._log = subject, size, tally, log

    async def play(self) -> None:
        """Until it is cancelled; then every session is closed, but for those of clients that vanished."""
        async with AsyncExitStack() as stack:
            connections = await self._connections(stack)
            async with asyncio.TaskGroup() as group:
                for number in range(self.size):
                    group.create_task(self._member(number, connections))
                group.create_task(self._vanish())

    async def _connections(self, stack: AsyncExitStack) -> dict[tuple[str, str], Connection]:
        names = [*self.subject.environments, *(broken_name(name) for name in ("battery", "ledger"))]
        pairs = [(name, wire) for name in names for wire in WIRES]
        opened = [connect(self.subject.url, env=name, wire=wire) for name, wire in pairs]
        return dict(zip(pairs, [await stack.enter_async_context(item) for item in opened], strict=True))

    async def _member(self, number: int, connections: dict[tuple[str, str], Connection]) -> None:
        own = [n for n in self.subject.environments if (n in PROGRAMS) == (number % PROGRAMS_EVERY == 0)]
        names = own or list(self.subject.environments)
        for turn in count():
            rng = Random(f"{number}:{turn}")
            await asyncio.sleep(rng.expovariate(2 / THINK_S))
            await self._episode(rng, rng.choice(names), rng.choice(WIRES), connections)

    async def _episode(self, rng: Random, name: str, wire: str, connections: dict[tuple[str, str], Connection]) -> None:
        draw = rng.randrange(100)
        if draw < BROKEN and name not in PROGRAMS:
            await self._broken(rng, name, connections[broken_name(name), wire])
        elif draw < BROKEN + CANCELLED_SEED:
            await self._cancelled(connections[name, wire], name, rng, rng.uniform(0, 0.02))
        elif draw < BROKEN + CANCELLED_SEED + CANCELLED_PLAY:
            await self._cancelled(connections[name, wire], name, rng, rng.uniform(0.02, 4 * THINK_S))
        else:
            await self._whole(connections[name, wire], name, rng)

    async def _whole(self, connection: Connection, name: str, rng: Random) -> None:
        policy, index = rng.choice(POLICIES), rng.randrange(ROWS)
        try:
            async with connection.session(split=find(name).splits[0], index=index, seed=index) as session:
                played = await drive(Slow(session, rng), script_of(name, policy, index))  # type: ignore[arg-type]
        except SessionFailed as failure:
            self.tally.failed(self.subject.name, failure, expected=False)
            return
        if played.failure is not None:
            self.tally.failed(self.subject.name, played.failure, expected=False)
        else:
            self.tally.scored(self.subject.name, name, policy, index, played.reward)

    async def _broken(self, rng: Random, name: str, connection: Connection) -> None:
        """A row of the twin whose tools break."""
        try:
            async with connection.session(split=find(name).splits[0], index=0, seed=0) as session:
                tool = next(step for step in script_of(name, "oracle", 0) if isinstance(step, Call))
                await session.call(tool.name, tool.arguments)
                self.tally.wrong.append(f"{self.subject.name}: a tool that breaks answered")
        except SessionFailed as failure:
            self.tally.failed(self.subject.name, failure, expected=True)

    async def _cancelled(self, connection: Connection, name: str, rng: Random, after_s: float) -> None:
        task = asyncio.create_task(self._whole(connection, name, rng))
        try:
            await asyncio.wait([task], timeout=after_s)
        finally:
            task.cancel()
            await asyncio.wait([task])
        if task.cancelled():
            self.tally.count(self.subject.name, "cancelled")
        else:
            task.result()

    async def _vanish(self) -> None:
        """Clients that are killed with sessions open, and calls under way."""
        for number in count():
            await asyncio.sleep(VANISH_EVERY_S)
            wire = WIRES[number % len(WIRES)]
            words = [sys.executable, "-m", "tests.soak.vanishing", self.subject.url, wire, str(VANISH_SESSIONS)]
            with self._log.open("ab") as log:
                process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, stderr=log)
            try:
                assert process.stdout is not None
                if await process.stdout.readline() != b"playing\n":
                    self.tally.wrong.append(f"{self.subject.name}: a client that should vanish did not play")
                self.tally.kinds["vanished"] += VANISH_SESSIONS
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


class Slow:
    """A session whose policy thinks before every call."""

    def __init__(self, session: Session, rng: Random) -> None:
        self._session, self._rng = session, rng
        self.max_turns = session.max_turns
        self.verify = session.verify

    @property
    def done(self) -> bool:
        return self._session.done

    async def call(self, name: str, arguments: object = None) -> ToolResult:
        await asyncio.sleep(min(self._rng.expovariate(1 / THINK_S), THINK_AT_MOST_S))
        return await self._session.call(name, arguments)


@cache
def rows_of(name: str) -> Sequence[Row]:
    environment = find(name)
    return list(environment.rows(environment.splits[0], ROWS, 0))


def script_of(name: str, policy: str, index: int) -> Script:
    row = rows_of(name)[index]
    return find(name).policies[policy](
        row if policy == "oracle" else Row(prompt=row.prompt), Random(f"{policy}:{index}")
    )
