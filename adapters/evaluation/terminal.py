"""A run in the terminal: a bar while it plays (plain lines where nobody watches), and tables at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ...servers.failures import one_line
from .results import Result
from .tables import Cells, compared, figures

#: Seconds between two lines where there is no bar.
LINE_EVERY_S = 10.0


class Terminal:
    """Progress on standard error; tables go to standard output."""

    def __init__(self, total: int, done: Sequence[Result] = (), *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=quiet, emoji=False)
        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            TimeRemainingColumn(),
        )  # fmt: skip
        self._bar = Progress(*columns, console=self.console, transient=True, disable=not self.console.is_terminal)
        self._task = self._bar.add_task("", total=total)
        self._total, self._played, self._masked, self._sum = total, 0, 0, 0.0
        self._said = monotonic()
        for result in done:
            self._count(result)
        self._show()

    def __enter__(self) -> Terminal:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def add(self, result: Result) -> None:
        self._count(result)
        self._show()
        if not self.console.is_terminal and (monotonic() - self._said >= LINE_EVERY_S or self._played == self._total):
            self._said = monotonic()
            self.say(f"{self._played}/{self._total} episodes  {self._state()}")

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def _count(self, result: Result) -> None:
        self._played += 1
        self._masked += result.failed
        self._sum += result.reward or 0.0

    def _show(self) -> None:
        self._bar.update(self._task, completed=self._played, description=self._state())

    def _state(self) -> str:
        scored = self._played - self._masked
        reward = f"reward {self._sum / scored:.3f}" if scored else "reward -"
        return f"{reward}  masked {self._masked}" if self._masked else reward


def print_summary(console: Console, summary: Mapping[str, Any]) -> None:
    for title, rows in figures(summary):
        print_cells(console, title, rows)


def print_comparison(console: Console, comparison: Mapping[str, Any]) -> None:
    for title, rows in compared(comparison):
        print_cells(console, title, rows)


def print_cells(console: Console, title: str, rows: Cells) -> None:
    """A small table; its first row are the heads where it has a title."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=bool(title), title_justify="left")
    body = rows
    if title:
        for head in rows[0]:
            table.add_column(Text(one_line(head), style="bold"))
        body = rows[1:]
    for row in body:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # rows, models and servers may name things anyhow
    console.print(table)
