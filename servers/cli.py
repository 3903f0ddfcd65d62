"""The `gymwire` command: finds its subcommands by entry point and imports only the one that is called."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

INTERRUPTED_EXIT = 130
GROUP = "gymwire.commands"
ABOUT = "Write an environment once, serve it as MCP, OpenEnv and NeMo Gym, drive it, score it."


def main() -> None:
    """Entry point of the console script, and of `python -m gymwire.servers.cli`."""
    try:
        build(_wanted())(prog_name="gymwire")
    except KeyboardInterrupt:  # while a command is imported; one that runs says so itself
        sys.exit(INTERRUPTED_EXIT)


def build(wanted: str) -> typer.Typer:
    """The command tree; commands that were not asked for are names with a summary."""
    app = typer.Typer(name="gymwire", help=ABOUT, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_root)
    for point in sorted(entry_points(group=GROUP), key=lambda item: item.name):
        if point.name != wanted:
            app.command(point.name, help=_summary(point))(_placeholder)
            continue
        command: typer.Typer | Callable[..., object] = point.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(command)
    return app


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gymwire {metadata.version('gymwire')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Show which gymwire this is.")
    ] = False,
) -> None:
    """Write an environment once, serve it as MCP, OpenEnv and NeMo Gym, drive it, score it."""


def _placeholder() -> None:
    """Stands for a command that this call did not ask for."""


def _wanted() -> str:
    """The subcommand on the command line, or in the words that a shell wants completed."""
    words = os.environ.get("COMP_WORDS", "").split()[1:] or os.environ.get("_TYPER_COMPLETE_ARGS", "").split()[1:]
    return next((word for word in words or sys.argv[1:] if not word.startswith("-")), "")


def _summary(point: EntryPoint) -> str:
    """The first line of the command's module docstring, read from its file: its package is not imported either."""
    package, rest = point.module.split(".")[:2], point.module.split(".")[2:]
    spec = find_spec(".".join(package))
    if spec is None or spec.origin is None:
        return ""
    file = Path(spec.origin).parent.joinpath(*rest).with_suffix(".py") if rest else Path(spec.origin)
    try:
        return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]
    except OSError:
        return ""


if __name__ == "__main__":
    main()
