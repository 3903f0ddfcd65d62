"""The demo: bundled environments on every wire, and one table. `python -m gymwire.adapters.demo [--json FILE]`

It serves the environments on a free port, plays 64 episodes at once of each with each scripted policy over NeMo Gym,
OpenEnv, MCP and in this process, then one round in which a tenth of the sessions break on purpose. It checks what
came out by itself and exits 1 where a promise does not hold: equal rewards on the four wires, oracle >= rule >=
random, and exactly the broken sessions masked.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..servers.catalog import find, installed
from ..servers.commands.new import shell_command
from ..servers.wording import counted
from .connect import Connection, connect
from .demo_faults import EVERY, broken_name, broken_twin
from .demo_rounds import BROKEN_POLICY, EPISODES, POLICIES, WIRES, Round, Rows, complaints, play_round
from .demo_server import NotServing, serving
from .session import WrongRequest

#: Made for `gymwire policy tiny`, or with nothing to do in them but answer, or in need of an extra or a sandbox.
NOT_SHOWN = frozenset({"codebook", "graded", "exam", "qa_search", "code_tests", "math_python", "swe"})
NEXT = (
    ("list", "what is installed"),
    ("play counter", "play an episode yourself"),
    ("serve counter battery", "serve two of them; /docs shows every route"),
    ("rows make battery --split train --out train.jsonl", "rows for a trainer"),
    ("new my-env", "begin an environment of your own"),
)


def main() -> int:
    """Run the demo; its exit status."""
    file = _arguments()
    logging.getLogger("gymwire").setLevel(logging.CRITICAL)  # sessions break on purpose; others are told at the end
    console, started = Console(emoji=False), perf_counter()
    try:
        rounds = asyncio.run(play(bundled()))
    except (NotServing, WrongRequest) as error:
        console.print(f"demo: {error}", markup=False, style="red")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("demo: interrupted")
        return 130
    console.print(table(rounds))
    status = conclude(console, rounds, perf_counter() - started)
    if file is not None:
        file.write_bytes(orjson.dumps([item.record() for item in rounds], option=orjson.OPT_INDENT_2) + b"\n")
    return status


def _arguments() -> Path | None:
    parser = argparse.ArgumentParser(prog="gymwire.adapters.demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the table as data, too")
    file: Path | None = parser.parse_args().json
    if file is not None:
        try:
            file.open("ab").close()
        except OSError as error:
            parser.error(f"{file} cannot be written: {error.strerror}")
    return file


def bundled() -> list[str]:
    """The environments that come with gymwire, but for the tiny policy's own."""
    ours = (name for name, target in installed().items() if target.startswith("gymwire."))
    return [name for name in ours if name not in NOT_SHOWN]


# Playing


async def play(names: Sequence[str]) -> list[Round]:
    """All rounds, clean ones first."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    twins = [f"gymwire.adapters.demo_faults:{name}" for name in names]
    with _bar(len(names) * len(WIRES) * (len(POLICIES) + 1) * EPISODES) as bar:
        async with serving([*names, *twins]) as url:
            rounds = [item for name in names for wire in WIRES for item in await _clean(bar, url, name, wire)]
            return rounds + [await _broken(bar, url, name, wire) for name in names for wire in WIRES]


async def _clean(bar: Bar, url: str, name: str, wire: str) -> list[Round]:
    rows = Rows(find(name))
    async with _connect(url, name, wire) as connection:
        rounds = []
        for policy in POLICIES:
            bar.say(f"{name} over {wire}: {policy}")
            rounds.append(await play_round(connection, rows, policy, broken=False, advance=bar.advance))
        return rounds


async def _broken(bar: Bar, url: str, name: str, wire: str) -> Round:
    bar.say(f"{name} over {wire}: one in {EVERY} broken")
    async with _connect(url, name, wire, broken=True) as connection:
        return await play_round(connection, Rows(find(name)), BROKEN_POLICY, broken=True, advance=bar.advance)


def _connect(url: str, name: str, wire: str, *, broken: bool = False) -> Connection:
    """The environment, or its broken twin, on a wire."""
    if wire == "local":
        return connect(broken_twin(name) if broken else find(name))
    return connect(url, env=broken_name(name) if broken else name, wire=wire)


class Bar:
    """How far the demo is."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def say(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def advance(self) -> None:
        self._progress.advance(self._task)


@contextmanager
def _bar(episodes: int) -> Iterator[Bar]:
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("episodes"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as progress:
        yield Bar(progress, progress.add_task("starting the server", total=episodes))


# Telling


def table(rounds: Sequence[Round]) -> Table:
    """One line a round, a section an environment."""
    made = Table(
        title=f"{EPISODES} episodes at once of each environment on each wire",
        caption=f"broken: one session in {EVERY} breaks on purpose; the mean is over the others",
    )
    for heading in ("environment", "wire", "policy"):
        made.add_column(heading, no_wrap=True)
    for heading in ("mean reward", "masked", "episodes/s"):
        made.add_column(heading, justify="right", no_wrap=True)
    ordered = sorted(rounds, key=lambda item: (item.environment, WIRES.index(item.wire)))
    for position, item in enumerate(ordered):
        before = ordered[position - 1] if position else None
        same = before is not None and before.environment == item.environment
        if before is not None and not same:
            made.add_section()
        made.add_row(
            "" if same else item.environment,
            "" if same and before is not None and before.wire == item.wire else item.wire,
            f"{item.policy}, broken" if item.broken else item.policy,
            "-" if item.mean_reward is None else f"{item.mean_reward:.4f}",
            str(item.masked),
            f"{item.episodes_per_s:,.0f}",
        )
    return made


def conclude(console: Console, rounds: Sequence[Round], seconds: float) -> int:
    """Say whether every promise holds, and what to try next; the exit status."""
    wrong = list(complaints(rounds))
    for sentence in wrong:
        console.print(f"demo: {sentence}", markup=False, style="red")
    if wrong:
        console.print(f"demo: {counted(len(wrong), 'promise')} broken", style="red")
        return 1
    episodes = sum(len(item.rewards) for item in rounds)
    console.print(
        f"{episodes:,} episodes in {seconds:.0f} s. Equal rewards on all four wires, oracle >= rule >= random, and "
        "exactly the sessions broken on purpose are masked: they have no reward and no say in a mean.",
        highlight=False,
    )
    console.print("\nNext:")
    for arguments, why in NEXT:
        command = f"{shell_command('gymwire', from_here=True)} {arguments}"
        console.print(f"  {command:70} [dim]# {why}[/dim]", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
