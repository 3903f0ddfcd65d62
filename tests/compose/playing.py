"""Episodes through the gateway, beside the same ones in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from gymwire.adapters.connect import Connection, connect
from gymwire.adapters.demo_rounds import POLICIES, Round, Rows, play_round
from gymwire.adapters.drive import drive
from gymwire.servers.catalog import find
from gymwire.servers.policies import Call

from tests.compose.project import Project

REMOTE = ("nemo-gym", "openenv", "mcp")


def through(project: Project, name: str, wire: str) -> Connection:
    """The environment at the gateway, or in this process where the wire is `local`."""
    if wire == "local":
        return connect(find(name))
    return connect(project.url, env=name, wire=wire, token=project.token)


async def rounds(project: Project, names: Sequence[str], policies: Sequence[str] = POLICIES) -> list[Round]:
    """The demo's clean rounds: 64 episodes at once of each environment, by each policy, on each wire."""
    played = []
    for name in names:
        for wire in (*REMOTE, "local"):
            async with through(project, name, wire) as connection:
                for policy in policies:
                    played.append(await play_round(connection, Rows(find(name)), policy, broken=False, advance=int))
    return played


async def few(project: Project, name: str, wire: str, count: int) -> list[float | str | None]:
    """Rewards (or what failed) of a few episodes, one after the other: for what needs a place in the sandbox."""
    rows, rewards = Rows(find(name)), []
    async with through(project, name, wire) as connection:
        for index in range(count):
            async with connection.session(split=rows.split, index=index, seed=index) as session:
                played = await drive(session, rows.script("oracle", index, session.prompt))
                rewards.append(str(played.failure) if played.masked else played.reward)
    return rewards


@dataclass
class Halfway:
    """Sessions that stop after their first call until `go_on` is set."""

    count: int
    begun: int = 0
    all_begun: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def play(self, connection: Connection, rows: Rows, index: int) -> float | None:
        """One episode by the policy `rule`; its reward. Raises `SessionFailed`."""
        async with connection.session(split=rows.split, index=index, seed=index) as session:
            script = rows.script("rule", index, session.prompt)
            step, answer = next(script), ""
            try:
                while isinstance(step, Call):
                    result = await session.call(step.name, step.arguments)
                    await self._wait_once()
                    step = script.send(result)
            except StopIteration as stop:
                answer = stop.value or ""
            return (await session.verify([{"role": "assistant", "content": answer}])).reward

    async def _wait_once(self) -> None:
        if self.go_on.is_set():
            return
        self.begun += 1
        if self.begun == self.count:
            self.all_begun.set()
        await self.go_on.wait()


Ended = list[float | BaseException | None]


async def interrupted(
    project: Project, name: str, wires: Sequence[str], count: int, meanwhile: Callable[[], object]
) -> Ended:
    """Rewards (or what failed) of `count` sessions a wire that have made one call when `meanwhile` runs."""
    rows, halfway = Rows(find(name)), Halfway(count * len(wires))
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(through(project, name, wire)) for wire in wires]
        episodes = [halfway.play(connection, rows, index) for connection in connections for index in range(count)]
        playing = asyncio.gather(*episodes, return_exceptions=True)
        try:
            await _first(halfway.all_begun.wait(), playing)
            await asyncio.to_thread(meanwhile)
        finally:
            halfway.go_on.set()
            ended = await playing
    return ended


async def undisturbed(project: Project, name: str, wires: Sequence[str], count: int) -> Ended:
    """The same in this process, with nothing happening."""
    return await interrupted(project, name, ["local"] * len(wires), count, lambda: None)


async def _first(*work: Awaitable[object]) -> None:
    """Wait for whichever ends first; the others go on."""
    tasks = [asyncio.ensure_future(item) for item in work]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
