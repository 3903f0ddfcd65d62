"""`python -m tests.bench [--quick] [--only NAME ...] [--json FILE]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from rich.console import Console
from rich.markup import escape

from . import calls, clients, episodes, graders, live, programs, rollouts, sandbox, standing, stores
from .figures import Figure, show, write
from .fleet import FULL, QUICK, Bench
from .processes import BenchError

PLAIN_WIDTH = 150  # of the table where no terminal says how wide it is
SUITES: dict[str, Callable[[Bench], Awaitable[list[Figure]]]] = {
    "calls": calls.figures,
    "episodes": episodes.figures,
    "clients": clients.figures,
    "standing": standing.figures,
    "live": live.figures,
    "rollouts": rollouts.figures,
    "graders": graders.figures,
    "sandbox": sandbox.figures,
    "programs": programs.figures,
    "stores": stores.figures,
}


def main() -> None:
    arguments = _parser().parse_args()
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    started, load, processors = time.monotonic(), os.getloadavg()[0], os.cpu_count() or 1
    with Bench(QUICK if arguments.quick else FULL, console) as bench:
        figures, broken = uvloop.run(_measure(bench, arguments.only or list(SUITES)))
    show(figures, console)
    if load > processors / 2:
        console.print(
            f"The machine was busy before (load {load:.1f} on {processors} processors): figures are too high."
        )
    console.print(f"{time.monotonic() - started:.0f} s in all.")
    if arguments.json:
        write(figures, arguments.json)
    sys.exit(1 if broken else 0)


async def _measure(bench: Bench, names: list[str]) -> tuple[list[Figure], bool]:
    """The figures, and whether a part of them could not be measured. A missed target is a figure, no failure."""
    figures: list[Figure] = []
    broken = False
    for name in names:
        try:
            figures += await SUITES[name](bench)
        except BenchError as error:
            broken = True
            bench.console.print(f"[red]{name} could not be measured:[/red] {escape(str(error))}")
    return figures, broken


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="gymwire beside its peers, in one run.")
    parser.add_argument("--quick", action="store_true", help="one round, fewer sessions and episodes: a smoke test")
    parser.add_argument("--only", action="append", choices=list(SUITES), help="one part; repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as data too")
    return parser


if __name__ == "__main__":
    main()
