"""Prove the sandbox's limits on this machine."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from ..sandbox.attacks import ATTACKS
from ..sandbox.check import Finding
from ..sandbox.check import check as findings_of
from ..sandbox.jobs import SandboxUnavailable
from ..sandbox.select import BACKENDS, IMAGE, Choice, launcher_of
from .options import errors, stop

app = typer.Typer(help="Prove the sandbox's limits on this machine.", no_args_is_help=True)
Backend = Annotated[str, typer.Option(help=f"One of {', '.join(BACKENDS)}; default: the one that `serve` takes here.")]
Image = Annotated[str, typer.Option(help="Of the docker backend's containers; needs python3.")]


@app.callback()
def _group() -> None:
    """Keeps `check` a subcommand while it is the only one."""


@app.command()
def check(
    backend: Backend = "",
    image: Image = IMAGE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    unsafe: Annotated[
        bool, typer.Option("--allow-unsafe-sandbox", help="Permit the subprocess backend, which isolates nothing.")
    ] = False,
) -> None:
    """Attack every limit that the backend claims; exit status 1 where one does not hold."""
    choice = Choice(backend=backend, image=image, allow_unsafe=unsafe)
    try:
        name = launcher_of(choice).name
        findings = asyncio.run(_check(choice, name))
    except SandboxUnavailable as error:
        stop(str(error))
    broken = [finding for finding in findings if finding.held is False]
    if as_json:
        said = {"backend": name, "holds": not broken, "findings": [asdict(finding) for finding in findings]}
        typer.echo(orjson.dumps(said, option=orjson.OPT_INDENT_2).decode())
    else:
        Console().print(_table(findings))
    if broken:
        stop(f"{name}: {len(broken)} of {len(findings)} attacks were not held; do not run programs of others in it", 1)
    errors.print(f"gymwire: {name} holds what it claims: {sum(map(_tried, findings))} attacks", markup=False)


async def _check(choice: Choice, name: str) -> list[Finding]:
    """Attack, and say on the terminal which attack is next."""
    found: list[Finding] = []
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), console=errors, transient=True) as progress:
        task = progress.add_task(f"starting {name}", total=len(ATTACKS))
        async for finding in findings_of(lambda: launcher_of(choice)):
            found.append(finding)
            progress.update(task, advance=1, description=f"{len(found)} of {len(ATTACKS)}: {finding.attack}")
    return sorted(found, key=lambda finding: list(type(finding.limit)).index(finding.limit))


def _tried(finding: Finding) -> bool:
    return finding.held is not None


def _table(findings: list[Finding]) -> Table:
    table = Table("limit", "attack", "claimed", "held", "evidence")
    limit = None
    for finding in findings:
        held = "-" if finding.held is None else "yes" if finding.held else "NO"
        first = finding.limit if finding.limit != limit else ""
        evidence = finding.evidence if len(finding.evidence) < 160 else f"{finding.evidence[:157]}..."
        table.add_row(first, finding.attack, "yes" if finding.claimed else "no", held, evidence)
        limit = finding.limit
    return table
