"""The view on a terminal: as much of it as the width allows, without a control character of anybody else's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .view import EnvironmentLine, FailureLine, GraderLine, Latency, Sandbox, ServerLine, View

T = TypeVar("T")
MOST_FAILURES = 12
STATES = ("seeded", "active", "verified", "failed", "closed", "expired")


@dataclass(frozen=True)
class Column(Generic[T]):
    """A column, and from which width of the terminal on there is room for it."""

    title: str
    text: Callable[[T], str]
    from_width: int = 0
    right: bool = True
    style: Callable[[T], str] = lambda _: ""


def screen(view: View, title: str, width: int) -> RenderableType:
    """Everything, from the top down in the order of interest."""
    parts: list[RenderableType] = [Text(plain(title), style="bold", no_wrap=True, overflow="ellipsis")]
    parts.append(_table(SERVER, view.servers, width))
    parts += [Text(plain(f"{line.url}: {line.note}"), style="yellow") for line in view.servers if line.note]
    if len(view.servers) > 1:
        parts.append(_sums(view))
    if view.environments:
        parts.append(_table(ENVIRONMENT, view.environments, width))
    parts.append(Text(f"queue {int(view.total['queued'])} waiting; wait {_latency(view.queue)}"))
    if view.failures:
        parts.append(_table(FAILURE, view.failures[:MOST_FAILURES], width))
        if more := len(view.failures) - MOST_FAILURES:
            parts += [Text(f"and {more} kinds more")] if more > 0 else []
    else:
        parts.append(Text("no session failed"))
    if view.sandbox is not None:
        parts.append(_sandbox(view.sandbox))
    if view.graders:
        parts.append(_table(GRADER, view.graders, width))
    return Group(*parts)


def _table(columns: Sequence[Column[T]], lines: Sequence[T], width: int) -> Table:
    shown = [column for column in columns if width >= column.from_width]
    table = Table(box=None, pad_edge=False, header_style="bold dim", padding=(0, 2, 0, 0))
    for column in shown:
        justify = "right" if column.right else "left"
        table.add_column(column.title, justify=justify, no_wrap=True, overflow="ellipsis")
    for line in lines:
        table.add_row(*(Text(plain(column.text(line)), style=column.style(line)) for column in shown))
    return table


def _sums(view: View) -> Text:
    total = view.total
    return Text(
        f"in all: {int(total['live'])} live of {int(total['slots'])} slots, {total['episodes_per_s']:.1f} episodes/s, "
        f"{total['calls_per_s']:.1f} calls/s, {int(total['connections'])} connections, "
        f"{100 * total['cpu']:.0f} % CPU, {_bytes(total['memory_bytes'])}",
        style="bold",
    )


def _sandbox(sandbox: Sandbox) -> Text:
    slots = ", ".join(f"{count} {state}" for state, count in sandbox.slots.items() if count or state != "missing")
    verdicts = ", ".join(f"{count} {name}" for name, count in sorted(sandbox.verdicts.items()) if count) or "no job yet"
    trouble = "".join(
        f", {count} {what}"
        for count, what in ((sandbox.unavailable, "could not be run"), (sandbox.replaced, "slots replaced"))
        if count
    )
    return Text(
        plain(
            f"sandbox {slots or 'without slots'}, {sandbox.queued} waiting; {sandbox.jobs_per_s:.1f} jobs/s: {verdicts}"
            f"{trouble}; wait {_latency(sandbox.wait)}; job {_latency(sandbox.job)}"
        )
    )


def plain(text: str) -> str:
    """Without anything that a terminal would obey."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 1:
        return f"{1000 * value:.1f} ms" if value < 0.0995 else f"{1000 * value:.0f} ms"
    return f"{value:.1f} s"


def _latency(latency: Latency) -> str:
    if latency.p50_s is None:
        return "-"
    return f"p50 {seconds(latency.p50_s)}, p95 {seconds(latency.p95_s)}, p99 {seconds(latency.p99_s)}"


def _bytes(value: float) -> str:
    return f"{value / 2**20:.0f} MB" if value < 2**30 else f"{value / 2**30:.1f} GB"


def _uptime(value: float) -> str:
    minutes, hours = value // 60, value // 3600
    if hours >= 48:
        return f"{hours // 24:.0f} d"
    return f"{hours:.0f} h" if hours else f"{minutes:.0f} min" if minutes else f"{value:.0f} s"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _figure(text: Callable[[ServerLine], Any]) -> Callable[[ServerLine], str]:
    return lambda line: "-" if line.problem else str(text(line))


def _trouble(line: ServerLine) -> str:
    return "red" if line.problem else ""


def _masked(line: EnvironmentLine) -> str:
    return "red" if line.masked and line.masked >= 0.05 else "yellow" if line.masked else ""


def _recent(line: FailureLine) -> str:
    return "red" if line.last_minute else "dim"


SERVER: Sequence[Column[ServerLine]] = (
    Column("server", lambda line: line.problem or line.url, right=False, style=_trouble),
    Column("up", _figure(lambda line: _uptime(line.uptime_s)), 60),
    Column("version", _figure(lambda line: line.version), 130),
    Column("live", _figure(lambda line: line.live)),
    Column("free", _figure(lambda line: line.slots_free), 70),
    Column("queued", _figure(lambda line: line.queued), 80),
    Column("episodes/s", _figure(lambda line: f"{line.episodes_per_s:.1f}"), 60),
    Column("calls/s", _figure(lambda line: f"{line.calls_per_s:.1f}")),
    Column("conns", _figure(lambda line: line.connections), 100),
    Column("CPU", _figure(lambda line: f"{100 * line.cpu:.0f} %"), 90),
    Column("RSS", _figure(lambda line: _bytes(line.memory_bytes)), 90),
)
ENVIRONMENT: Sequence[Column[EnvironmentLine]] = (
    Column("environment", lambda line: line.environment, right=False),
    *(
        Column(state, lambda line, state=state: str(line.states.get(state, 0)), 110 if place < 4 else 170)
        for place, state in enumerate(STATES)
    ),
    Column("live", lambda line: str(sum(line.states.get(state, 0) for state in STATES[:2]))),
    Column("episodes/s", lambda line: f"{line.episodes_per_s:.1f}", 60),
    Column("calls/s", lambda line: f"{line.calls_per_s:.1f}"),
    Column("call p50", lambda line: seconds(line.call.p50_s), 90),
    Column("p95", lambda line: seconds(line.call.p95_s), 130),
    Column("p99", lambda line: seconds(line.call.p99_s), 80),
    Column("verify p50", lambda line: seconds(line.verify.p50_s), 140),
    Column("p99", lambda line: seconds(line.verify.p99_s), 120),
    Column("masked", lambda line: _share(line.masked), 50, style=_masked),
)
FAILURE: Sequence[Column[FailureLine]] = (
    Column("failed in", lambda line: line.environment, right=False, style=_recent),
    Column("kind", lambda line: line.kind, right=False, style=_recent),
    Column("at", lambda line: line.stage, 70, right=False, style=_recent),
    Column("tool", lambda line: line.tool or "-", 90, right=False, style=_recent),
    Column("last minute", lambda line: str(line.last_minute), style=_recent),
    Column("in all", lambda line: str(line.in_all), style=_recent),
)
GRADER: Sequence[Column[GraderLine]] = (
    Column("grader", lambda line: line.grader, right=False),
    Column("gradings/s", lambda line: f"{line.per_s:.1f}"),
    Column("p50", lambda line: seconds(line.seconds.p50_s)),
    Column("p99", lambda line: seconds(line.seconds.p99_s), 60),
    Column("broke", lambda line: str(line.failures), style=lambda line: "red" if line.failures else ""),
)
