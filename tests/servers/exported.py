"""Every figure that there is, each with at least one series: what documents and dashboards may name.

`python -m tests.servers.exported` prints the table of docs/observability.md.
"""

from __future__ import annotations

import asyncio
import time

from gymwire.servers.answers import Code
from gymwire.servers.catalog import Served
from gymwire.servers.process_figures import GRADERS, SANDBOX
from gymwire.servers.queueing import StoreSlots
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.types import Row

from tests.servers.engine import Engine, Notes, call, refused
from tests.servers.scrape import Scrape

#: What a process that serves exports, too: `prometheus_client` knows how to read it.
OURS, PROCESS = "gymwire_", "process_"


async def exported() -> Scrape:
    engine = Engine(max_sessions=4, idle_timeout_s=1.0)
    engine.store_slots = lambda: StoreSlots("1f3a5c7e", 4, 3)
    await refused(engine.seed(Served(Notes), SeedRequest(split="none", index=1)))
    session = await engine.start(Notes)
    await call(session, "note", text="x")
    await session.verify()
    await engine.start(Notes, Row())
    engine.time_s += 10
    engine.sweep()
    engine.metrics.turned_away(Code.UNAUTHORIZED)
    await engine.start(Notes)
    SANDBOX.ended("completed", time.perf_counter())
    SANDBOX.replaced.labels("lost")
    GRADERS.timed("exact", lambda: 1.0)
    try:
        GRADERS.timed("exact", lambda: 1 / 0)
    except ZeroDivisionError:
        read = Scrape.of(engine.metrics.text())
    await engine.drain(0)
    return read


def labels_of(read: Scrape, family: str) -> list[str]:
    """The names of a family's labels, without a histogram's own."""
    suffix = {"counter": "_total", "histogram": "_count"}.get(read.types[family], "")
    series = read.values[f"{family}{suffix}"]
    return [] if not series else list(series[0][0])


def table(read: Scrape) -> str:
    """As Markdown: name, type, labels, meaning."""
    lines = ["| figure | type | labels | is |", "|---|---|---|---|"]
    for family in sorted(read.types, key=lambda name: (not name.startswith(OURS), name)):
        kind = read.types[family]
        name = f"{family}_total" if kind == "counter" else family
        labels = ", ".join(f"`{label}`" for label in sorted(labels_of(read, family))) or "-"
        lines.append(f"| `{name}` | {kind} | {labels} | {read.helps[family].removesuffix('.')} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(asyncio.run(exported())))
