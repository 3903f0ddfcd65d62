"""The peers on OpenEnv 0.10: an MCPEnvironment and a plain environment with the counter. Arguments: port, kind."""

from __future__ import annotations

import sys
import uuid
from typing import Any

from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State
from serving import run

MAX_SESSIONS = 2048


def fresh(episode_id: str | None = None) -> State:
    return State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)


class WithTools(MCPEnvironment):
    """The counter's tools behind FastMCP, as OpenEnv offers tools."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        tools = FastMCP("counter")
        self.value, self.current = 0, fresh()

        @tools.tool
        async def add(n: int) -> str:
            """Add n to the counter."""
            self.value += n
            return "added"

        @tools.tool
        async def grade(messages: list[dict[str, Any]]) -> dict[str, float]:
            """Score the episode."""
            return {"reward": float(self.value == 2)}

        super().__init__(tools)

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Observation:
        self.value, self.current = 0, fresh(episode_id)
        return Observation(done=False, reward=0.0)

    def _step_impl(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        return Observation(done=False, reward=0.0)

    @property
    def state(self) -> State:
        return self.current


class Add(Action):
    """One step of the plain environment; with messages it asks for the score."""

    n: int = 0
    messages: list[dict[str, Any]] | None = None


class Added(Observation):
    text: str = ""


class Plain(Environment[Add, Added, State]):
    """The counter without tools: OpenEnv's cheapest kind."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self.value, self.current = 0, fresh()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Added:
        self.value, self.current = 0, fresh(episode_id)
        return Added(done=False, reward=0.0)

    async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Added:
        return self.reset(seed, episode_id)

    def step(self, action: Add, timeout_s: float | None = None, **_: Any) -> Added:
        self.current.step_count += 1
        if action.messages is not None:
            return Added(text="graded", done=True, reward=float(self.value == 2))
        self.value += action.n
        return Added(text="added", done=False, reward=0.0)

    async def step_async(self, action: Add, timeout_s: float | None = None, **_: Any) -> Added:
        return self.step(action)

    @property
    def state(self) -> State:
        return self.current


if __name__ == "__main__":
    if sys.argv[2] == "plain":
        app = create_fastapi_app(Plain, Add, Added, max_concurrent_envs=MAX_SESSIONS, env_name="counter")
    else:
        app = create_fastapi_app(
            WithTools, CallToolAction, CallToolObservation, max_concurrent_envs=MAX_SESSIONS, env_name="counter"
        )
    run(app, int(sys.argv[1]))
