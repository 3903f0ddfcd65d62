"""Make a bearer token for `gymwire serve --token-file`."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Annotated

import typer

from ..auth import ADMIN, PLAY, SCOPES
from .options import stop

app = typer.Typer(help="Make a bearer token for `gymwire serve --token-file`.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Make a bearer token for `gymwire serve --token-file`."""


@app.command()
def new(
    file: Annotated[
        Path | None, typer.Option(help="Add the token to this file too (made for its owner alone: 0600).")
    ] = None,
    scope: Annotated[
        list[str],
        typer.Option(
            help=f"What it may do: {PLAY} or {ADMIN}; repeatable. Default: both.", autocompletion=lambda: sorted(SCOPES)
        ),
    ] = [],  # noqa: B006
    name: Annotated[
        str, typer.Option(help="Whose it is. Tokens of one name share their sessions, as for a rotation.")
    ] = "",
) -> None:
    """Print a new token. A server reads its file again by itself; take the old line out when nobody uses it."""
    if unknown := set(scope) - SCOPES:
        stop(f"--scope {sorted(unknown)[0]!r} does not exist; choose {PLAY} or {ADMIN}")
    if name and re.fullmatch(r"[A-Za-z0-9._-]{1,64}", name) is None:
        stop("--name takes letters, digits, dot, dash and underscore, 64 at most")
    token = secrets.token_urlsafe(32)
    if file is not None:
        _add(file, " ".join([token, *sorted(set(scope)), *([f"name={name}"] if name else [])]))
    typer.echo(token)


def _add(file: Path, line: str) -> None:
    """Append in one write, so that a server never reads half a token."""
    try:
        number = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(number, "rb+") as opened:
            size = opened.seek(0, os.SEEK_END)
            opened.seek(max(size - 1, 0))
            ends = opened.read(1) in (b"", b"\n")
            opened.write(f"{'' if ends else chr(10)}{line}\n".encode())
    except OSError as error:
        stop(f"{file} cannot be written: {error.strerror or error}", 1)
