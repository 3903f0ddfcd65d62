"""A wire as the doctor uses it: raw requests, and their answers read no further than the protocol goes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from yarl import URL

from ...servers.types import Json, Message, Row, Stage, Tool
from ..endpoint import EnvironmentInfo
from ..patience import Undelivered
from ..pool import Pool, Reply
from ..session import SessionFailed
from .findings import MAX_ANSWER, Exchange, cut, hidden

#: Seconds for one answer; a server that takes longer is taken for one that does not answer.
ANSWER_TIMEOUT_S = 20.0
#: Seconds for giving back all sessions of a probe, which may be past the end of the examination.
CLOSING_S = 5.0
#: Bytes of one answer; what is longer counts as none. And characters of all answers that are kept whole.
MAX_BYTES = 64 * 2**20
MAX_KEPT = 256 * 2**20


class Kind(StrEnum):
    OK = "ok"
    POLICY = "policy error"  # what the policy did wrong
    REFUSED = "refused"  # no such session, or it is over
    FULL = "full"
    BROKEN = "broken"  # the server's failure, or no answer at all


@dataclass(frozen=True, slots=True)
class Said:
    """One answer. `text` is what a policy would read, `body` the decoded JSON where there is some."""

    kind: Kind
    text: str
    body: Any
    exchange: Exchange
    seconds: float = 0.0
    done: bool = False
    status: int = 0
    reward: Any = None  # of an OpenEnv step
    retry_after: str = ""
    cookies: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Graded:
    """The answer to a verify: a reward as it was sent, or marked as a failure in some form."""

    said: Said
    reward: Any = None
    masked: bool = False
    components: Any = None

    @property
    def scores(self) -> bool:
        return self.said.kind is Kind.OK and not self.masked and self.reward is not None

    @property
    def verdict(self) -> Any:
        """What two verifies of one session must agree on."""
        return (self.said.kind, self.masked, self.reward, self.components)


class SeedRefused(Exception):
    """No episode began."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.text)
        self.said = said


@dataclass(frozen=True, slots=True)
class RawTask:
    """What is seeded: a whole row, or a place; and a seed where the server takes one."""

    row: Row | None = None
    split: str | None = None
    index: int | None = None
    seed: int | None = None

    def asked(self) -> Json:
        """As gymwire's servers take it."""
        wanted: Json = {"split": self.split, "index": self.index, "seed": self.seed}
        if self.row is not None:
            wanted["row"] = self.row.to_json()
        return {key: value for key, value in wanted.items() if value is not None}


class Episode(ABC):
    """One raw episode."""

    first: Said
    prompt: Sequence[Message] = ()
    tools: Sequence[Tool] = ()

    @abstractmethod
    async def call(self, name: str, arguments: Json, key: str = "") -> Said: ...

    @abstractmethod
    async def verify(self, answer: str) -> Graded: ...

    @abstractmethod
    async def close(self) -> Said | None:
        """Give it back; None where the wire has no way to."""


E = TypeVar("E", bound=Episode)


@dataclass
class Place:
    """Where the server is, and what it said of itself."""

    url: URL
    pool: Pool
    ours: bool
    info: EnvironmentInfo
    limits: Mapping[str, Any] = field(default_factory=dict)
    trainer: str = "gymwire"
    has_token: bool = False
    secrets: Sequence[str] = ()  # what no report may show

    def hide(self, text: str) -> str:
        return hidden(text, self.secrets)


class RawWire(ABC):
    """One wire of one server."""

    name: ClassVar[str]
    #: Requests that are no proper messages, by what they are.
    malformed_kinds: ClassVar[Sequence[str]]
    #: Whether the wire of this server has a verify.
    verifies: bool = True
    #: Whether a seed can be named by its caller, and a call by a key.
    takes_ids: bool = False
    #: Whether a session can be given back.
    closes: bool = True

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answers: list[Said] = []  # for what is looked for in every answer
        self._kept = 0
        self._open: list[Episode] = []

    async def prepare(self) -> None:
        """Learn what a stranger's server must be asked for. Raises `WrongRequest`."""
        return

    @abstractmethod
    async def seed(self, task: RawTask, name: str = "") -> Episode:
        """Begin an episode, under a name of ours where the wire takes one. Raises `SeedRefused`."""

    @abstractmethod
    async def lost(self, task: RawTask) -> list[tuple[str, Episode]]:
        """Episodes that the server knows nothing of: without a handle, with a forged and with a damaged one."""

    async def unknown_places(self, name: str, arguments: Json) -> list[tuple[str, Said]]:
        """Further ways to ask for a session that does not exist, with one tool to call."""
        return []

    @abstractmethod
    async def control_calls(self, episode: Episode) -> list[tuple[str, Said]]:
        """Control calls as a policy would make them, by name."""

    @abstractmethod
    async def send_malformed(self, episode: Episode, what: str) -> Said:
        """Send one of the `malformed_kinds`."""

    @abstractmethod
    def without_token(self) -> Self:
        """The same wire as somebody without the token reaches it."""

    # ---- forms: what is wrong with an answer, in words

    @abstractmethod
    def form_of_seed(self, episode: Episode) -> list[str]: ...

    @abstractmethod
    def form_of_call(self, said: Said) -> list[str]: ...

    @abstractmethod
    def form_of_verify(self, graded: Graded) -> list[str]: ...

    @abstractmethod
    def form_of_full(self, said: Said) -> str:
        """What is wrong with how a full server refuses a seed; empty where nothing is."""

    def own_part(self, graded: Graded) -> Any:
        """What the server itself said in a verify's answer: without what it must repeat."""
        return graded.said.body if graded.said.body is not None else graded.said.text

    # ---- what was opened and answered

    def exchange(self, request: str, answer: str) -> Exchange:
        """As it may be shown: never with a secret in it, which a server may have sent back."""
        return Exchange.of(self.place.hide(request), self.place.hide(answer))

    def noted(self, said: Said) -> Said:
        if len(self.answers) < 20_000:
            self._kept += len(said.text)
            is_whole = self._kept <= MAX_KEPT
            self.answers.append(said if is_whole else replace(said, text=cut(said.text, MAX_ANSWER), body=None))
        return said

    def began(self, episode: E) -> E:
        """To be closed with the others. Before its seed is answered: the answer may never come."""
        self._open.append(episode)
        return episode

    def refused(self, episode: Episode, said: Said) -> NoReturn:
        """Raises `SeedRefused`. What was refused holds no place; where the answer is lost, it may."""
        if said.kind is not Kind.BROKEN:
            self._open.remove(episode)
        raise SeedRefused(said)

    async def close_all(self) -> None:
        """Close what is open, all at once; whatever was closed before stays so. Raises what a close raised.

        A server that answers no close costs `CLOSING_S`, however many sessions it holds.
        """
        closing = [asyncio.ensure_future(episode.close()) for episode in self._open]
        self._open = []
        if not closing:
            return
        try:
            done, _ = await asyncio.wait(closing, timeout=CLOSING_S)
        finally:
            for task in closing:
                task.cancel()
            await asyncio.gather(*closing, return_exceptions=True)
        for task in done:
            task.result()

    # ---- requests

    async def post(self, url: URL, body: bytes, headers: Mapping[str, str]) -> tuple[Reply | None, str, float]:
        """The reply and its seconds, or None and why there is none: also where a header cannot carry what it gave."""
        started = perf_counter()
        try:
            reply = await self.place.pool.post(url, body, headers, ANSWER_TIMEOUT_S, Stage.CALL)
        except (Undelivered, SessionFailed, ValueError) as error:
            return None, str(error), perf_counter() - started
        return reply, "", perf_counter() - started
