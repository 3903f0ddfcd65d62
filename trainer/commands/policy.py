"""Make a policy for machines without a GPU: a tiny model, warm-started on codebook."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ...servers.commands.options import stop

app = typer.Typer(help="Make a policy for machines without a GPU.", no_args_is_help=True)
STAGES = {"clean": "learning clean scripts", "noisy": "learning noisy scripts", "held out": "playing held-out rows"}


@app.callback()
def _policy() -> None:
    """Make a policy for machines without a GPU."""


@app.command()
def tiny(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The folder to save model and tokenizer in.")],
    seed: Annotated[int, typer.Option(help="Another seed gives another model.")] = 0,
    untied: Annotated[bool, typer.Option("--untied", help="Give the output its own embeddings.")] = False,
) -> None:
    """Build a Qwen3-style model of 1.3 million parameters and warm-start it on codebook: under a minute on 2 cores."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        stop("the training stack is not installed; `make train` does it, or pip install 'gymwire[trainer]'")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        stop(f"{out} exists already and is not empty; choose another folder")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    _build(out, seed, tied=not untied)


def _build(out: Path, seed: int, *, tied: bool) -> None:
    from ..policy import USEFUL, build

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bars = {stage: progress.add_task(text, total=1.0, start=False) for stage, text in STAGES.items()}

        def show(stage: str, done: float, loss: float) -> None:
            progress.start_task(bars[stage])
            text = f"{STAGES[stage]} (loss {loss:.3f})" if loss else STAGES[stage]
            progress.update(bars[stage], completed=done, description=text)

        made = build(out, seed=seed, tied=tied, on_step=show)
    typer.echo(
        f"{out}: {made.parameters / 1e6:.2f} M parameters, warm-started in {made.seconds:.0f} s; "
        f"held-out success at temperature 1: {made.success:.2f}"
    )
    if not made.useful:
        low, high = USEFUL
        typer.echo(f"That is outside {low} to {high}, where GRPO has something to learn: try another --seed.", err=True)
