"""A client that never says goodbye: `python -m tests.soak.vanishing URL WIRE SESSIONS`, then kill it."""

from __future__ import annotations

import asyncio
import sys

from gymwire.adapters import connect


async def main(url: str, wire: str, sessions: int) -> None:
    async with connect(url, env="battery", wire=wire) as connection:
        opened = [await connection.session(split="train", index=index, seed=index) for index in range(sessions)]
        print("playing", flush=True)
        tool = opened[0].tools[0].name
        while True:
            await asyncio.gather(*(session.call(tool, {}) for session in opened))
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
