"""Train a policy on an environment: GRPO on TRL with a colocated vLLM."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...adapters.session import WrongRequest
from ...servers.commands.options import stop
from .. import stack
from ..checks import Findings, Plan, check
from ..config import Config, ConfigError, read_config

EXAMPLES = Path(__file__).parents[1] / "configs"


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help=f"A YAML file. Examples: {EXAMPLES}")],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="A.B=C", help="Replaces a value of the file, as in trl.max_steps=10; repeatable."
        ),
    ] = [],  # noqa: B006
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run folder's newest checkpoint.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print what would run, and stop.")
    ] = False,
) -> None:
    """Train a policy on an environment: GRPO on TRL with a colocated vLLM.

    CONFIG has the sections model, environment, data, rollout, failures, trl (the
    options of TRL's GRPOConfig) and log. Try it with --dry-run first.

    Ctrl-C, SIGTERM and SIGUSR1 save and exit; --resume goes on.
    Exit status: 0 finished or saved, 1 too much failed, 2 it cannot run.
    """
    try:
        typed = read_config(config, settings)
    except ConfigError as error:
        stop(str(error))
    findings = Findings()
    plan = asyncio.run(check(typed, findings))
    if dry_run:
        _show(findings)
    for note in [] if dry_run else findings.notes:
        _console.print(Text(f"note: {note}", style="dim"))
    if findings.faults or plan is None:
        stop("\ngymwire: ".join(findings.faults))
    if not dry_run:
        raise typer.Exit(_run(typed, plan, resume))


def _run(config: Config, plan: Plan, resume: bool) -> int:
    if lacking := stack.missing():
        stop(f"{', '.join(lacking)} not installed here: {stack.INSTALL}")
    stack.prepare_process(offline=Path(config.model.path).exists())
    from ..run import RunError, run

    try:
        return run(config, plan, resume=resume)
    except (RunError, ConfigError, WrongRequest) as error:
        stop(str(error))


_console = Console(stderr=True, highlight=False)


def _show(findings: Findings) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, value in findings.lines.items():
        table.add_row(Text(name, style="bold"), Text(value))
    console = Console(highlight=False)
    console.print(table)
    for note in findings.notes:
        console.print(Text(f"note: {note}"))
    if not findings.faults:
        then = "with the training stack this would run" if stack.missing() else "without --dry-run this would run"
        console.print(Text(f"Everything that was checked is in order; {then}."))
