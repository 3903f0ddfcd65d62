"""Make row files: what an environment's own generator draws, as NeMo Gym rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ..environment import Environment
from ..rows import generated_lines, write_rows
from ..types import RowError
from .options import environment_names, read_served, stop

app = typer.Typer(help="Make row files: what an environment's own generator draws, as NeMo Gym rows.")


@app.callback(invoke_without_command=True)
def _rows(context: typer.Context) -> None:
    """Make row files: what an environment's own generator draws, as NeMo Gym rows."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def make(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="An installed name (see `gymwire list`) or package.module:Class.",
            autocompletion=environment_names,
        ),
    ],
    split: Annotated[str, typer.Option(help="Which of the environment's splits.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to write; - for standard output.")],
    count: Annotated[int | None, typer.Option(help="How many rows; default the split's own size.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
) -> None:
    """Write a split as a JSONL file of NeMo Gym rows. Equal arguments give equal bytes."""
    served = read_served([environment])[0].environment
    lines = _with_progress(served, split, count, seed)
    try:
        if out == "-":
            _print(lines)
            return
        written = write_rows(Path(out), lines)
    except RowError as error:
        stop(str(error))
    typer.echo(f"{written} rows of {served.name}, split {split}, in {out}", err=True)


def _print(lines: Iterator[bytes]) -> None:
    """Write to standard output; a reader that has seen enough (`head`) ends it without a word."""
    try:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(0) from None


def _with_progress(environment: type[Environment], split: str, count: int | None, seed: int) -> Iterator[bytes]:
    """The lines, with a bar on a terminal's standard error while they are drawn."""
    columns = (SpinnerColumn(), TextColumn("drawing rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        yield from progress.track(generated_lines(environment, split, count, seed), total=count)
