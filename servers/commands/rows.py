"""Row files: made by an environment, judged, brought into another form, split."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from ..catalog import Served
from ..rows import MAX_GENERATED_ROWS, generated_lines, row_line, write_rows
from ..types import RowError
from ..wording import counted
from . import row_check, row_files
from .options import environment_names, read_served, split_names, stop

app = typer.Typer(help="Row files: made by an environment, judged, brought into another form, split.")
app.command()(row_check.check)
app.command()(row_files.convert)
app.command()(row_files.shard)


@app.callback(invoke_without_command=True)
def _rows(context: typer.Context) -> None:
    """Row files: made by an environment, judged, brought into another form, split."""
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
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to write; - for standard output.")],
    split: Annotated[
        str,
        typer.Option(help="Which of the environment's splits; needed but for --rows.", autocompletion=split_names),
    ] = "",
    rows: Annotated[
        str, typer.Option(metavar="FILE", help="Rewrite the rows of this file, in whatever form ENV reads them.")
    ] = "",
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A constructor argument; repeatable.")
    ] = [],  # noqa: B006
    count: Annotated[
        int | None, typer.Option("-n", "--count", help="How many rows; default the split's own size.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
) -> None:
    """Write a split as a JSONL file of NeMo Gym rows. Equal arguments give equal bytes."""
    served = read_served([environment], settings, [rows] if rows else [])[0]
    if not split and not rows:
        stop(f"say which split: --split {' or --split '.join(served.rows.splits)}")
    lines = _from_file(served, count) if rows else _with_progress(served, split, count, seed)
    try:
        if out == "-":
            _print(lines)
            return
        written = write_rows(Path(out), lines)
    except RowError as error:
        stop(str(error))
    typer.echo(
        f"{counted(written, 'row')} of {served.name}, {f'from {rows}' if rows else f'split {split}'}, in {out}",
        err=True,
    )


def _print(lines: Iterator[bytes]) -> None:
    """Write to standard output; a reader that has seen enough (`head`) ends it without a word."""
    try:
        sys.stdout.buffer.writelines(lines)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(0) from None


def _from_file(served: Served, count: int | None) -> Iterator[bytes]:
    """The rows of a file that the environment has read, as NeMo Gym rows."""
    split = served.rows.splits[0]
    typer.echo(served.rows.summary, err=True)
    for index in range(min(served.rows.count(split), count or MAX_GENERATED_ROWS)):
        yield row_line(served.rows.get(split, index), served.tools)


def _with_progress(served: Served, split: str, count: int | None, seed: int) -> Iterator[bytes]:
    """The lines, with a bar on a terminal's standard error while they are drawn."""
    columns = (SpinnerColumn(), TextColumn("drawing rows"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    errors = Console(stderr=True)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        lines = generated_lines(served.environment, split, count, seed, served.settings)
        yield from progress.track(lines, total=count)
