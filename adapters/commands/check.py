"""Examine any server: which promises of its protocol it keeps, with evidence and fix."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...servers.auth import TokenError, read_tokens
from ...servers.cli import INTERRUPTED_EXIT
from ...servers.commands.options import stop
from ...servers.rows import read_rows
from ...servers.types import Json, RowError
from ..calls import BadToolCall, read_arguments
from ..doctor.findings import Finding, hidden, legible
from ..doctor.opening import Target, open_patient
from ..doctor.patient import Options
from ..doctor.promises import PROMISES, Promise
from ..doctor.report import as_json, print_report, write_junit
from ..doctor.run import CannotExamine, examine, is_well
from ..foreign import McpOptions
from ..resolve import FACES
from ..session import WrongRequest
from . import foreign_options as strangers

BROKEN_EXIT = 1


def _names(incomplete: str) -> list[str]:
    return [name for name in PROMISES if name.startswith(incomplete)]


def check(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="A server's root, an environment of it, or a face.")] = "",
    wire: Annotated[
        str | None, typer.Option(help="nemo-gym, openenv or mcp.", autocompletion=lambda: list(FACES.values()))
    ] = None,
    env: Annotated[str | None, typer.Option(help="Which environment, where the URL serves several.")] = None,
    split: Annotated[str | None, typer.Option(help="Which split's rows; default the first.")] = None,
    rows: Annotated[
        Path | None, typer.Option(help="Seed these rows; a NeMo Gym server of others needs them.", metavar="FILE")
    ] = None,
    token: Annotated[str | None, typer.Option(help="The server's bearer token.", envvar="GYMWIRE_TOKEN")] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file with the token in its first line.")] = None,
    trainer: Annotated[
        Literal["gymwire", "nemo-rl", "prime-rl", "verifiers"],
        typer.Option(help="Whose form of a masked failure is expected."),
    ] = "gymwire",
    seconds: Annotated[float, typer.Option(help="How long it may take; what needs longer is not applicable.")] = 60.0,
    sessions: Annotated[int, typer.Option(help="Sessions at once, at most.", min=1, max=64)] = 64,
    max_p95: Annotated[float, typer.Option(help="Seconds in which 95 % of the calls are answered under load.")] = 2.0,
    call: Annotated[
        list[str],
        typer.Option(
            metavar="'TOOL {…}'",
            help="Call these tools with these arguments, and no others; repeatable. Default: up to six tools, with "
            "values made from their schemas, or words of their descriptions.",
        ),
    ] = [],  # noqa: B006
    only: Annotated[
        list[str], typer.Option(metavar="PROMISE", help="Test this alone; repeatable.", autocompletion=_names)
    ] = [],  # noqa: B006
    skip: Annotated[
        list[str], typer.Option(metavar="PROMISE", help="Leave this out; repeatable.", autocompletion=_names)
    ] = [],  # noqa: B006
    state_tool: strangers.StateTool = "",
    state_arg: strangers.StateArg = "",
    reward_tool: strangers.RewardTool = "",
    as_data: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Write the findings as JUnit's XML, too.", metavar="FILE")] = None,
    list_promises: Annotated[bool, typer.Option("--list", help="List the promises, a line each.")] = False,
) -> None:
    """Examine any server: which promises of its protocol it keeps, with evidence and fix."""
    if list_promises:
        _list()
        return
    if not url:
        stop("which server? Give its URL, or --list")
    for name in (*only, *skip):
        if name not in PROMISES:
            stop(f"there is no promise {name!r}; --list shows them")
    if wire is not None:
        strangers.check_options_of(context, wire)
    if not (seconds > 0 and max_p95 > 0):
        stop("--seconds and --max-p95 are seconds, more than 0")
    options = Options(
        seconds=seconds,
        sessions=sessions,
        max_p95_s=max_p95,
        trainer=trainer,
        calls=[_call(text) for text in call],
        only=frozenset(only),
        skip=frozenset(skip),
    )
    mcp = McpOptions(state_tool=state_tool, state_arg=state_arg, reward_tool=reward_tool)
    target = Target(url, wire, env, token, split, (), mcp)
    try:
        known = read_rows(rows) if rows is not None else []
        secret = token if token_file is None else read_tokens(token_file)[0]
        target = replace(target, token=secret, rows=known)
        where, chosen, findings = asyncio.run(_examined(target, options))
    except (RowError, OSError, TokenError, WrongRequest, CannotExamine) as error:
        stop(" ".join(_shown(str(error), target).split()))
    except (KeyboardInterrupt, asyncio.CancelledError):
        stop("interrupted; every session that can be given back is", INTERRUPTED_EXIT)
    _tell(_shown(where, target), chosen, findings, as_data, junit)
    raise typer.Exit(0 if is_well(findings) else BROKEN_EXIT)


def _shown(text: str, target: Target) -> str:
    return legible(hidden(text, target.secrets))


async def _examined(target: Target, options: Options) -> tuple[str, str, list[Finding]]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # as Ctrl-C: sessions are given back
    patient = await open_patient(target, options)
    console = Console(stderr=True, highlight=False)
    try:
        with console.status("looking …") as status:

            def watch(promise: Promise) -> None:
                status.update(f"{promise.name}: {promise.means}")

            findings = await examine(patient, watch)
    finally:
        await patient.wire.place.pool.close()
    return str(patient.wire.place.url), patient.wire.name, findings


def _tell(where: str, wire: str, findings: Sequence[Finding], as_data: bool, junit: Path | None) -> None:
    if as_data:
        typer.echo(json.dumps(as_json(where, wire, findings), indent=2, ensure_ascii=False))
    else:
        print_report(Console(highlight=False, emoji=False), f"{where} ({wire})", findings)
    if junit is not None:
        try:
            write_junit(junit, where, wire, findings)
        except OSError as error:
            stop(f"{junit} cannot be written: {error.strerror or error}")


def _call(text: str) -> tuple[str, Json]:
    name, _, rest = text.strip().partition(" ")
    try:
        return name, read_arguments(rest)
    except BadToolCall as error:
        stop(f"--call {text!r}: {error}")


def _list() -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for promise in PROMISES.values():
        table.add_row(Text(promise.name, style="bold"), Text(", ".join(promise.wires)), Text(promise.means))
    Console(highlight=False).print(table)
