"""Options of the commands that drive servers of others: what such servers lack, and how they name what they have."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

STRANGERS = "Servers that are not gymwire's"

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
