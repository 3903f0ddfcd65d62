"""The server under examination: which tools the probes call, and how an episode of them goes."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from ...servers.types import Json, Tool, text_of
from ...servers.wording import counted
from .examples import arguments_for, likely_arguments, marker, no_example
from .findings import Broken, Exchange, NotApplicable
from .wire import Episode, Graded, Kind, RawTask, RawWire, Said, SeedRefused

T = TypeVar("T")
MAX_TOOLS = 6
#: Values of a tool that sessions call with by turns.
MAX_TAKEN = 4
#: A tool slower than this is called once, and by no probe that calls often.
SLOW_S = 1.5
ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Options:
    """How thorough to be."""

    seconds: float = 60.0
    sessions: int = 64
    max_p95_s: float = 2.0
    half_open_s: float = 45.0  # ping and pong have 20 s each by default
    recovery_s: float = 10.0
    trainer: str = "gymwire"
    calls: Sequence[tuple[str, Json]] = ()  # instead of values made from the schemas
    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()


class Trace(NamedTuple):
    """An episode as it went: what every call was answered, and the verdict."""

    answers: tuple[tuple[str, Kind, str, bool], ...]
    verdict: Any
    evidence: tuple[Exchange, ...] = ()

    def without(self, names: frozenset[str]) -> tuple[Any, ...]:
        return tuple(answer for answer in self.answers if answer[0] not in names), self.verdict


@dataclass
class Survey:
    """What the first look showed."""

    tools: Sequence[Tool] = ()
    script: tuple[str, ...] = ()  # tools that probes call, in order
    ending: tuple[str, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    first: list[tuple[str, Said]] = field(default_factory=list)  # every tool's first answer
    likely: dict[str, list[Json]] = field(default_factory=dict)  # what tools take that refuse made-up values
    shaky: frozenset[str] = frozenset()  # tools that answer equal calls differently
    twice: tuple[Trace, Trace] | None = None


class Patient:
    """One wire of one server, and what is known of it so far."""

    def __init__(self, wire: RawWire, tasks: Sequence[RawTask], options: Options) -> None:
        self.wire, self.tasks, self.options = wire, tasks, options
        self.nonce = secrets.token_hex(3)
        self.ends_at = monotonic() + options.seconds
        self.survey = Survey()
        self._solos: dict[int, Trace] = {}
        self.watching: asyncio.Task[str] | None = None

    @property
    def task(self) -> RawTask:
        return self.tasks[0]

    @property
    def seconds_left(self) -> float:
        return self.ends_at - monotonic()

    @property
    def ours(self) -> bool:
        return self.wire.place.ours

    def tool(self, name: str) -> Tool:
        return next(tool for tool in self.survey.tools if tool.name == name)

    def answer(self, salt: int) -> str:
        return f"Answer: {marker(salt, self.nonce)}"

    def arguments(self, name: str, salt: int) -> Json:
        for given, arguments in self.options.calls:
            if given == name:
                return dict(arguments)
        if likely := self.survey.likely.get(name):
            return likely[salt % len(likely)]
        return arguments_for(self.tool(name), salt, self.nonce)

    # ---- episodes

    async def seed(self, task: RawTask | None = None, name: str = "") -> Episode:
        """Begin an episode. Raises `Broken`, since every seed here should succeed."""
        try:
            return await self.wire.seed(task or self.task, name)
        except SeedRefused as refused:
            raise Broken("a seed was refused where none should be", refused.said.exchange) from None

    async def play(self, *episodes: Episode, salt: int = 0, key: str = "") -> Trace:
        """The script with the values of a salt, then verify. With a key, every call is sent twice under it.

        Several episodes should be one: the calls go to each in turn.
        """
        answers, evidence = [], []
        for place, name in enumerate(self.survey.script):
            episode = episodes[place % len(episodes)]
            said = await episode.call(name, self.arguments(name, salt), f"{key}-{place}" if key else "")
            if key:
                said = await self._again(episode, name, salt, f"{key}-{place}", said)
            answers.append((name, said.kind, self.wire.place.hide(said.text), said.done))
            evidence.append(said.exchange)
            if said.done or said.kind in (Kind.REFUSED, Kind.BROKEN, Kind.FULL):
                break
        return await self._graded(episodes[-1], salt, answers, evidence)

    async def _again(self, episode: Episode, name: str, salt: int, key: str, first: Said) -> Said:
        repeated = await episode.call(name, self.arguments(name, salt), key)
        if (repeated.kind, repeated.text) != (first.kind, first.text):
            raise Broken("a call repeated under its key was answered anew", first.exchange, repeated.exchange)
        return first

    async def _graded(
        self, episode: Episode, salt: int, answers: list[tuple[str, Kind, str, bool]], evidence: list[Exchange]
    ) -> Trace:
        if not self.wire.verifies:
            return Trace(tuple(answers), None, tuple(evidence))
        graded = await episode.verify(self.answer(salt))
        return Trace(tuple(answers), graded.verdict, (*evidence, graded.said.exchange))

    async def alone(self, salt: int) -> Trace:
        """How an episode goes when no other does."""
        if salt not in self._solos:
            episode = await self.seed()
            self._solos[salt] = await self.play(episode, salt=salt)
            await episode.close()
        return self._solos[salt]

    async def went_as_alone(self, trace: Trace, salt: int, why: str) -> None:
        """Raises `Broken` where it did not, and `NotApplicable` where that cannot be told."""
        alone = await self.alone(salt)
        shaky = self.survey.shaky
        if trace.without(shaky) != alone.without(shaky):
            raise Broken(f"{why}: {differing(alone, trace)}", *parting(alone, trace))
        if self.survey.script and not any(answer[1] is Kind.OK for answer in alone.answers):
            raise NotApplicable("every call is answered by an error: name calls that are not with --call")
        if shaky:
            names = ", ".join(sorted(shaky))
            raise NotApplicable(f"{names} answers equal calls differently (see repeatable): nothing can be compared")

    async def verified(self) -> tuple[Episode, Graded]:
        """An episode that has its verdict."""
        if not self.wire.verifies:
            raise NotApplicable("this server has no verify on this wire")
        episode = await self.seed()
        for name in self.survey.script[:1]:
            await episode.call(name, self.arguments(name, 0))
        graded = await episode.verify(self.answer(0))
        if graded.said.kind is not Kind.OK:
            raise Broken("verify of a played episode is answered by an error", graded.said.exchange)
        return episode, graded

    # ---- the first look

    async def look(self) -> None:
        """Call every tool once, and the script twice. Raises `SeedRefused` where no episode begins at all."""
        episode = await self.wire.seed(self.task)
        survey = self.survey = Survey(tools=tuple(episode.tools))
        for tool in self._chosen():
            if not self.options.calls and (why := no_example(tool)):
                survey.left_out[tool.name] = why
                continue
            said = await episode.call(tool.name, self.arguments(tool.name, 0))
            if said.kind is Kind.POLICY and not self.options.calls:
                await episode.close()
                said = await self._taken(tool) or said
                episode = await self.wire.seed(self.task)
            survey.first.append((tool.name, said))
            if said.done or said.kind is Kind.REFUSED:
                survey.ending = (*survey.ending, tool.name)
                await episode.close()
                episode = await self.wire.seed(self.task)
            elif said.kind is Kind.BROKEN:
                survey.left_out[tool.name] = "it broke"
                await episode.close()
                episode = await self.wire.seed(self.task)
            elif said.seconds > SLOW_S:
                survey.left_out[tool.name] = f"it took {said.seconds:.1f} s"
            else:
                survey.script = (*survey.script, tool.name)
        await episode.close()
        survey.script *= ROUNDS
        await self._twice()

    async def _taken(self, tool: Tool) -> Said | None:
        """The first result of a tool that refuses made-up values; the likely ones that it takes are kept."""
        episode = await self.wire.seed(self.task)
        task = [text_of(message.get("content")) for message in episode.prompt]
        taken: list[Json] = []
        result = None
        for arguments in likely_arguments(tool, task):
            said = await episode.call(tool.name, arguments)
            if said.kind is Kind.OK:
                taken.append(arguments)
                result = result or said
            if said.done or said.kind not in (Kind.OK, Kind.POLICY) or said.seconds > SLOW_S or len(taken) == MAX_TAKEN:
                break
        await episode.close()
        if taken:
            self.survey.likely[tool.name] = taken
        return result

    def _chosen(self) -> list[Tool]:
        tools = list({tool.name: tool for tool in self.survey.tools}.values())
        if self.options.calls:
            named = {name for name, _ in self.options.calls}
            return [tool for tool in tools if tool.name in named]
        return tools[:MAX_TOOLS]

    async def _twice(self) -> None:
        one = await self.alone(0)
        self._solos.clear()
        other = await self.alone(0)
        self.survey.twice = (one, other)
        pairs = zip(one.answers, other.answers, strict=False)
        self.survey.shaky = frozenset(mine[0] for mine, theirs in pairs if mine != theirs)

    async def at_once(self, count: int, work: Callable[[int], Awaitable[T]]) -> list[T]:
        """Run work for 0 … count - 1 at the same time; the first failure is raised once all have ended."""
        done = await asyncio.gather(*(work(number) for number in range(count)), return_exceptions=True)
        for item in done:
            if isinstance(item, BaseException):
                raise item
        return [item for item in done if not isinstance(item, BaseException)]


def _parts_at(one: Trace, other: Trace) -> int:
    """The place of the first answer that differs; past the answers, that of the verdict."""
    pairs = zip(one.answers, other.answers, strict=False)
    same = next((place for place, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
    return min(len(one.answers), len(other.answers)) if same is None else same


def differing(one: Trace, other: Trace) -> str:
    """Where two traces part, in words."""
    place = _parts_at(one, other)
    if place < min(len(one.answers), len(other.answers)):
        mine, theirs = one.answers[place], other.answers[place]
        return f"{mine[0]} answered {mine[2]!r:.120} and {theirs[2]!r:.120}"
    if len(one.answers) != len(other.answers):
        return f"one went on for {counted(len(one.answers), 'call')}, the other for {len(other.answers)}"
    return f"the verdicts were {json.dumps(one.verdict, default=str)} and {json.dumps(other.verdict, default=str)}"


def parting(one: Trace, other: Trace) -> tuple[Exchange, ...]:
    """The exchanges in which two traces part."""
    place = _parts_at(one, other)
    return (*one.evidence[place : place + 1], *other.evidence[place : place + 1])
