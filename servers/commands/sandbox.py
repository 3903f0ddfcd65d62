"""Prove the sandbox's limits on this machine, or serve it to other processes."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer
from aiohttp import web
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from rich.table import Table

from ..auth import Guard, TokenError
from ..logs import LogFormat, configure
from ..process_figures import CONNECTIONS
from ..sandbox.attacks import ATTACKS
from ..sandbox.check import Finding
from ..sandbox.check import check as findings_of
from ..sandbox.jobs import SandboxUnavailable
from ..sandbox.select import BACKENDS, IMAGE, Choice, launcher_of, sandbox_of
from ..sandbox.serving import application
from . import sandbox_options as sandboxes
from . import watch_options as watching
from .options import errors, stop

app = typer.Typer(
    help="Prove the sandbox's limits on this machine, or serve it to other processes.", no_args_is_help=True
)
Backend = Annotated[
    str,
    typer.Option(
        metavar="BACKEND",
        help=f"One of {', '.join(BACKENDS)}; default: the one that `serve` takes here.",
        autocompletion=lambda: list(BACKENDS),
    ),
]
Image = Annotated[str, typer.Option(help="Of the docker backend's containers; needs python3.")]


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


@app.command()
def serve(
    token_file: Annotated[Path, typer.Option(help="Clients send one of the tokens in this file, one a line.")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8300,
    sandbox: sandboxes.Backend = "",
    sandbox_image: sandboxes.Image = IMAGE,
    sandbox_slots: sandboxes.Slots = 0,
    allow_unsafe_sandbox: sandboxes.Unsafe = False,
    log_format: watching.LogFormat = LogFormat.TEXT,
) -> None:
    """Serve the sandbox to other processes (`gymwire serve --sandbox-url URL`), so that only this one needs the engine.

    Whoever has a token may run programs here; there is no TLS, so beyond one machine put it behind a proxy.
    """
    configure(log_format)
    choice = Choice(sandbox, sandbox_image, sandbox_slots, allow_unsafe=allow_unsafe_sandbox)
    try:
        asyncio.run(_serve(choice, Guard(file=token_file), host, port))
    except (SandboxUnavailable, TokenError) as error:
        stop(str(error))
    except OSError as error:
        stop(f"port {port} of {host} cannot be had ({error.strerror}); choose another with --port", 1)


async def _serve(choice: Choice, guard: Guard, host: str, port: int) -> None:
    """Until SIGTERM or SIGINT."""
    opened = sandbox_of(choice)
    await opened.open()
    reading = asyncio.create_task(guard.keep_reading())
    app = application(opened, guard, {"service": "gymwire sandbox"})
    runner = web.AppRunner(app, handler_cancellation=True, access_log=None)
    uncount = CONNECTIONS.watch(lambda: len(runner.server.connections) if runner.server else 0)
    try:
        await runner.setup()
        site = web.TCPSite(runner, host, port, shutdown_timeout=1.0)
        await site.start()
        logging.getLogger("gymwire.sandbox").info("listening on http://%s:%d", *runner.addresses[0][:2])
        leave = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, leave.set)
        await leave.wait()
    finally:
        reading.cancel()
        uncount()
        await opened.close()
        await runner.cleanup()
