"""Options of the commands that drive servers of others: what such servers lack, and how they name what they have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import typer

from ...servers.commands.options import stop

STRANGERS = "Servers that are not gymwire's"
#: Whose options these are: the wires that the server may speak.
_WIRES_OF: Mapping[str, tuple[str, ...]] = (
    dict.fromkeys(("state_tool", "state_arg", "reward_tool", "allow", "media"), ("mcp",))
    | dict.fromkeys(("reward", "step_tool", "on_error"), ("openenv",))
    | {"reset_field": ("mcp", "openenv")}
    | dict.fromkeys(("origin_env", "origin_token_file", "call_timeout"), ("mcp", "openenv", "nemo-gym"))
)

StateTool = Annotated[
    str,
    typer.Option(help="MCP: called at a seed; its answer is the session's handle.", rich_help_panel=STRANGERS),
]
StateArg = Annotated[
    str,
    typer.Option(help="MCP: the argument that carries the handle; hidden from the policy.", rich_help_panel=STRANGERS),
]
RewardTool = Annotated[
    str, typer.Option(help="MCP: called at verify; hidden from the policy.", rich_help_panel=STRANGERS)
]
ResetField = Annotated[
    list[str],
    typer.Option(
        help="A field of the row's data that a reset or the state tool gets; repeatable.", rich_help_panel=STRANGERS
    ),
]
Reward = Annotated[
    Literal["last", "sum", "max"],
    typer.Option(help="OpenEnv: how the rewards of the steps become one.", rich_help_panel=STRANGERS),
]


def check_options_of(context: typer.Context, wire: str) -> None:
    """End the command where an option was given that means nothing on this wire (or in this kind of bridge)."""
    for name, wires in _WIRES_OF.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and wire not in wires:
            stop(f"--{name.replace('_', '-')} is for {' and '.join(wires)}, not for {wire}; leave it out")
