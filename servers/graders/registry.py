"""Which graders there are, and what a grader is.

A grader is a function, sync or async, that asks by parameter name for what it reads: any column of the row's data,
`completion` (the text of the policy's last message), `transcript`, `row`, or a resource that the server gives
(`sandbox`, `judge`). It returns a number, a bool, or a mapping of named parts whose sum is its score. What it raises is
our failure, never a score.

    def ends_with(completion: str, suffix: str) -> bool:
        return completion.endswith(suffix)

`completion` and a column that is called `answer` are never mixed up: `answer` is the row's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from ..environment import DefinitionError
from ..settings import load_function

F = TypeVar("F", bound=Callable[..., Any])

#: What every grader may ask for beside the row's columns. A row cannot replace them.
GIVEN = frozenset({"completion", "transcript", "row"})
#: What a server gives its graders, and how it comes to have it: neither a column nor an argument can stand for it.
RESOURCES: Mapping[str, str] = {
    "judge_endpoint": "a judge: --set judge_url=http://HOST/v1 --set judge_model=NAME",
    "sandbox": "a sandbox, which a server opens whose rows or settings name this grader",
}
#: Where the built-in graders are: imported when one is first named.
BUILT_IN: Mapping[str, str] = {
    "math": "gymwire.servers.graders.math:math",
    "boxed_choice": "gymwire.servers.graders.choice:boxed_choice",
    "choice": "gymwire.servers.graders.choice:choice",
    "exact": "gymwire.servers.graders.text:exact",
    "regex": "gymwire.servers.graders.text:regex",
    "qa_match": "gymwire.servers.graders.text:qa_match",
    "code": "gymwire.servers.graders.code:code",
    "judge": "gymwire.servers.graders.judge:judge",
    "equivalence": "gymwire.servers.graders.judge:equivalence",
}


@dataclass(frozen=True, slots=True)
class Grader:
    """A grader by name, and what it asks for."""

    name: str
    function: Callable[..., Any]
    required: tuple[str, ...]
    optional: tuple[str, ...]
    takes_all: bool = False  # it has **fields: all columns of the row
    check: Callable[..., None] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        return self.required + self.optional

    @classmethod
    def of(cls, name: str, function: Callable[..., Any]) -> Grader:
        """Read a function's parameters. Raises `DefinitionError` for what cannot be given by name."""
        required: list[str] = []
        optional: list[str] = []
        takes_all = False
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise DefinitionError(f"grader {name!r}: {parameter} cannot be given by name")
            if parameter.kind is parameter.VAR_KEYWORD:
                takes_all = True
            else:
                (required if parameter.default is parameter.empty else optional).append(parameter.name)
        return cls(name, function, tuple(required), tuple(optional), takes_all, getattr(function, _CHECK, None))


_CHECK = "__gymwire_check__"


def grader(*, check: Callable[..., None]) -> Callable[[F], F]:
    """Give a grader a `check`: it asks for columns like the grader, runs when a session is seeded (and for every row
    of a file when it is read), and raises `RowError` for a row that could not be graded."""

    def put(function: F) -> F:
        setattr(function, _CHECK, check)
        return function

    return put


def find(name: str) -> Grader:
    """A built-in grader by its name. Raises `DefinitionError` that says what there is."""
    if name not in BUILT_IN:
        raise DefinitionError(unknown(name, list(BUILT_IN)))
    return load(BUILT_IN[name], name)


def load(target: str, name: str = "") -> Grader:
    """A grader as `module:function` or `file.py:function`. Only a server's settings name one so, never a row."""
    return Grader.of(name or target.rpartition(":")[2], load_function(target))


def unknown(name: Any, known: Sequence[str]) -> str:
    """The sentence about a name that is no grader."""
    close = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"no grader is called {name!r:.60}.{hint} There are: {', '.join(known)}"
