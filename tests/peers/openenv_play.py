"""Run in OpenEnv's environment: its clients play episodes, all of them open at once, a move each in turn.

    python openenv_play.py CASES_FILE

A case is {"client", "url", "reset", "calls": [{"name", "arguments"}], "verify"}; where it names a "parent", the
client of the case with that number opens its session. Prints one line of JSON for each case.
"""

# pyright: reportMissingImports=false

import asyncio
import inspect
import json
import sys
from pathlib import Path
from typing import Any, Literal

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Action
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


class Control(Action):
    """A control call. OpenEnv's client for tools drops the metadata of its own `CallToolAction`."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any]


class OwnClient(EnvClient[Action, dict, dict]):
    """What the author of an environment writes."""

    def _step_payload(self, action: Action) -> dict:
        return action.model_dump()

    def _parse_result(self, payload: dict) -> StepResult:
        return StepResult(**payload)

    def _parse_state(self, payload: dict) -> dict:
        return payload


class Player:
    """One client, with the calls that it is to make and what it has seen."""

    client_class: type = GenericEnvClient

    def __init__(self, case: dict) -> None:
        self.case = case
        self.calls = list(case["calls"])
        self.seen: dict[str, Any] = {"texts": [], "steps": []}

    async def begin(self, parent: "Player | None") -> None:
        if parent is None:
            self.client = self.made()
            await settled(self.client.connect())
        else:
            self.client = await settled(parent.client.new_session())
        first = await settled(self.client.reset(**self.case["reset"]))
        self.seen |= {"first": [first.reward, first.done], "prompt": first.metadata["prompt"]}
        self.seen["tools"] = await self.tool_names(first)

    def made(self) -> Any:
        return self.client_class(base_url=self.case["url"])

    async def tool_names(self, first: StepResult) -> list[str]:
        return [tool["name"] for tool in first.observation["tools"]]

    async def move(self) -> None:
        call = self.calls.pop(0)
        self.seen["texts"].append(await self.call(call["name"], call["arguments"]))

    async def call(self, name: str, arguments: dict) -> str:
        result = await settled(self.client.step(self.action(name, arguments)))
        self.seen["steps"].append([result.reward, result.done, (result.metadata or {}).get("failure_kind")])
        return plain(result.observation)["result"]["data"]

    def action(self, name: str, arguments: dict) -> Any:
        return {"type": "call_tool", "tool_name": name, "arguments": arguments}

    def control(self, name: str, arguments: dict) -> Any:
        return self.action(name, arguments) | {"metadata": {"control": True}}

    async def end(self) -> None:
        result = await settled(self.client.step(self.control("verify", self.case["verify"])))
        self.seen |= {"reward": result.reward, "done": result.done, "verdict": result.metadata}
        self.seen["state"] = plain(await settled(self.client.state()))
        await settled(self.client.close())


class SyncPlayer(Player):
    def made(self) -> Any:
        return super().made().sync()


class OwnPlayer(Player):
    client_class = OwnClient

    def action(self, name: str, arguments: dict) -> Any:
        return Control(tool_name=name, arguments=arguments)

    def control(self, name: str, arguments: dict) -> Any:
        return Control(tool_name=name, arguments=arguments, metadata={"control": True})


class ToolStepPlayer(OwnPlayer):
    """The client for tools, stepping with OpenEnv's own action."""

    client_class = MCPToolClient

    def action(self, name: str, arguments: dict) -> Any:
        return CallToolAction(tool_name=name, arguments=arguments)

    async def tool_names(self, first: StepResult) -> list[str]:
        return [tool.name for tool in await self.client.list_tools()]


class ToolCallPlayer(ToolStepPlayer):
    """The client for tools, calling them over its own requests beside the socket."""

    async def call(self, name: str, arguments: dict) -> str:
        try:
            return await self.client.call_tool(name, **arguments)
        except RuntimeError as error:
            return str(error).removeprefix(f"Tool '{name}' failed: ")


PLAYERS = {
    "generic": Player,
    "sync": SyncPlayer,
    "own": OwnPlayer,
    "tool_steps": ToolStepPlayer,
    "tool_calls": ToolCallPlayer,
}


async def settled(value: Any) -> Any:
    """An answer of a client that may be a synchronous one."""
    return await value if inspect.isawaitable(value) else value


def plain(value: Any) -> Any:
    return value if isinstance(value, dict) else value.model_dump(mode="json")


async def play(cases: list[dict]) -> list[dict]:
    players = [PLAYERS[case["client"]](case) for case in cases]
    for player in players:
        parent = player.case.get("parent")
        await player.begin(None if parent is None else players[parent])
    while waiting := [player for player in players if player.calls]:
        for player in waiting:
            await player.move()
    for player in reversed(players):  # children before their parents, who close them too
        await player.end()
    return [player.seen for player in players]


if __name__ == "__main__":
    for seen in asyncio.run(play(json.loads(Path(sys.argv[1]).read_text()))):
        print(json.dumps(seen))
