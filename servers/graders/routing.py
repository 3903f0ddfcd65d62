"""From a row's `verifier` to a reward.

`verifier` is a name, a list of names, or entries `{"name": ..., "weight": ..., "as": ..., ...arguments}`. Every grader
becomes a component of the reward, its score times its weight (1 unless said); their sum is the reward. An argument
stands for the column of the same name. Unknown graders, missing columns and wrong arguments are found when the row is
seeded, or when its file is read, with a sentence that lists what the row has.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..environment import DefinitionError
from ..failures import BadReward
from ..process_figures import GRADERS
from ..results import finite_number
from ..types import Row, RowError, Transcript
from . import registry
from .registry import GIVEN, RESOURCES, Grader

VERIFIER = "verifier"
#: NeMo Gym rows keep graders' columns in here as often as beside it.
METADATA = "verifier_metadata"
#: Keys of an entry that are no arguments.
ENTRY_KEYS = frozenset({"name", "weight", "as"})
#: Which columns hold what the built-in graders call `expected_answer`, the first that a row has.
ANSWER_COLUMNS = (
    *("expected_answer", "answer", "expected", "target", "solution", "label"),
    *("gold", "reference", "ground_truth", "final_answer", "answers", "answerKey"),
)
OPTION_COLUMNS = ("options", "choices")


def columns_of(answer: Sequence[str]) -> dict[str, Sequence[str]]:
    """Where a router looks for what goes by several names, with the expected answer in one of these columns."""
    return {"expected_answer": answer, "options": OPTION_COLUMNS}


@dataclass(frozen=True, slots=True)
class Entry:
    """One grader of a plan, with everything that it asks for but the transcript."""

    grader: Grader
    component: str
    weight: float
    fields: Mapping[str, Any]

    def call(self, transcript: Transcript, row: Row) -> Any:
        """Call the grader: its score, or an awaitable of it."""
        given = {"completion": transcript.answer, "transcript": transcript, "row": row}
        asked = {name: value for name, value in given.items() if name in self.grader.parameters}
        return GRADERS.timed(self.grader.name, lambda: self.grader.function(**self.fields, **asked))

    def parts(self, score: Any) -> dict[str, float]:
        """The components that a score is worth. Raises `BadReward` for what is no score."""
        if not isinstance(score, Mapping):
            return {self.component: self.weight * _number(score, self.component)}
        if not score:
            raise BadReward(f"grader {self.grader.name!r} returned no part of a score")
        named = {f"{self.component}.{name}": value for name, value in score.items()}
        return {name: self.weight * _number(value, name) for name, value in named.items()}


def _number(value: Any, name: str) -> float:
    return float(value) if isinstance(value, bool) else finite_number(value, f"grader {name!r}")


@dataclass(frozen=True, slots=True)
class Plan:
    """How one row is graded."""

    row: Row
    entries: tuple[Entry, ...]

    def grade(self, transcript: Transcript) -> dict[str, float] | Coroutine[Any, Any, dict[str, float]]:
        """The components of the reward; a coroutine of them where a grader is async.

        A sync grader runs before this returns: return it from a sync `verify`, which has a thread of its own.
        """
        scores: list[Any] = []
        try:
            for entry in self.entries:
                scores.append(entry.call(transcript, self.row))
        except BaseException:
            _drop(scores)
            raise
        if any(inspect.isawaitable(score) for score in scores):
            return self._finish(scores)
        return self._sum(scores)

    async def _finish(self, scores: Sequence[Any]) -> dict[str, float]:
        waiting = {index: asyncio.ensure_future(score) for index, score in enumerate(scores) if _waits(score)}
        for index, task in waiting.items():
            GRADERS.follow(self.entries[index].grader.name, task)
        try:
            done = dict(zip(waiting, await asyncio.gather(*waiting.values()), strict=True))
        finally:
            for task in waiting.values():
                task.cancel()
        return self._sum([done.get(index, score) for index, score in enumerate(scores)])

    def _sum(self, scores: Sequence[Any]) -> dict[str, float]:
        components: dict[str, float] = {}
        for entry, score in zip(self.entries, scores, strict=True):
            components |= entry.parts(score)
        return components


def _waits(score: Any) -> bool:
    return inspect.isawaitable(score)


def _drop(scores: Sequence[Any]) -> None:
    for score in scores:
        if inspect.iscoroutine(score):
            score.close()


@dataclass
class Router:
    """Plans for the rows of one server.

    default: the `verifier` of rows that name none.
    extra: graders beside the built-in ones, by name.
    columns: for a field that graders ask for, the columns that may hold it, the best first.
    resources: what the server gives its graders (`registry.RESOURCES`).
    """

    default: Any = None
    extra: Mapping[str, Grader] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=lambda: columns_of(ANSWER_COLUMNS))
    resources: Mapping[str, Any] = field(default_factory=dict)

    def names(self) -> list[str]:
        return [*self.extra, *(name for name in registry.BUILT_IN if name not in self.extra)]

    def plan(self, row: Row) -> Plan:
        """Raises `RowError` for a row that cannot be graded, with the fix."""
        verifier = row.data.get(VERIFIER, self.default)
        if verifier is None or verifier == []:
            raise RowError(f"no grader is named: give the row a `{VERIFIER}`, one of {', '.join(self.names())}")
        items = verifier if isinstance(verifier, list) else [verifier]
        entries: list[Entry] = []
        for item in items:
            entry = self._entry(item, row, {entry.component for entry in entries})
            entries.append(entry)
        return Plan(row, tuple(entries))

    def _entry(self, item: Any, row: Row, taken: set[str]) -> Entry:
        said = {"name": item} if isinstance(item, str) else item
        if not isinstance(said, Mapping) or not isinstance(said.get("name"), str):
            form = '{"name": ..., "weight": ..., ...arguments}'
            raise RowError(f"`{VERIFIER}` is a grader's name, an entry {form}, or a list of those; got {item!r:.80}")
        grader = self.grader(said["name"])
        arguments = {key: value for key, value in said.items() if key not in ENTRY_KEYS}
        fields = self._fields(grader, arguments, row)
        if grader.check is not None:
            _check(grader, fields)
        return Entry(grader, _component(said, taken), _weight(said), fields)

    def grader(self, name: str) -> Grader:
        """A grader by name. Raises `RowError`."""
        if name in self.extra:
            return self.extra[name]
        if name not in registry.BUILT_IN:
            raise RowError(registry.unknown(name, self.names()))
        return registry.find(name)

    def _fields(self, grader: Grader, arguments: Mapping[str, Any], row: Row) -> dict[str, Any]:
        for name in arguments:
            if name in GIVEN or name in RESOURCES:
                raise RowError(f"grader {grader.name!r}: {name!r} comes from the server and is no argument")
            if name not in grader.parameters and not grader.takes_all:
                takes = [name for name in grader.parameters if name not in GIVEN and name not in RESOURCES]
                raise RowError(f"grader {grader.name!r} takes no argument {name!r}; it takes: {', '.join(takes)}")
        known = _Known(arguments, self.resources, row.data, self.columns)
        fields = known.all_columns() if grader.takes_all else {}
        for name in grader.parameters:
            if name in GIVEN:
                continue
            value = known.get(name)
            if value is not None:
                fields[name] = value
            elif name in grader.required:
                raise RowError(self._missing(grader, name, row))
        return fields

    def _missing(self, grader: Grader, name: str, row: Row) -> str:
        if name in RESOURCES:
            return f"grader {grader.name!r} needs {RESOURCES[name]}"
        has = ", ".join(key for key in row.data if key != VERIFIER) or "no column"
        tried = self.columns.get(name, ())
        others = [other for other in tried if other != name]
        also = f" (or {', '.join(others)})" if others else ""
        return f"grader {grader.name!r} needs {name!r}{also}, as a column or as its argument; the row has: {has}"


@dataclass(frozen=True, slots=True)
class _Known:
    """Where a field's value may be, the nearest first."""

    arguments: Mapping[str, Any]
    resources: Mapping[str, Any]
    data: Mapping[str, Any]
    columns: Mapping[str, Sequence[str]]

    def get(self, name: str) -> Any:
        if name in RESOURCES:
            return self.resources.get(name)
        if name in self.arguments:
            return self.arguments[name]
        for column in self.columns.get(name, (name,)):
            for place in (self.data, self.metadata()):
                if place.get(column) is not None:
                    return place[column]
        return None

    def metadata(self) -> Mapping[str, Any]:
        inner = self.data.get(METADATA)
        return inner if isinstance(inner, Mapping) else {}

    def all_columns(self) -> dict[str, Any]:
        """For a grader that has `**fields`."""
        columns = {**self.metadata(), **self.data, **self.arguments}
        for name in (VERIFIER, *GIVEN, *RESOURCES):
            columns.pop(name, None)
        return columns


def names_in(verifier: Any) -> list[str]:
    """The graders that a `verifier` names, as far as it is one."""
    items = verifier if isinstance(verifier, list) else [verifier]
    names = [item.get("name") if isinstance(item, Mapping) else item for item in items]
    return [name for name in names if isinstance(name, str)]


def _check(grader: Grader, fields: Mapping[str, Any]) -> None:
    assert grader.check is not None
    wanted = inspect.signature(grader.check).parameters
    try:
        grader.check(**{name: value for name, value in fields.items() if name in wanted})
    except (RowError, DefinitionError) as error:
        raise RowError(f"grader {grader.name!r}: {error}") from error


def _component(said: Mapping[str, Any], taken: set[str]) -> str:
    name = said.get("as", said["name"])
    if not isinstance(name, str) or not name:
        raise RowError(f"`as` names a grader's component; got {name!r:.60}")
    if name in taken:
        raise RowError(f"two graders have the component {name!r}; name one of them with `as`")
    return name


def _weight(said: Mapping[str, Any]) -> float:
    weight = said.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not abs(weight) < 1e9:
        raise RowError(f"the weight of {said['name']!r} is a number, got {weight!r:.60}")
    return float(weight)
