"""What several commands share: reading `ENV`, `--set` and `--rows`, and ending with one sentence."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_type_hints

import typer
from rich.console import Console

from ..catalog import Served, find, installed
from ..environment import DefinitionError, Environment
from ..sandbox.select import SharedSandbox
from ..settings import load_function
from ..types import RowError

F = TypeVar("F", bound=Callable[..., Any])
errors = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)


def stop(sentence: str, code: int = 2) -> NoReturn:
    """End the command with one sentence that names the fix."""
    errors.print(f"gymwire: {sentence}", markup=False)
    raise typer.Exit(code)


def with_options_of(command: Callable[..., Any], but: Collection[str]) -> Callable[[F], F]:
    """Give a command all options of another one, `but` some: its `**options` gets them, to hand them on."""

    def extend(function: F) -> F:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        taken = [p for name, p in inspect.signature(command).parameters.items() if name not in but]
        hints = get_type_hints(command, include_extras=True) | get_type_hints(function, include_extras=True)
        parameters = [p.replace(annotation=hints[p.name]) for p in (*own, *taken)]
        extended: Any = function
        extended.__signature__ = inspect.Signature(parameters)
        extended.__annotations__ = {p.name: p.annotation for p in parameters}
        return function

    return extend


def environment_names(incomplete: str) -> list[str]:
    """Tab completion of ENV."""
    return [name for name in installed() if name.startswith(incomplete)]


def split_names(context: typer.Context) -> list[str]:
    """Tab completion of --split, from the environment that the command line names by then."""
    name = first_argument(context)
    if name not in installed():  # a class that is none of those installed is not imported for this
        return []
    try:
        return list(find(name).splits)
    except DefinitionError:
        return []


def first_argument(context: typer.Context) -> str:
    """Of the line that is completed: what click reads of it ends at an option that lacks its value."""
    return next(iter(context.args), "")


def read_served(
    names: Sequence[str],
    settings: Iterable[str] = (),
    rows: Iterable[str] = (),
    tools: Iterable[str] = (),
    sandbox: SharedSandbox | None = None,
) -> list[Served]:
    """The environments of a command line; ends the command where one cannot be served."""
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # `package.module:Class` beside the person who calls
    found = {name: _found(name) for name in names}
    called = {environment.name: name for name, environment in found.items()} | {name: name for name in names}
    given = read_settings(settings, called)
    files = _by_environment(rows, called, "--rows FILE", plain=True)
    functions = _tools_by_environment(tools, called)
    made = []
    for name in names:
        file = files.get(name, {}).get("")
        try:
            environment = with_tools(found[name], functions.get(name, ()))
            served = Served(environment, given.get(name), Path(file) if file else None, sandbox)
            for split in served.rows.splits if file else ():
                served.rows.count(split)
        except (DefinitionError, RowError, OSError) as error:
            stop(str(error))
        if any(served.name == other.name for other in made):
            stop(f"two environments are called {served.name!r}; give one a `name` of its own")
        made.append(served)
    return made


def _found(name: str) -> type[Environment]:
    try:
        return find(name)
    except DefinitionError as error:
        stop(str(error))


def with_tools(environment: type[Environment], targets: Sequence[str]) -> type[Environment]:
    """The environment with plain functions as further tools, each named as `module:function` or `file.py:function`.

    It is not replayable any more: what a function keeps is in no snapshot.
    """
    if not targets:
        return environment
    functions = [load_function(target) for target in targets]
    body = {"name": environment.name, "tools": (*environment.tools, *functions), "__doc__": environment.__doc__}
    return type(environment.__name__, (environment,), body | {"replayable": False})


def _tools_by_environment(items: Iterable[str], called: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in items:
        name, _, target = _split(item, called, plain=True)
        name = name or _only(called, f"--tools {item!r}", f"={item}")
        place, _, functions = target.rpartition(":")
        found.setdefault(name, []).extend(f"{place}:{function}" for function in functions.split(","))
    return found


def read_settings(items: Iterable[str], called: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What `--set` says, by environment; ends the command where that cannot be read."""
    given = _by_environment(items, called, "--set key=value")
    return {name: {key: _value(text) for key, text in pairs.items()} for name, pairs in given.items()}


def _by_environment(
    items: Iterable[str], called: Mapping[str, str], form: str, *, plain: bool = False
) -> dict[str, dict[str, str]]:
    """`[ENV:]key=value` (or `[ENV=]FILE`) by environment; without ENV it is for the only one.

    ENV is what the environment is called in URLs, or on the command line: `called` tells the one by either.
    """
    found: dict[str, dict[str, str]] = {}
    for item in items:
        name, key, value = _split(item, called, plain)
        if not plain and not key:
            stop(f"{item!r} is no {form}")
        name = name or _only(called, f"{form} {item!r}", f"{'=' if plain else ':'}{item}")
        found.setdefault(name, {})[key] = value
    return found


def _only(called: Mapping[str, str], what: str, example: str) -> str:
    """The only environment; ends the command where there are several."""
    if len(set(called.values())) > 1:
        stop(f"{what}: say for which environment: {next(iter(called))}{example}")
    return next(iter(called.values()))


def _split(item: str, called: Mapping[str, str], plain: bool) -> tuple[str | None, str, str]:
    for text, name in called.items():
        mark = f"{text}=" if plain else f"{text}:"
        if item.startswith(mark):
            return (name, "", item[len(mark) :]) if plain else (name, *_pair(item[len(mark) :]))
    return (None, "", item) if plain else (None, *_pair(item))


def _pair(item: str) -> tuple[str, str]:
    key, equals, value = item.partition("=")
    return (key, value) if equals else ("", "")


def _value(text: str) -> Any:
    """JSON where it is JSON (numbers, true, lists …), else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text
