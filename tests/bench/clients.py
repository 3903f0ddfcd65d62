"""Client CPU of one call through each adapter at 64 sessions, beside the official MCP client."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from . import fleet
from .figures import Figure, at_most
from .fleet import Bench
from .processes import output_of

SESSIONS = 64
TIMEOUT_S = 90.0
SCRIPT = Path(__file__).with_name("client_process.py")
LIMITS_MS = {"nemo-gym": 0.18, "openenv": 0.06, "mcp": 0.18}
OFFICIAL = "official-mcp"


async def figures(bench: Bench) -> list[Figure]:
    costs = {kind: await _least(bench, kind) for kind in (*LIMITS_MS, OFFICIAL)}
    made = []
    for kind, cost_ms in costs.items():
        checks = (at_most(LIMITS_MS[kind], cost_ms, "ms"),) if kind in LIMITS_MS else ()
        beside = {"by the official client": costs[OFFICIAL] / cost_ms} if kind == "mcp" else {}
        name = "official MCP client" if kind == OFFICIAL else f"adapter: {kind}"
        made.append(Figure("client CPU of one call", name, "ms", {str(SESSIONS): cost_ms}, beside, checks))
    return made


async def _least(bench: Bench, kind: str) -> float:
    bench.say(f"client CPU: {kind}")
    return min([await _one(bench, kind) for _ in range(bench.size.rounds)])


async def _one(bench: Bench, kind: str) -> float:
    url = f"http://127.0.0.1:{bench.required(fleet.ours).port}"
    command = [sys.executable, str(SCRIPT), kind, url, str(SESSIONS), str(bench.size.timed_s)]
    measured = json.loads(await output_of(f"client {kind}", command, TIMEOUT_S))
    return 1000 * measured["cpu_s"] / measured["calls"]
