"""Plays environments directly, without a session engine or a wire."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from math import fsum
from random import Random
from typing import Any

import pytest
from gymwire.servers import Environment, Row, ToolError, ToolResult, Transcript
from gymwire.servers.policies import Call
from gymwire.servers.schema import BadArguments


class Episode:
    """One object of an environment; calls go through the argument check, as on a wire."""

    def __init__(self, environment: type[Environment], row: Row, seed: int = 0, **settings: Any) -> None:
        self.row = row
        self.env: Any = environment(**settings)
        self.env.row, self.env.rng = row, Random(seed)
        self.env.data = None if environment.Data is None else environment.Data.model_validate(dict(row.data))
        self.answer = ""
        _begin(self.env.reset(row))
        self.results: list[ToolResult] = []

    async def call(self, tool: str, **arguments: Any) -> ToolResult:
        return await self.send(tool, json.dumps(arguments))

    async def send(self, tool: str, raw_arguments: str) -> ToolResult:
        self.results.append(await self._answer(tool, raw_arguments.encode()))
        return self.results[-1]

    async def _answer(self, tool: str, raw_arguments: bytes) -> ToolResult:
        spec = self.env.tool_specs[tool]
        try:
            value = spec.function(self.env, **spec.check.read(raw_arguments))
            value = await value if inspect.isawaitable(value) else value
        except (BadArguments, ToolError) as error:
            return ToolResult(str(error), is_error=True)
        return ToolResult(value if isinstance(value, str) else json.dumps(value), done=spec.ends)

    async def parts(self) -> dict[str, float]:
        value = self.env.verify(Transcript([{"role": "assistant", "content": self.answer}]))
        value = await value if inspect.isawaitable(value) else value
        return dict(value) if isinstance(value, Mapping) else {"reward": value}

    async def reward(self) -> float:
        return fsum((await self.parts()).values())


def _begin(reset: Any) -> None:
    """Run a `reset` of either kind; none of the bundled ones ever waits."""
    if not inspect.iscoroutine(reset):
        return
    try:
        reset.send(None)
    except StopIteration:
        return
    raise AssertionError("it waited for something")


async def play(environment: type[Environment], row: Row, policy: str, seed: int = 0, **settings: Any) -> Episode:
    """Let a scripted policy act until it stops, within the turn cap; only the oracle sees the task data."""
    episode = Episode(environment, row, seed, **settings)
    seen = row if policy == "oracle" else Row(prompt=row.prompt)
    script = environment.policies[policy](seen, Random(seed))
    result: ToolResult | None = None
    while True:
        try:
            action = next(script) if result is None else script.send(result)
        except StopIteration as stop:
            episode.answer = stop.value
            break
        assert isinstance(action, Call)
        result = await episode.call(action.name, **action.arguments)
    assert environment.max_turns is None or len(episode.results) < environment.max_turns
    return episode


@pytest.fixture(name="Episode")
def _episode() -> type[Episode]:
    return Episode


@pytest.fixture(name="play")
def _play() -> Callable[..., Any]:
    return play
