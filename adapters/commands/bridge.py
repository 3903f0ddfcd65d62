"""Serve somebody else's server or environment on the other wires, under gymwire's session rules."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ...servers.auth import TokenError, read_tokens
from ...servers.commands.options import errors, read_settings, stop, with_options_of
from ...servers.commands.serve import serve
from ...servers.environment import NAME, DefinitionError, Environment
from ...servers.graders.configured import router_of
from ...servers.graders.routing import Router
from ...servers.rows import read_rows
from ...servers.types import Row, RowError
from ..bridge import made
from ..bridge.origin import Origin, bridged, explored
from ..bridge.sources import KINDS, SERVERS, hosted
from ..foreign import McpOptions, OpenEnvOptions
from ..session import SessionFailed, WrongRequest
from . import foreign_options as strangers
from .foreign_options import STRANGERS

#: Options of `gymwire serve` that a bridge has no use for, or gives itself.
NOT_OURS = ("environments", "tools")
#: What is served, as `gymwire serve` finds it.
MADE = f"{made.__name__}:Environment"


def _kinds(incomplete: str) -> list[str]:
    return [kind for kind in KINDS if kind.startswith(incomplete)]


@with_options_of(serve, but=NOT_OURS)
def bridge(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A server's URL; for mcp also a command; package.module:Class; an environment's id; a file.",
        ),
    ],
    source: Annotated[
        str, typer.Option("--from", metavar="KIND", help=f"One of: {', '.join(KINDS)}.", autocompletion=_kinds)
    ],
    name: Annotated[
        str, typer.Option(help="The environment's name in URLs here; default: of a server, its kind.")
    ] = "",
    origin_env: Annotated[str | None, typer.Option(help="Which environment, where the origin serves several.")] = None,
    origin_token_file: Annotated[
        Path | None, typer.Option(help="A file with the origin's bearer token in its first line.")
    ] = None,
    call_timeout: Annotated[float, typer.Option(help="Seconds the origin may take for a call.", min=0.1)] = 60.0,
    grader: Annotated[
        str, typer.Option(help="Score episodes here, by a grader's name, file.py:function, or a row's JSON `verifier`.")
    ] = "",
    state_tool: strangers.StateTool = "",
    state_arg: strangers.StateArg = "",
    reward_tool: strangers.RewardTool = "",
    reset_field: strangers.ResetField = [],  # noqa: B006
    reward: strangers.Reward = "last",
    allow: Annotated[
        list[str],
        typer.Option(help="MCP: a pattern of the tools that the policy gets; repeatable.", rich_help_panel=STRANGERS),
    ] = ["*"],  # noqa: B006
    media: Annotated[
        Literal["placeholder", "pass"],
        typer.Option(help="MCP: pictures and sounds are named in the text, or passed on.", rich_help_panel=STRANGERS),
    ] = "placeholder",
    step_tool: Annotated[
        str, typer.Option(help="OpenEnv: the name of the tool that takes an action.", rich_help_panel=STRANGERS)
    ] = "act",
    on_error: Annotated[
        Literal["fail", "tell"],
        typer.Option(
            help="OpenEnv: an exception in the environment is a failed session, or a result for the policy.",
            rich_help_panel=STRANGERS,
        ),
    ] = "fail",
    **options: Any,
) -> None:
    """Serve somebody else's server or environment on the other wires, under gymwire's session rules."""
    if source not in KINDS:
        stop(f"--from {source!r}: the kinds are {', '.join(KINDS)}")
    strangers.check_options_of(context, source)
    if name and not NAME.fullmatch(name):
        stop(f"--name {name!r} must match {NAME.pattern}")
    try:
        router = _router(grader)
        if source in SERVERS:
            mcp = McpOptions(state_tool, state_arg, reset_field, reward_tool, allow, media)
            openenv = OpenEnvOptions(step_tool, reward, on_error, reset_field)
            token = _token(origin_token_file)
            origin = Origin(target, source, origin_env, token, mcp, openenv, call_timeout, router)
            environment = _of_origin(origin, options["rows"], name)
        else:
            environment = _hosted(source, target, name, grader, options["settings"])
    except (DefinitionError, RowError, TokenError, WrongRequest, SessionFailed) as error:
        stop(str(error))
    made.Environment = environment
    serve([MADE], **options, tools=[])


def _router(grader: str) -> Router | None:
    if not grader:
        return None
    try:
        value = json.loads(grader)
    except ValueError:
        value = grader
    return router_of(value)


def _token(file: Path | None) -> str | None:
    return None if file is None else read_tokens(file)[0]


def _of_origin(origin: Origin, files: Sequence[str], name: str) -> type[Environment]:
    """Look at the origin, once, and make what stands for it."""
    rows = list(_rows(files, name or origin.name, origin.grader))
    if origin.wire == "nemo-gym" and not any(row.tools for row in rows):
        errors.print(
            "gymwire: a NeMo Gym server does not list its tools; --rows FILE with rows that do offers them",
            markup=False,
        )
    if origin.wire == "mcp" and not (origin.mcp.reward_tool or origin.grader):
        stop("who scores an episode? Name the server's --reward-tool, or a --grader (math, exact, file.py:function, …)")
    info = asyncio.run(explored(origin))
    return bridged(origin, info, rows, name=name)


def _rows(files: Sequence[str], name: str, grader: Router | None) -> Iterable[Row]:
    """The rows to serve. Raises `RowError`, also for one that the grader cannot score."""
    for file in files:
        place = file.removeprefix(f"{name}=")
        for number, row in enumerate(read_rows(place), 1):
            try:
                if grader is not None:
                    grader.plan(row)
            except RowError as error:
                raise RowError(f"{place}: row {number}: {error}") from None
            yield row


def _hosted(source: str, target: str, name: str, grader: str, settings: Sequence[str]) -> type[Environment]:
    if grader:
        stop(f"--grader is for servers; what --from {source} hosts scores itself")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    environment = hosted(source, target, read_settings(settings, {MADE: MADE}).get(MADE, {}))
    if name:
        environment.name = name
    return environment
