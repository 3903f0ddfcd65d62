"""Which names tests use that only the program can define. Reads the row's source; the policy's is never parsed here."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable

from ..types import RowError

_BUILT_IN = frozenset(dir(builtins))


def free_names(common: Iterable[str], tests: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The standard modules that tests use without an import, and the names that they leave to the program.

    A name that the row's own code binds anywhere, and a built-in, is never taken from the program: it could bring a
    `math` of its own whose `isclose` is always true. Raises `RowError` for what is no Python.
    """
    trees = [*map(_tree, common)]
    bound = set().union(*map(_bound, trees)) if trees else set()
    free: set[str] = set()
    for tree in trees:
        free |= _used(tree) - bound
    for tree in map(_tree, tests):
        free |= _used(tree) - bound - _bound(tree)
    free -= _BUILT_IN
    modules = free & sys.stdlib_module_names
    return tuple(sorted(modules)), tuple(sorted(free - modules))


def _tree(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise RowError(f"a test is no Python: {error}: {source!r:.80}") from error


def _used(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    return names
