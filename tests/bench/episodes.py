"""Whole episodes (seed, two calls, verify with a transcript just under 16 KB, close) and verify by size."""

from __future__ import annotations

from . import fleet
from .calls import HTTP_ECHO, NEMO_GYM, OUR_WS, PLAIN, SDK, TOOLS, WS
from .costs import Costs, Subject, measure
from .figures import Check, Figure, at_most, least_ratio
from .fleet import Bench
from .flows import SHORT_OUTPUT, gym_episodes, gym_verifies, http_echo, mcp_episodes, openenv_episodes
from .load import Crowd, Timing, drive
from .texts import TOKENS, responses_output
from .wires import HttpConnection

SECTION = "server CPU of a whole episode"
GYM, OPENENV, MCP = "NeMo Gym episode", "OpenEnv episode, a socket each", "MCP episode"
SUBJECTS = (
    Subject(HTTP_ECHO, fleet.echo, HttpConnection, http_echo, echo=True),
    Subject(GYM, fleet.ours, HttpConnection, gym_episodes("/counter/gym", SHORT_OUTPUT)),
    Subject(NEMO_GYM, fleet.nemo_gym, HttpConnection, gym_episodes("", SHORT_OUTPUT), slow=True),
    Subject(OPENENV, fleet.ours, OUR_WS, openenv_episodes()),
    Subject(TOOLS, fleet.openenv_tools, WS, openenv_episodes(grade="grade"), slow=True),
    Subject(PLAIN, fleet.openenv_plain, WS, openenv_episodes(plain=True), slow=True),
    Subject(MCP, fleet.ours, HttpConnection, mcp_episodes("/counter/mcp")),
    Subject(SDK, fleet.sdk, HttpConnection, mcp_episodes("/mcp", sdk=True), slow=True),
)
LIMITS_MS = {GYM: 0.6, OPENENV: 0.8, MCP: 0.6}
PEERS = {GYM: (NEMO_GYM,), OPENENV: (TOOLS, PLAIN), MCP: (SDK,)}
VERIFY_LIMIT_MS_PER_MB = 4.0


async def figures(bench: Bench) -> list[Figure]:
    costs = await measure(bench, "episodes", SUBJECTS)
    lines = [_line(costs, subject.name) for subject in SUBJECTS if costs.of(subject.name) and not subject.echo]
    rates = [_rate(costs, name) for name in (GYM, OPENENV, MCP) if costs.of(name)]
    return [*lines, *rates, *await _verify_by_size(bench)]


def _line(costs: Costs, name: str) -> Figure:
    own = costs.of(name) or {}
    checks: tuple[Check, ...] = ()
    if name in LIMITS_MS:
        checks = (at_most(LIMITS_MS[name], max(own.values()), "ms"),)
    ratios = {f"by {peer}": least_ratio(costs.of(peer) or {}, own) for peer in PEERS.get(name, ())}
    return Figure(SECTION, name, "ms", own, {peer: ratio for peer, ratio in ratios.items() if ratio}, checks)


def _rate(costs: Costs, name: str) -> Figure:
    return Figure("episodes per second, one process", name, "/s", costs.rates(name))


async def _verify_by_size(bench: Bench) -> list[Figure]:
    """The cost of a 32k-token answer with ids and log-probabilities, less that of a short one, per MB."""
    long_output = responses_output(text_bytes=TOKENS * 4, tokens=TOKENS)
    extra_mb = (len(long_output) - len(SHORT_OUTPUT)) / 1e6
    bench.say(f"verify with {len(long_output) / 1e6:.2f} MB")
    made = []
    for name, server, prefix in (("gymwire", fleet.ours, "/counter/gym"), (NEMO_GYM, fleet.nemo_gym, "")):
        if bench.server(server) is None:
            continue
        short, long = (
            await _least(bench, server, prefix, SHORT_OUTPUT),
            await _least(bench, server, prefix, long_output),
        )
        per_mb = (long - short) / extra_mb
        checks = (at_most(VERIFY_LIMIT_MS_PER_MB, per_mb, "ms/MB"),) if server is fleet.ours else ()
        note = f"{len(long_output) / 1e6:.2f} MB in {long:.3g} ms"
        made.append(Figure("server CPU of verify by size", name, "ms/MB", {"": per_mb}, checks=checks, note=note))
    return made


async def _least(bench: Bench, server: fleet.MakeServer, prefix: str, output: bytes) -> float:
    crowd, timing = Crowd(HttpConnection, gym_verifies(prefix, output), 16), Timing(timed_s=bench.size.timed_s)
    return min([(await drive(bench.required(server), crowd, timing)).cpu_ms for _ in range(bench.size.rounds)])
