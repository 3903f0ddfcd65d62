"""Write what another training stack needs to use a served environment."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from ...servers.commands.options import first_argument, stop
from ...servers.types import RowError
from ...servers.wording import counted
from ..exports.facts import Wanted, facts_of
from ..exports.folder import ExportError, write_folder
from ..exports.target import API_KEY_VAR, BASE_URL, MODEL, Options, Target
from ..session import SessionFailed, WrongRequest
from .endpoint_url import endpoint_url

TARGETS = ("prime-rl", "nemo-rl", "nemo-gym", "verifiers", "openenv")
ROWS, STACK = "Rows", "The other stack"
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _targets(incomplete: str) -> list[str]:
    return [name for name in TARGETS if name.startswith(incomplete)]


def _versions(context: typer.Context) -> list[str]:
    """Those of the target that the command line names by then."""
    target = first_argument(context)
    return list(_target(target).versions) if target in TARGETS else []


def export(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help=f"One of: {', '.join(TARGETS)}.", autocompletion=_targets)
    ],
    url: Annotated[str, typer.Argument(metavar="URL", help="The server: its root, /ENV or a face.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    env: Annotated[str | None, typer.Option(help="Which environment, where the URL serves several.")] = None,
    token: Annotated[str | None, typer.Option(help="The server's bearer token.", envvar="GYMWIRE_TOKEN")] = None,
    rows: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Export the rows of this file, answers included.", rich_help_panel=ROWS),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Export this split of the server; default the first.", rich_help_panel=ROWS)
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", help="At most so many rows.", min=1, metavar="COUNT", rich_help_panel=ROWS),
    ] = None,
    model: Annotated[str, typer.Option(help="The model to train or evaluate.", rich_help_panel=STACK)] = MODEL,
    base_url: Annotated[
        str, typer.Option(help="Where the model is served, for evaluations.", rich_help_panel=STACK)
    ] = BASE_URL,
    api_key_var: Annotated[
        str, typer.Option(help="The variable with that endpoint's key.", rich_help_panel=STACK)
    ] = API_KEY_VAR,
    target_version: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION",
            help="Write for this version; default the newest known.",
            autocompletion=_versions,
            rich_help_panel=STACK,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files of an earlier export.")] = False,
) -> None:
    """Write what another training stack needs to use a served environment."""
    if rows is not None and split is not None:
        stop("--rows FILE and --split name two sources of rows; give one")
    chosen = _target(target)
    if not chosen.needs_rows and (rows or split or count):
        stop(f"{target} needs no rows: its clients choose them by split and index; leave --rows, --split, --count out")
    endpoint_url(base_url, "--api-key-var")
    if not VARIABLE.fullmatch(api_key_var):
        stop("--api-key-var takes the name of a variable, such as OPENAI_API_KEY, and never the key itself")
    options = Options(_version(chosen, target_version), out.absolute(), model, base_url, api_key_var)
    try:
        wanted = Wanted(rows, split, count) if chosen.needs_rows else None
        facts = asyncio.run(facts_of(url, env, token, wanted))
        made = chosen.export(facts, options)
        write_folder(out, made.files, force=force)
    except (WrongRequest, RowError, SessionFailed, ExportError) as error:
        stop(str(error))
    rows_said = f", {counted(len(facts.rows), 'row')}" if chosen.needs_rows else ""
    typer.echo(f"{out}: {facts.name} for {target} {options.version}{rows_said}; begin with README.md")
    for warning in made.warnings:
        typer.echo(f"note: {warning}", err=True)


def _target(name: str) -> Target:
    if name not in TARGETS:
        stop(f"there is no target {name!r}; the targets are: {', '.join(TARGETS)}")
    return import_module(f"..exports.{name.replace('-', '_')}", __package__).TARGET


def _version(target: Target, asked: str | None) -> str:
    if asked is not None and asked not in target.versions:
        stop(f"--target-version {asked}: for {target.name} there are {', '.join(target.versions)}")
    return asked or target.versions[0]
