"""One client under measurement, alone in its process: `kind url sessions seconds`; prints JSON.

Every session calls as fast as it can; what is measured is this process's own CPU time per call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

WARM_S = 0.3
Call = Callable[[], Awaitable[object]]


async def measure(opening: Callable[[AsyncExitStack], Awaitable[Call]], sessions: int, seconds: float) -> None:
    calls = 0

    async def repeat(call: Call) -> None:
        nonlocal calls
        while True:
            await call()
            calls += 1

    async with AsyncExitStack() as stack:
        ready = [await opening(stack) for _ in range(sessions)]
        tasks = [asyncio.create_task(repeat(call)) for call in ready]
        await asyncio.sleep(WARM_S)
        before, cpu_s, started = calls, time.process_time(), time.perf_counter()
        while calls - before < sessions or time.perf_counter() - started < seconds:
            if (await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED))[0]:
                break  # only a failure ends one
        done, spent_s, wall_s = calls - before, time.process_time() - cpu_s, time.perf_counter() - started
        for task in tasks:
            if task.done():
                task.result()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps({"calls": done, "cpu_s": spent_s, "wall_s": wall_s}))


async def with_adapter(wire: str, url: str, sessions: int, seconds: float) -> None:
    from gymwire.adapters.connect import connect

    async with connect(url, env="counter", wire=wire) as environment:

        async def opening(stack: AsyncExitStack) -> Call:
            session = await stack.enter_async_context(environment.session(split="train", index=3))

            async def call() -> None:
                result = await session.call("add", {"n": 1})
                assert not result.is_error, result.text

            return call

        await measure(opening, sessions, seconds)


async def with_official_mcp(url: str, sessions: int, seconds: float) -> None:
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async def opening(stack: AsyncExitStack) -> Call:
        async with Client(f"{url}/counter/mcp", mode="2026-07-28") as plain:
            seeded = await plain.call_tool("seed_session", {"split": "train", "index": 3})
        handle = json.loads(seeded.content[0].text)["session"]  # pyright: ignore[reportAttributeAccessIssue]
        http = create_mcp_http_client(headers={"X-Gymwire-Session": handle})
        transport = streamable_http_client(f"{url}/counter/mcp", http_client=http)
        client = await stack.enter_async_context(Client(transport, mode="2026-07-28"))

        async def call() -> None:
            result = await client.call_tool("add", {"n": 1})
            assert not result.is_error, result.content

        return call

    await measure(opening, sessions, seconds)


def main() -> None:
    logging.disable(logging.INFO)
    kind, url, sessions, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    if kind == "official-mcp":
        asyncio.run(with_official_mcp(url, sessions, seconds))
    else:
        asyncio.run(with_adapter(kind, url, sessions, seconds))


if __name__ == "__main__":
    main()
