"""One tool call on each wire, beside its peers and a bare echo."""

from __future__ import annotations

from . import fleet
from .costs import Costs, Subject, measure
from .figures import Check, Figure, at_most, least_ratio, times_at_most, times_less, when_quiet, worst_ratio
from .fleet import Bench
from .flows import gym_calls, http_echo, mcp_calls, openenv_calls, socket_echo
from .wires import HttpConnection, SocketConnection

SECTION = "server CPU of one call"
HTTP_ECHO, SOCKET_ECHO = "HTTP echo", "WebSocket echo"
GYM, OPENENV, MCP = "NeMo Gym call", "OpenEnv step with a tool", "MCP tools/call, stateless"
NEMO_GYM, TOOLS, PLAIN, SDK = "nemo-gym 0.7.0", "openenv 0.10 MCPEnvironment", "openenv 0.10 plain", "mcp 2.3 MCPServer"
WS = SocketConnection.at("/ws")
OUR_WS = SocketConnection.at("/counter/openenv/ws")

SUBJECTS = (
    Subject(HTTP_ECHO, fleet.echo, HttpConnection, http_echo, echo=True),
    Subject(SOCKET_ECHO, fleet.echo, SocketConnection, socket_echo, echo=True),
    Subject(GYM, fleet.ours, HttpConnection, gym_calls("/counter/gym")),
    Subject(NEMO_GYM, fleet.nemo_gym, HttpConnection, gym_calls("")),
    Subject(OPENENV, fleet.ours, OUR_WS, openenv_calls()),
    Subject(TOOLS, fleet.openenv_tools, WS, openenv_calls(), slow=True),
    Subject(PLAIN, fleet.openenv_plain, WS, openenv_calls(plain=True)),
    Subject(MCP, fleet.ours, HttpConnection, mcp_calls("/counter/mcp")),
    Subject(SDK, fleet.sdk, HttpConnection, mcp_calls("/mcp", sdk=True)),
)


async def figures(bench: Bench) -> list[Figure]:
    costs = await measure(bench, "calls", SUBJECTS)
    return [_line(costs, subject.name) for subject in SUBJECTS if costs.of(subject.name)]


def _line(costs: Costs, name: str) -> Figure:
    own = costs.of(name) or {}
    echo = costs.of(SOCKET_ECHO if name in (SOCKET_ECHO, OPENENV, TOOLS, PLAIN) else HTTP_ECHO)
    ratio = worst_ratio(own, echo)
    beside = {"echo": ratio} if ratio and name not in (HTTP_ECHO, SOCKET_ECHO) else {}
    return Figure(SECTION, name, "ms", own, beside, _checks(costs, name, own, ratio))


def _checks(costs: Costs, name: str, own: dict[str, float], echo_ratio: float | None) -> tuple[Check, ...]:
    if name == GYM:
        quietest = min((costs.of(HTTP_ECHO) or {"": 0.0}).values())
        return (
            times_at_most(2.5, echo_ratio, "echo"),
            times_less(12, least_ratio(costs.of(NEMO_GYM) or {}, own), "nemo-gym"),
            when_quiet(at_most(0.10, max(own.values()), "ms"), quietest),
        )
    if name == OPENENV:
        return (
            times_at_most(3, echo_ratio, "echo"),
            times_less(20, least_ratio(costs.of(TOOLS) or {}, own), "MCPEnvironment"),
            times_at_most(1, worst_ratio(own, costs.of(PLAIN)), "plain"),
        )
    if name == MCP:
        return (times_less(3.5, least_ratio(costs.of(SDK) or {}, own), "SDK"),)
    return ()
