"""What the doctor says of servers that others wrote; `python -m tests.peers.check_page` records it in docs/check.md."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from gymwire.adapters.doctor.findings import Finding
from gymwire.adapters.doctor.opening import Target, open_patient
from gymwire.adapters.doctor.patient import Options
from gymwire.adapters.doctor.run import examine
from gymwire.servers.rows import read_rows

from tests.adapters.doctor.page import PAGE, promises_part, verdicts_part, with_parts
from tests.peers.foreign_servers import Foreign, everything_over_http, openenv_template, upstream_nemo_gym
from tests.row_files import row_file

STATE, WEATHER = "example_session_state_mgmt", "example_mcp_weather"


@dataclass(frozen=True)
class Seen:
    """A server to look at: how it is started, its wire, and its rows where it does not say them."""

    stands: Callable[[Path], AbstractContextManager[Foreign]]
    wire: str
    rows: str = ""


SERVERS = {
    STATE: Seen(lambda folder: upstream_nemo_gym(STATE, folder), "nemo-gym", f"{STATE}.jsonl"),
    WEATHER: Seen(lambda folder: upstream_nemo_gym(WEATHER, folder), "nemo-gym", f"{WEATHER}.jsonl"),
    "openenv init": Seen(openenv_template, "openenv"),
    "server-everything": Seen(everything_over_http, "mcp"),
}


def look_at(name: str, folder: Path, skip: frozenset[str] = frozenset()) -> list[Finding]:
    """Start the server, and examine it."""
    server = SERVERS[name]
    rows = read_rows(row_file(server.rows)) if server.rows else []
    with server.stands(folder) as foreign:
        return asyncio.run(_examined(Target(foreign.url, server.wire, rows=rows), Options(seconds=90.0, skip=skip)))


async def _examined(target: Target, options: Options) -> list[Finding]:
    patient = await open_patient(target, options)
    try:
        return await examine(patient)
    finally:
        await patient.wire.place.pool.close()


def write_page() -> None:
    parts = {"promises": promises_part()}
    for name in SERVERS:
        with tempfile.TemporaryDirectory() as folder:
            parts[name] = verdicts_part(look_at(name, Path(folder)))
    PAGE.write_text(with_parts(PAGE.read_text(), parts))


if __name__ == "__main__":
    write_page()
