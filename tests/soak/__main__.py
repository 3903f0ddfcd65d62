"""`python -m tests.soak [--seconds 1200] [--sessions 200] [--json FILE]`: a table and a verdict; exit status 1 if not.

Half of the sessions play on a server that keeps them in memory, with the sandbox where there is one, and half on one
that keeps them in Redis, where redis-server is installed. Every server is loaded for a while before it is measured:
what it holds once that has settled is what it must come back to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop
from gymwire.servers.sandbox.docker import engine_answers
from rich.console import Console
from rich.table import Table

from tests import docker_engine

from .crowd import Crowd, Tally
from .servers import IDLE_TIMEOUT_S, Holding, Subject, holding, subjects
from .verdict import Line, lines

#: What is loaded once and what a busy server keeps is there after so many episodes a session, however slow it is.
WARM_EPISODES, WARM_AT_MOST_S = 10, 240.0
SAMPLES = 120
SETTLE_AT_MOST_S = 90.0
PLAIN_WIDTH = 110
WRONG_SHOWN = 10


def main() -> int:
    arguments = _parser().parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the servers are ended then, too
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH, highlight=False)
    sandbox, image = _sandbox(console)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        folder, share = Path(name), arguments.sessions
        if shutil.which("redis-server") is None:
            console.print("redis-server is not installed: sessions in Redis are left out")
        else:
            share //= 2
        tally = Tally()
        with subjects(folder, share, sandbox, image) as made:
            crowds = [Crowd(subject, share, tally, folder / "clients.log") for subject in made]
            found = uvloop.run(soak(crowds, arguments.seconds, tally, console))
    for subject, table in found.items():
        console.print(_table(subject, table))
    _say(console, tally, time.monotonic() - started)
    if arguments.json:
        said = {name: [asdict(line) for line in table] for name, table in found.items()}
        arguments.json.write_text(json.dumps({"holds": said, "episodes": dict(tally.kinds), "wrong": tally.wrong}))
    return 0 if not tally.wrong and all(line.held for table in found.values() for line in table) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1200.0, help="how long the measured load is")
    parser.add_argument("--sessions", type=int, default=200, help="in flight, on all servers together")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table as data, too")
    return parser


def _sandbox(console: Console) -> tuple[str, str]:
    """The backend for programs, and its image: docker where an engine answers, else bubblewrap, else none."""
    if engine_answers():
        return "docker", docker_engine.image()
    if shutil.which("bwrap"):
        return "bubblewrap", ""
    console.print("no container engine and no bubblewrap: environments that run programs are left out")
    return "", ""


async def soak(crowds: Sequence[Crowd], seconds: float, tally: Tally, console: Console) -> dict[str, list[Line]]:
    made = [crowd.subject for crowd in crowds]
    console.print(f"warming {len(made)} servers: {crowds[0].size} sessions each, {WARM_EPISODES} episodes a session")
    await _loaded(crowds, lambda: _warm(crowds, tally))
    before = [await _settled(subject, tally) for subject in made]
    console.print(f"loading them for {seconds:.0f} s")
    samples: list[list[Holding]] = [[] for _ in made]
    await _loaded(crowds, lambda: _sampled(made, samples, seconds, tally))
    console.print("the load is over; waiting until they have settled")
    after = [await _settled(subject, tally) for subject in made]
    return {
        subject.name: list(lines(first, during, last))
        for subject, first, during, last in zip(made, before, samples, after, strict=True)
    }


async def _loaded(crowds: Sequence[Crowd], meanwhile: Callable[[], Awaitable[None]]) -> None:
    """All crowds play until `meanwhile` is done. Raises what broke a crowd."""
    playing = [asyncio.create_task(crowd.play()) for crowd in crowds]
    working = asyncio.ensure_future(meanwhile())
    try:
        await asyncio.wait([working, *playing], return_when=asyncio.FIRST_COMPLETED)
        for task in playing:
            if task.done():
                task.result()
        await working
    finally:
        for task in (working, *playing):
            task.cancel()
        await asyncio.gather(working, *playing, return_exceptions=True)


async def _warm(crowds: Sequence[Crowd], tally: Tally) -> None:
    deadline = time.monotonic() + WARM_AT_MOST_S
    while time.monotonic() < deadline:
        await asyncio.sleep(1.0)
        if all(tally.ended[crowd.subject.name] >= WARM_EPISODES * crowd.size for crowd in crowds):
            return


async def _sampled(made: Sequence[Subject], samples: Sequence[list[Holding]], seconds: float, tally: Tally) -> None:
    end, pause_s = time.monotonic() + seconds, max(seconds / SAMPLES, 1.0)
    while time.monotonic() < end:
        await asyncio.sleep(pause_s)
        for subject, kept in zip(made, samples, strict=True):
            kept.append(await asyncio.to_thread(holding, subject, tally.ended[subject.name]))


async def _settled(subject: Subject, tally: Tally) -> Holding:
    """What it holds once no session is left; if some stay, that is told by the table."""
    deadline = time.monotonic() + SETTLE_AT_MOST_S
    await asyncio.sleep(IDLE_TIMEOUT_S)
    while True:
        now = await asyncio.to_thread(holding, subject, tally.ended[subject.name])
        if (not now.taken and not now.sessions and not now.keys) or time.monotonic() > deadline:
            return now
        await asyncio.sleep(1.0)


def _table(subject: str, table: Sequence[Line]) -> Table:
    made = Table("", "before", "most", "after", "allowed", "held", title=f"sessions in {subject}")
    for line in table:
        if not (line.before or line.most or line.after):
            continue  # what this server has none of
        figures = (f"{value:,.1f}".removesuffix(".0") for value in (line.before, line.most, line.after, line.allowed))
        made.add_row(line.what, *figures, "yes" if line.held else "NO")
    return made


def _say(console: Console, tally: Tally, seconds: float) -> None:
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in sorted(tally.kinds.items()))
    console.print(f"{seconds:.0f} s: {kinds}")
    for sentence in tally.wrong[:WRONG_SHOWN]:
        console.print(f"wrong: {sentence}", markup=False)
    if len(tally.wrong) > WRONG_SHOWN:
        console.print(f"and {len(tally.wrong) - WRONG_SHOWN} more that went wrong")


if __name__ == "__main__":
    sys.exit(main())
