"""Begin an environment of your own: a small package that runs and is tested from the start."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from ..catalog import installed
from ..environment import RESERVED_NAMES
from .options import stop

#: The template is a working package under this name.
TEMPLATE_NAME = "guess-number"
NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")
MAX_NAME = 48


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters and digits, - between words.")],
    folder: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="The folder to make; default ./NAME.")
    ] = None,
) -> None:
    """Begin an environment of your own: a small package that runs and is tested from the start."""
    _check(name)
    target = folder if folder is not None else Path(name)
    if target.exists() or target.is_symlink():
        stop(f"{target} exists already; choose another folder with --dir")
    try:
        written = write(name, target)
    except OSError as error:
        stop(f"{target} cannot be written: {error.strerror or error}")
    typer.echo(f"{target}: {', '.join(written)}")
    typer.echo("Next:")
    for command in next_commands(name, target):
        typer.echo(f"  {command}")


def next_commands(name: str, target: Path) -> tuple[str, ...]:
    """What to type after it, with the commands of the Python that runs this."""
    python, gymwire = shell_command("python"), shell_command("gymwire")
    return (
        f"cd {shlex.quote(str(target))}",
        f'{python} -m pip install -e ".[dev]"',
        f"{python} -m pytest",
        f"{gymwire} play {module_name(name)}",
        f"{gymwire} serve {module_name(name)}",
    )


def write(name: str, target: Path) -> list[str]:
    """Copy the template under a new name; answers the files written."""
    written = []
    for path, content in sorted(template()):
        text = renamed(content, name)
        place = target / renamed(path, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", newline="\n")
        written.append(place.name)
    return written


def template() -> Iterator[tuple[str, str]]:
    """Paths and texts of the template's files."""
    yield from _texts(files("gymwire.servers") / "templates" / "environment", PurePosixPath())


def _texts(folder: Traversable, inside: PurePosixPath) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.name.startswith((".", "__pycache__")):
            continue
        if item.is_dir():
            yield from _texts(item, inside / item.name)
        else:
            yield str(inside / item.name), item.read_text(encoding="utf-8")


def renamed(text: str, name: str) -> str:
    """The template's own name in its three spellings, replaced."""
    for spell in (distribution_name, module_name, class_name):
        text = text.replace(spell(TEMPLATE_NAME), spell(name))
    return text


def distribution_name(name: str) -> str:
    return name.replace("_", "-")


def module_name(name: str) -> str:
    return name.replace("-", "_")


def class_name(name: str) -> str:
    return "".join(word.capitalize() for word in module_name(name).split("_"))


def _check(name: str) -> None:
    """End the command where no package can be called this."""
    module = module_name(name)
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        stop(f"{name!r} is no name for a package: write lower-case letters and digits, with - between words")
    if module in RESERVED_NAMES:
        stop(f"{name!r} is a route of every server; choose another name")
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        stop(f"{name!r} is a word of Python itself; choose another name")
    if module in installed():
        stop(f"an environment called {module!r} is installed already; choose another name")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        stop(f"a Python module called {module!r} exists already; choose another name")


def shell_command(name: str, *, from_here: bool = False) -> str:
    """What to type for a command: its bare name where a shell finds the one beside this Python, else its path."""
    beside = Path(sys.executable).parent / name
    found = shutil.which(name)
    if found and Path(found).parent == beside.parent:
        return name
    if from_here and beside.is_relative_to(Path.cwd()):
        beside = beside.relative_to(Path.cwd())
    return shlex.quote(str(beside))
