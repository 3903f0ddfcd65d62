"""What several commands share: reading `ENV`, `--set` and `--rows`, and ending with one sentence."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
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
    given = _by_environment(settings, names, "--set key=value")
    files = _by_environment(rows, names, "--rows FILE", plain=True)
    functions = _tools_by_environment(tools, names)
    made = []
    for name in names:
        values = {key: _value(text) for key, text in given.get(name, {}).items()}
        file = files.get(name, {}).get("")
        try:
            environment = with_tools(find(name), functions.get(name, ()))
            served = Served(environment, values, Path(file) if file else None, sandbox)
            for split in served.rows.splits if file else ():
                served.rows.count(split)
        except (DefinitionError, RowError, OSError) as error:
            stop(str(error))
        if any(served.name == other.name for other in made):
            stop(f"two environments are called {served.name!r}; give one a `name` of its own")
        made.append(served)
    return made


def with_tools(environment: type[Environment], targets: Sequence[str]) -> type[Environment]:
    """The environment with plain functions as further tools, each named as `module:function` or `file.py:function`.

    It is not replayable any more: what a function keeps is in no snapshot.
    """
    if not targets:
        return environment
    functions = [load_function(target) for target in targets]
    body = {"name": environment.name, "tools": (*environment.tools, *functions), "__doc__": environment.__doc__}
    return type(environment.__name__, (environment,), body | {"replayable": False})


def _tools_by_environment(items: Iterable[str], names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in items:
        name, _, target = _split(item, names, plain=True)
        if name is None and len(names) > 1:
            stop(f"--tools {item!r}: say for which environment: {names[0]}={item}")
        place, _, functions = target.rpartition(":")
        found.setdefault(name or names[0], []).extend(f"{place}:{function}" for function in functions.split(","))
    return found


def _by_environment(
    items: Iterable[str], names: Sequence[str], form: str, *, plain: bool = False
) -> dict[str, dict[str, str]]:
    """`[ENV:]key=value` (or `[ENV=]FILE`) by environment; without ENV it is for the only one."""
    found: dict[str, dict[str, str]] = {}
    for item in items:
        name, key, value = _split(item, names, plain)
        if not plain and not key:
            stop(f"{item!r} is no {form}")
        if name is None and len(names) > 1:
            stop(f"{form} {item!r}: say for which environment: {names[0]}{'=' if plain else ':'}{item}")
        found.setdefault(name or names[0], {})[key] = value
    return found


def _split(item: str, names: Sequence[str], plain: bool) -> tuple[str | None, str, str]:
    for name in names:
        mark = f"{name}=" if plain else f"{name}:"
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
