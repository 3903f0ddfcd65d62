"""An environment that does everything once, a server of it in this process, and a bare client of its socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import uvicorn
from gymwire.servers import Environment, Row, ToolError, Transcript, tool
from gymwire.servers.app import App
from gymwire.servers.catalog import Served
from gymwire.servers.sessions import Limits, Sessions

Json = dict[str, Any]


class Lab(Environment):
    """Everything an environment can do, once."""

    splits = ("train", "eval")
    max_turns = 5
    #: Rows whose environments were closed, by number.
    closed: list[int] = []
    #: Naps that were taken.
    naps: list[float] = []

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for number in range(5):
            yield Row.of(f"{split} task {number}", number=number, secret=f"hidden-{split}-{number}")

    def reset(self, row: Row) -> None:
        if row.data.get("number") == -1:
            raise RuntimeError("this row cannot be reset")
        self.value, self.prompts = 0, ["the second prompt"]

    @tool
    async def add(self, n: int) -> int:
        """Add n."""
        self.value += n
        return self.value

    @tool
    async def echo(self, text: str) -> str:
        """Answer the text."""
        return text

    @tool
    async def refuse(self) -> str:
        """Refuse."""
        raise ToolError("not today")

    @tool
    async def crash(self) -> str:
        """Break."""
        raise RuntimeError("the machine broke")

    @tool
    async def wait(self) -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    @tool
    async def nap(self, seconds: float) -> str:
        """Take some time."""
        self.naps.append(seconds)
        await asyncio.sleep(seconds)
        return "awake"

    @tool(ends=True)
    async def finish(self) -> str:
        """End the episode."""
        return "finished"

    def end_turn(self) -> str | None:
        return self.prompts.pop() if self.prompts else None

    def verify(self, transcript: Transcript) -> float | dict[str, float]:
        return {"value": 0.25 * (self.value == 3), "answer": 0.5 * (transcript.answer == "done")}

    async def close(self) -> None:
        self.closed.append(self.row.data["number"])


class Lost(Lab):
    """Its verify answers no number."""

    def verify(self, transcript: Transcript) -> float:
        return float("nan")


class Server:
    """A running server and its engine."""

    def __init__(self, sessions: Sessions, origin: str) -> None:
        self.sessions, self.origin = sessions, origin

    def url(self, path: str = "", environment: str = "lab") -> str:
        return f"{self.origin}/{environment}/openenv{path}"

    @property
    def free(self) -> int:
        return self.sessions.slots.free


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    limits: Limits | None = None, *, ping_s: float = 20.0, max_bytes: int = 1 << 26
) -> AsyncIterator[Server]:
    sessions = Sessions(limits)
    app = App([Served(Lab), Served(Lost)], sessions, max_body_bytes=max_bytes)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType]
        ws="websockets-sansio",
        ws_max_size=1 << 27,
        ws_ping_interval=ping_s,
        ws_ping_timeout=ping_s,
        log_config=None,
    )
    server = _Quiet(config)
    running = asyncio.create_task(server.serve([listening]))
    await until(lambda: server.started)
    try:
        yield Server(sessions, f"http://127.0.0.1:{listening.getsockname()[1]}")
    finally:
        server.should_exit = True
        await running


async def until(condition: Callable[[], bool]) -> None:
    """Wait until it holds, at most ten seconds."""
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


class Line:
    """One socket, a message at a time."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, message: Any) -> None:
        if isinstance(message, bytes):
            await self.socket.send_bytes(message)
        else:
            await self.socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def receive(self) -> Json:
        return json.loads(await self.socket.receive_str(timeout=10))

    async def ask(self, message: Any) -> Json:
        await self.send(message)
        return await self.receive()

    async def reset(self, **data: Any) -> Json:
        answer = await self.ask({"type": "reset", "data": data})
        assert answer["type"] == "observation", answer
        return answer["data"]

    async def call(self, tool: str, arguments: Any = None, **more: Any) -> Json:
        action = {"type": "call_tool", "tool_name": tool, "arguments": arguments or {}, **more}
        answer = await self.ask({"type": "step", "data": action})
        assert answer["type"] == "observation", answer
        return answer["data"]

    async def control(self, name: str, **arguments: Any) -> Json:
        return await self.call(name, arguments, metadata={"control": True})

    async def steps(self) -> int:
        return (await self.ask({"type": "state"}))["data"]["step_count"]


@asynccontextmanager
async def line(server: Server, path: str = "/ws", environment: str = "lab", **options: Any) -> AsyncIterator[Line]:
    url = server.url(path, environment)
    async with aiohttp.ClientSession() as client, client.ws_connect(url, max_msg_size=0, **options) as socket:
        yield Line(socket)
