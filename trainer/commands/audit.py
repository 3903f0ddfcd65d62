"""Check a run's recorded episodes: their tokens, the chat template, and the rewards against the environment."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...adapters.session import WrongRequest
from ...servers.commands.options import stop
from .. import stack, trajectories
from ..audit import Check, audit_tokens, verdict
from ..config import Config, ConfigError, read_config
from ..place import find_place
from ..reverify import Reverifier
from ..trajectories import Record

if TYPE_CHECKING:
    from ..templates import ChatTemplate

#: Something disagrees; no reward at all could be verified, although that was asked for.
DISAGREES_EXIT, UNVERIFIED_EXIT = 1, 3


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run (its log.dir).")],
    step: Annotated[int | None, typer.Option(help="Only this step; default: all that were recorded.")] = None,
    reverify: Annotated[
        bool, typer.Option("--reverify/--no-reverify", help="Replay the calls on the environment, and compare rewards.")
    ] = True,
) -> None:
    """Check a run's recorded episodes: their tokens, the chat template, and the rewards against the environment.

    Exit status: 0 nothing disagrees, 1 something does, 2 nothing to audit or
    no environment to ask, 3 not one reward could be verified again.
    """
    try:
        config = read_config(run / "config.yaml")
    except ConfigError as error:
        stop(f"{run} is not the folder of a run: {error}")
    paths = trajectories.files(run, step)
    records = list(trajectories.all_records(paths))
    if not records:
        which = "" if step is None else f" of step {step}"
        stop(f"{run} holds no trajectories{which}; a run writes them with log.trajectories: true")
    template, why = _template(config)
    checks = audit_tokens(records, template, why)
    rewards = _reverified(config, records) if reverify else None
    checks += [] if rewards is None else [rewards]
    _show(checks, len(records))
    if any(check.disagreements for check in checks):
        raise typer.Exit(DISAGREES_EXIT)
    if rewards is not None and rewards.not_checked and not rewards.episodes:
        stop("not one reward could be verified again; for the tokens alone: --no-reverify", UNVERIFIED_EXIT)


def _template(config: Config) -> tuple[ChatTemplate | None, str]:
    """The model's, or why it cannot be had here."""
    if lacking := [name for name in ("torch", "trl", "transformers") if find_spec(name) is None]:
        return None, f"{', '.join(lacking)} not installed here"
    stack.prepare_process(offline=Path(config.model.path).exists())
    from ..options import load_tokenizer
    from ..templates import ChatTemplate, TemplateError

    try:
        options = config.trl.get("chat_template_kwargs") or {}
        return ChatTemplate(load_tokenizer(config.model), **options), ""
    except (ConfigError, TemplateError, OSError) as error:
        return None, str(error)


def _reverified(config: Config, records: list[Record]) -> Check:
    try:
        return asyncio.run(_reverify(config, records))
    except (ConfigError, WrongRequest) as error:
        stop(f"{error}\nTo audit without the environment: --no-reverify")


async def _reverify(config: Config, records: list[Record]) -> Check:
    place = await find_place(config)
    async with place.connection() as connection:
        reverifier = Reverifier(
            connection,
            place.rows(config.data) | place.eval_rows(config.data),
            max_concurrent=config.environment.max_concurrent,
            timeout_s=config.rollout.tool_timeout_s,
            allowed_tools=config.environment.allowed_tools,
        )
        return await reverifier.check(records)


def _show(checks: list[Check], episodes: int) -> None:
    console = Console(highlight=False)
    table = Table("check", "episodes", "disagree", "", box=None, padding=(0, 2, 0, 0), header_style="bold")
    for check in checks:
        bad = len(check.disagreements)
        count = Text(str(bad), style="bold red" if bad else "")
        table.add_row(check.name, str(check.episodes), count, Text(check.note()))
    console.print(table)
    complete = not any(check.disagreements or check.not_checked for check in checks)
    console.print(Text(f"{verdict(checks, episodes)}.", style="" if complete else "bold"))
