"""`--from functions file.py`: the public functions of a module as tools.

The module defines `verify(transcript)`, and may define `rows(split, count, seed)` with `splits = ("train", "eval")`,
and `max_turns`. Functions see no session: what they keep in the module is shared by all of them.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

from ...servers.environment import DefinitionError, Environment, snake_case
from ...servers.settings import load_module

#: Functions of the module that are no tools.
OWN = ("verify", "rows")


def environment(target: str) -> type[Environment]:
    """The environment of a module, named as a file or as `package.module`. Raises `DefinitionError`."""
    module = load_module(target)
    tools = [function for name, function in vars(module).items() if _is_tool(module, name, function)]
    if not tools:
        raise DefinitionError(f"{target} defines no public function, so there is no tool")
    if not callable(getattr(module, "verify", None)):
        raise DefinitionError(f"{target} defines no verify(transcript): how is an episode scored?")
    more = {name: vars(module)[name] for name in ("splits", "max_turns") if name in vars(module)}
    if callable(getattr(module, "rows", None)):
        more["rows"] = staticmethod(module.rows)
    verify = module.verify
    try:
        inspect.signature(verify).bind(None)
    except TypeError as error:
        raise DefinitionError(f"{target}: verify takes the transcript alone: {error}") from None
    stem = Path(target).stem if target.endswith(".py") else target.rpartition(".")[2]
    name = snake_case(re.sub(r"[^A-Za-z0-9_.-]", "_", stem))
    made = Environment.from_functions(tools, verify=verify, name=name, **more)
    made.__doc__ = module.__doc__
    return made


def _is_tool(module: ModuleType, name: str, value: object) -> bool:
    public = not name.startswith("_") and name not in OWN
    return public and inspect.isfunction(value) and value.__module__ == module.__name__
