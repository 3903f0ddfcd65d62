"""A client to be killed: begins one session, makes one long call, and tells on standard output how far it is."""

from __future__ import annotations

import asyncio
import sys

from gymwire.adapters import connect


async def main(url: str, wire: str, seconds: float) -> None:
    async with connect(url, env="kit", wire=wire) as connection:
        print("connected", flush=True)
        async with connection.session(split="eval", index=0) as session:
            print("seeded", flush=True)
            await session.call("nap", {"seconds": seconds})
            print("answered", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
