"""What the server costs by being there: start to first answer, memory at start and after many episodes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter

from .calls import OUR_WS
from .figures import Figure, at_most
from .fleet import Bench
from .flows import SHORT_OUTPUT, gym_episodes, gym_seeds, mcp_episodes, openenv_episodes
from .load import Connection, Crowd, MakeFlow, Meter, Timing, drive
from .processes import HOST, BenchError, Server, gymwire
from .wires import HttpConnection

ENVIRONMENTS = ("counter", "battery", "ledger", "checkout")
START_LIMIT_S, RSS_LIMIT_MB = 3.0, 150
#: The handles of the last 65,536 closed sessions are remembered: that much may grow, beside the allocator's noise.
REMEMBERED_MB_PER_EPISODE = 0.0007
NOISE_MB = 1.0
CROWD = 64


@dataclass(frozen=True, slots=True)
class Wire:
    name: str
    connection: type[Connection]
    flow: MakeFlow


WIRES = (
    Wire("NeMo Gym", HttpConnection, gym_episodes("/counter/gym", SHORT_OUTPUT)),
    Wire("MCP", HttpConnection, mcp_episodes("/counter/mcp")),
    Wire("OpenEnv", OUR_WS, openenv_episodes()),
)


async def figures(bench: Bench) -> list[Figure]:
    starts = [await _start(bench) for _ in range(bench.size.rounds)]
    first = min(starts, key=lambda start: start.wall_s)
    most = max(start.rss_mb for start in starts)
    in_time, small = at_most(START_LIMIT_S, first.wall_s, "s"), at_most(RSS_LIMIT_MB, most, "MB")
    note = f"{first.cpu_s:.2f} s of them CPU"
    return [
        Figure("standing", "start to first answer", "s", {"": first.wall_s}, checks=(in_time,), note=note),
        Figure("standing", "RSS after the first answer", "MB", {"": most}, checks=(small,)),
        *[await _growth(bench, wire) for wire in WIRES],
    ]


@dataclass(frozen=True, slots=True)
class Start:
    wall_s: float
    cpu_s: float
    rss_mb: float


async def _start(bench: Bench) -> Start:
    bench.say("start to first answer")
    server = gymwire(*ENVIRONMENTS)
    started = perf_counter()
    with server:
        await _first_answer(server)
        return Start(perf_counter() - started, server.cpu_s(), server.rss_mb())


async def _first_answer(server: Server) -> None:
    meter = Meter()
    connection = HttpConnection(gym_seeds("/counter/gym")(meter, 0))
    await asyncio.get_running_loop().create_connection(lambda: connection, HOST, server.port)
    await connection.over
    if not meter.operations:
        raise BenchError("the first request was not answered")


async def _growth(bench: Bench, wire: Wire) -> Figure:
    """RSS after some episodes, and again after many more."""
    episodes = bench.size.episodes
    bench.say(f"{episodes:,} episodes on {wire.name}")
    crowd = Crowd(wire.connection, wire.flow, CROWD)
    with gymwire("counter") as server:
        await drive(server, crowd, Timing(timed_s=0, operations=episodes // 5))
        before = server.rss_mb()
        load = await drive(server, crowd, Timing(timed_s=0, operations=episodes))
        after = server.rss_mb()
    allowed = round(NOISE_MB + REMEMBERED_MB_PER_EPISODE * load.operations, 1)
    return Figure(
        "standing",
        f"growth over {episodes:,} episodes, {wire.name}",
        "MB",
        {"": after - before},
        checks=(at_most(allowed, after - before, "MB"),),
        note=f"{before:.0f} to {after:.0f} MB, {load.per_s:.0f} episodes/s",
    )
