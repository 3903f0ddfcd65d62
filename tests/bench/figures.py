"""What was measured, beside what, and whether the target was met; as one table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

#: A bare echo above this says that the machine is busy: absolute targets of a quiet machine are not judged then.
QUIET_ECHO_MS = 0.05


@dataclass(frozen=True, slots=True)
class Check:
    """One target and what was measured against it; `met` is None where it could not be judged."""

    target: str
    measured: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One line. `values` are by number of sessions, or one value under the empty name."""

    section: str
    name: str
    unit: str
    values: dict[str, float]
    beside: dict[str, float] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    note: str = ""


def at_most(limit: float, value: float, unit: str) -> Check:
    return Check(f"≤ {limit:g} {unit}", plain(value), value <= limit)


def at_least(limit: float, value: float, unit: str) -> Check:
    return Check(f"≥ {limit:g} {unit}", plain(value), value >= limit)


def times_at_most(limit: float, ratio: float | None, what: str) -> Check:
    return Check(f"≤ {limit:g}x {what}", _said(ratio), None if ratio is None else ratio <= limit)


def times_less(limit: float, ratio: float | None, what: str) -> Check:
    """The peer costs at least `limit` times as much."""
    return Check(f"{what} ≥ {limit:g}x", _said(ratio), None if ratio is None else ratio >= limit)


def when_quiet(check: Check, echo_ms: float) -> Check:
    if check.met or echo_ms <= QUIET_ECHO_MS:
        return check
    return Check(check.target, f"{check.measured} (machine busy: echo {echo_ms:.3f})", None)


def _said(ratio: float | None) -> str:
    return "not measured" if ratio is None else f"{plain(ratio)}x"


def plain(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


Costs = Mapping[str, float]


def worst_ratio(costs: Costs, to: Costs | None) -> float | None:
    """The highest ratio over the numbers of sessions that both were measured at."""
    shared = [key for key in costs if to and key in to]
    return max(costs[key] / to[key] for key in shared) if to and shared else None


def least_ratio(costs: Costs, to: Costs | None) -> float | None:
    shared = [key for key in costs if to and key in to]
    return min(costs[key] / to[key] for key in shared) if to and shared else None


def table(figures: Iterable[Figure]) -> Table:
    made = Table(title="gymwire beside its peers", title_justify="left", show_lines=False)
    for heading in ("what", "measured (64 · 256 sessions)", "beside", "targets"):
        made.add_column(heading, overflow="fold")
    section = ""
    for figure in figures:
        if figure.section != section:
            section = figure.section
            made.add_section()
            made.add_row(f"[bold]{section}[/bold]")
        made.add_row(f"  {figure.name}", _values(figure), _beside(figure), "\n".join(map(_verdict, figure.checks)))
    return made


def _values(figure: Figure) -> str:
    return " · ".join(map(plain, figure.values.values())) + f" {figure.unit}"


def _beside(figure: Figure) -> str:
    ratios = [f"{plain(ratio)}x {what}" for what, ratio in figure.beside.items()]
    return ", ".join([*ratios, *([figure.note] if figure.note else [])])


def _verdict(check: Check) -> str:
    mark = {True: "[green]met[/green]", False: "[red]missed[/red]", None: "[yellow]not judged[/yellow]"}[check.met]
    return f"{check.target}: {check.measured} {mark}"


def show(figures: list[Figure], console: Console) -> None:
    console.print(table(figures))
    checks = [check for figure in figures for check in figure.checks]
    missed = sum(check.met is False for check in checks)
    console.print(f"{sum(check.met is True for check in checks)} targets met, {missed} missed.")


def write(figures: list[Figure], file: Path) -> None:
    """The same as data: a list of records."""
    file.write_text(json.dumps([asdict(figure) for figure in figures], indent=1, ensure_ascii=False) + "\n")
