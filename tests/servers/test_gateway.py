"""What strangers may do to the gateway in front of several servers: nothing that reaches the sessions of others."""

from __future__ import annotations

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import aiohttp
from gymwire.adapters import connect
from gymwire.servers.gateway import config

from tests.faults.replicas import need, until_it_answers
from tests.serving import free_port, serving

PINNED = "tests.pinned:Pinned"
TOKEN = "player-token-0123456789"


@contextmanager
def haproxy(folder: Path, *servers: str) -> Iterator[tuple[int, Path]]:
    """A gateway in front of servers: its port, and the socket that tells what it remembers."""
    port, told, file = free_port(), folder / "stats", folder / "haproxy.cfg"
    text = config(f"127.0.0.1:{port}", {f"s{number}": address for number, address in enumerate(servers)})
    text = text.replace("http-request 10s", "http-request 1s")
    file.write_text(text.replace("global\n", f"global\n    stats socket {told}\n", 1))
    process = subprocess.Popen(["haproxy", "-db", "-q", "-f", str(file)])
    try:
        until_it_answers(f"http://127.0.0.1:{port}")
        yield port, told
    finally:
        process.kill()
        process.wait()


def remembered(told: Path) -> int:
    """How many sessions the gateway knows the server of."""
    with closing(socket.socket(socket.AF_UNIX)) as asking:
        asking.connect(str(told))
        asking.sendall(b"show table servers\n")
        return int(asking.makefile().readline().rpartition("used:")[2])


async def test_strangers_push_no_session_out_of_the_table(tmp_path: Path) -> None:
    need("haproxy")
    (tmp_path / "tokens").write_text(f"{TOKEN} play\n")
    words = PINNED, "--token-file", str(tmp_path / "tokens")
    with serving(tmp_path / "one", *words) as one, serving(tmp_path / "two", *words) as two:
        addresses = [running.url.removeprefix("http://") for running in (one, two)]
        with haproxy(tmp_path, *addresses) as (port, told):
            url = f"http://127.0.0.1:{port}"
            made_up = [{"cookie": f"gymwire_pinned=x{number}.0a"} for number in range(20)]
            made_up += [{"x-gymwire-session": "x.0a"}, {"mcp-session-id": "y" * 300}]
            async with aiohttp.ClientSession() as http:
                for headers in made_up:
                    for path in ("gym/add", "mcp"):
                        async with http.post(f"{url}/pinned/{path}", data=b"{}", headers=headers) as answer:
                            assert answer.status == 401
            assert remembered(told) == 0
            async with connect(url, wire="nemo-gym", token=TOKEN) as connection, connection.session() as session:
                assert not (await session.call("add", {"n": 1})).is_error
            assert remembered(told) == 1


async def test_a_head_that_drips_is_ended(tmp_path: Path) -> None:
    need("haproxy")
    with serving(tmp_path / "one", "counter") as one, haproxy(tmp_path, one.url.removeprefix("http://")) as (port, _):
        for start in (b"", b"POST /counter/gym/add HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(start)
            async with asyncio.timeout(10):
                assert b" 408 " in await reader.read() or not start
            writer.close()
