"""The replicas of one store, as one of them sees them: who is there, how full the store is, and that all of them
believe each other's handles.

A replica tells of itself for as long as it runs: its name, and fingerprints of its keys, first the one it signs with.
One that would refuse the handles of others, or whose own they would refuse, does not start.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from ..answers import Code, Refused
from ..environment import DefinitionError
from ..gateway import Gateway
from ..queueing import StoreSlots
from ..session import Session
from ..signing import Signer
from . import scripts
from .line import Line
from .scripts import PREFIX

#: Milliseconds for which a replica that says nothing counts as there.
THERE_MS = 6_000
#: Seconds beyond that for which a replica of other keys is waited for, as it may have died.
GRACE_S = 1.0
AT_ONCE = 200
KEY = PREFIX + "key"
KEYS = tuple(PREFIX + name for name in ("replicas", "signed", "live", "expiry", "id"))


class Strangers(DefinitionError):
    """Replicas of one store whose keys do not fit together; one sentence."""


@dataclass(frozen=True, slots=True)
class Replica:
    """What is known of one: `known` are fingerprints of all keys whose handles it believes."""

    name: str
    signs: str
    known: frozenset[str]

    @classmethod
    def read(cls, said: bytes) -> Replica:
        name, signs, *others = said.decode().split(" ")
        return cls(name, signs, frozenset((signs, *others)))


@dataclass(frozen=True, slots=True)
class Seen:
    """The store at one beat: the replicas beside this one, keys of handles that may be alive, and live sessions."""

    others: tuple[Replica, ...] = ()
    signed: frozenset[str] = frozenset()
    live: int = 0
    store: str = ""


class Fleet:
    """One replica among the others. `join` before the first session, `beat` once a second, `leave` at the end."""

    def __init__(self, line: Line, name: str, lifetime_s: float, keys: Sequence[bytes]) -> None:
        self.name, self._line, self._keys = name, line, tuple(keys)
        self._lifetime_ms = int(lifetime_s * 1000)
        self._signer = Signer(*keys)
        self.seen = Seen()
        self.elsewhere: set[str] = set()
        self._sure_from = 0.0

    async def join(self) -> Signer:
        """What this replica signs with from now on. Raises `DefinitionError`, `StoreAway`, `StoreError`.

        A replica that has just died is waited for: it may have had another key.
        """
        deadline = asyncio.get_running_loop().time() + THERE_MS / 1000 + GRACE_S
        while True:
            try:
                self._signer = await self._chosen()
                self._check(await self._look(self._said, 0))
                break
            except Strangers:
                await self.leave()
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.5)
        if self._keys:
            await self._line.run(scripts.FADE_KEY, (KEY,), self._lifetime_ms)
        self._sure_from = asyncio.get_running_loop().time() + THERE_MS / 1000 + GRACE_S
        await self.beat()
        return self._signer

    async def _chosen(self) -> Signer:
        """The keys of the file, and below them one from before there was a file; without a file, the store's own."""
        if self._keys:
            before = await self._line.ask(("GET", KEY), self._line.patience_s)
            return Signer(*self._keys, *filter(None, [before]))
        if not await self._line.ask(("EXISTS", KEY), self._line.patience_s):
            seen = await self._look("", 0)
            if seen.others or seen.signed:
                raise Strangers(f"--store: {OF_A_FILE}")
        return Signer(await self._line.run(scripts.SIGNING_KEY, (KEY,), secrets.token_bytes(32)))

    def _check(self, seen: Seen) -> None:
        signs, known = self._signer.fingerprints[0], frozenset(self._signer.fingerprints)
        if any(signs not in other.known or other.signs not in known for other in seen.others):
            raise Strangers(f"--store: {ANOTHER if self._keys else OF_A_FILE}")
        if not seen.signed <= known:
            raise Strangers(f"--store: {STILL_ALIVE if self._keys else OF_A_FILE}")

    async def beat(self, patience_s: float | None = None) -> None:
        """Say that this replica is there, and see what else is."""
        self.seen = await self._look(self._said, self._lifetime_ms, patience_s)

    async def _look(self, said: str, signing_ms: int, patience_s: float | None = None) -> Seen:
        words = said, THERE_MS, self._signer.fingerprints[0], signing_ms, secrets.token_hex(4)
        replicas, signed, live, store = await self._line.run(scripts.BEAT, KEYS, *words, patience_s=patience_s)
        others = tuple(other for item in replicas if (other := Replica.read(item)).name != self.name)
        return Seen(others, frozenset(item.decode() for item in signed), live, store.decode())

    def slots(self, size: int) -> StoreSlots:
        """The store's, as of the last beat."""
        return StoreSlots(self.seen.store, size, max(size - self.seen.live, 0))

    async def check_found(self, name: str, gateway: Gateway, handle_in: Gateway) -> None:
        """Whether the requests of a session that can only be here will find it. Raises `Refused` where none would.

        A replica that may have died is waited for: it may be the one whose place this one has taken.
        """
        while self.seen.others and not gateway.finds(handle_in):
            if asyncio.get_running_loop().time() > self._sure_from:
                count = len(self.seen.others) + 1
                raise Refused(Code.SEED_REFUSED, f"{name} stay in one of {count} replicas, and {WHY_NOT[handle_in]}.")
            await asyncio.sleep(0.1)

    async def look_for(self, sessions: Sequence[Session], patience_s: float) -> None:
        """See which of these another replica has by now: `elsewhere`, until this one works on them again."""
        here = [session for session in sessions if session.id not in self.elsewhere]
        for some in (here[start : start + AT_ONCE] for start in range(0, len(here), AT_ONCE)):
            keys = tuple(f"{PREFIX}s:{session.id}" for session in some)
            moved = await self._line.run(scripts.ELSEWHERE, keys, self.name, patience_s=patience_s)
            found = (some[place - 1] for place in moved)
            self.elsewhere.update(session.id for session in found if not session.in_flight)

    async def leave(self) -> None:
        await self._line.run(scripts.LEAVE, KEYS[:1], self._said, patience_s=1.0)

    @property
    def _said(self) -> str:
        return " ".join((self.name, *self._signer.fingerprints))


WHY_NOT = {
    Gateway.NONE: "no gateway sees which: use a WebSocket",
    Gateway.HEADERS: "nothing sends their requests there: serve it alone, or behind a gateway that does (--gateway)",
    Gateway.BODIES: (
        "nothing that reads MCP's bodies sends their requests there: serve it alone, or behind a gateway that does "
        "(--gateway bodies), or use another wire"
    ),
}
OF_A_FILE = "its replicas sign handles with a key of a file; give this one the same --signing-key-file"
ANOTHER = (
    "another replica of it signs handles with a key that this one lacks, or lacks the first key of this one; "
    "give all of them the same --signing-key-file (docs/replicas.md says how a key is replaced)"
)
STILL_ALIVE = (
    "it holds sessions whose handles were signed with a key that --signing-key-file lacks; "
    "keep that one as a further line until they have ended"
)
