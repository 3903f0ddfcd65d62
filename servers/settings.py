"""What `--set` says, given to whatever names it; and functions named as `module:function` or `file.py:function`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from .failures import told
from .schema import DefinitionError


def accepted(function: Callable[..., Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a function has parameters for; all of them where it takes `**settings`."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {key: value for key, value in settings.items() if takes_all or key in parameters}


@lru_cache(256)
def load_function(target: str) -> Callable[..., Any]:
    """The function that `package.module:function` or `path/to/file.py:function` names. Raises `DefinitionError`."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name.isidentifier():
        raise DefinitionError(f"{target!r} names no function: write module:function or file.py:function")
    module = load_module(place)
    function = getattr(module, name, None)
    if not callable(function):
        there = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise DefinitionError(f"{place} has no function {name!r}; it has: {', '.join(there) or 'none'}")
    return function


def load_module(place: str) -> ModuleType:
    """The module that `package.module` or `path/to/file.py` names. Raises `DefinitionError`."""
    try:
        return _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except DefinitionError:
        raise
    except (Exception, SystemExit) as error:  # the boundary of somebody's module
        raise DefinitionError(f"importing {place!r} failed: {told(error)}") from error


def _load_file(path: Path) -> ModuleType:
    """A file as a module of its own name; what stands beside it can be imported by it."""
    if not path.is_file():
        raise DefinitionError(f"there is no file {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(path.resolve()):
        return known
    if known is not None:
        name = f"{name}_{abs(hash(path.resolve()))}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
