"""Clients that die, leave, or stop answering: their sessions go, their slots come back, others notice nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from gymwire.adapters import SessionFailed, connect
from gymwire.servers.app import App
from gymwire.servers.catalog import Served
from gymwire.servers.commands.serve import Server
from gymwire.servers.sessions import Sessions

from tests.faults.conftest import SLOTS
from tests.faults.watching import Watched
from tests.serving import ROOT, free_port
from tests.wires import world
from tests.worlds import Kit

pytestmark = pytest.mark.slow


@contextmanager
def client(url: str, wire: str, seconds: float) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.faults.client", url, wire, str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


async def said(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert (await asyncio.to_thread(process.stdout.readline)).strip() == word


async def test_a_client_killed_in_the_middle_of_a_call_leaves_nothing(watched: Watched, wire: str) -> None:
    with client(watched.url, wire, 1.0) as process:
        await said(process, "connected")
        await said(process, "seeded")
        await watched.until(lambda now: now["gymwire_slots_free"] == SLOTS - 1)
        await asyncio.sleep(0.2)
        os.kill(process.pid, signal.SIGKILL)
        async with world("kit", wire, watched.url) as connection, connection.session(split="eval", index=1) as other:
            assert (await other.call("count")).text == "0"
        await watched.until_free(SLOTS, timeout_s=8)


async def test_a_client_killed_in_the_queue_leaves_it(watched: Watched, wire: str) -> None:
    async with world("kit", "openenv", watched.url) as connection:
        held = await asyncio.gather(*(connection.session(split="eval", index=0).__aenter__() for _ in range(SLOTS)))
        with client(watched.url, wire, 1.0) as process:
            await said(process, "connected")
            await watched.until(lambda now: now["gymwire_seeds_queued"] == 1)
            os.kill(process.pid, signal.SIGKILL)
            await watched.until(lambda now: now["gymwire_seeds_queued"] == 0)
        assert await watched.figure("gymwire_slots_free") == 0
        await asyncio.gather(*(session.close() for session in held))


async def test_a_thousand_seeds_against_64_slots_with_half_of_the_clients_leaving(crowded: Watched, wire: str) -> None:
    rng, played, queued = Random(0), 0, asyncio.Event()

    async def stay(connection: Any, number: int) -> None:
        nonlocal played
        async with connection.session(split="eval", index=number % 8) as session:
            assert (await session.call("count")).text == "0"
            assert (await session.verify()).reward == 0.125
            played += 1

    async def leave(connection: Any, number: int) -> None:
        task = asyncio.create_task(stay(connection, number))
        await queued.wait()
        await asyncio.sleep(rng.random() * 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    before_mb = crowded.memory_mb()
    async with world("kit", wire, crowded.url) as connection:
        held = await asyncio.gather(*(connection.session(split="eval", index=0).__aenter__() for _ in range(SLOTS)))
        leaving = set(rng.sample(range(1000), 500))
        clients = [
            asyncio.create_task((leave if number in leaving else stay)(connection, number)) for number in range(1000)
        ]
        await crowded.until(lambda now: now["gymwire_seeds_queued"] > 400, timeout_s=40)
        queued.set()
        await asyncio.gather(*(session.close() for session in held))
        await asyncio.wait_for(asyncio.gather(*clients), 90)
    assert played >= 500
    await crowded.until_free(SLOTS, timeout_s=40)
    assert crowded.memory_mb() - before_mb < 60


async def test_a_half_open_socket_does_not_keep_its_session() -> None:
    """The client's machine is gone: its TCP connection stands, and nobody answers pings."""
    sessions = Sessions()
    server = Server(App([Served(Kit)], sessions))
    server.config.ws_ping_interval = server.config.ws_ping_timeout = 0.2
    server.config.port = free_port()
    running = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.005)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.config.port)
    try:
        writer.write(
            b"GET /kit/openenv/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert b"101" in await reader.readline()
        reset = b'{"type":"reset","data":{"split":"eval","index":0}}'
        writer.write(bytes([0x81, 0x80 | len(reset), 0, 0, 0, 0]) + reset)
        await asyncio.wait_for(_until(lambda: len(sessions.store) == 1), 5)
        (session,) = sessions.store
        await asyncio.wait_for(_until(lambda: not len(sessions.store)), 5)
        assert session.outcome is not None and session.outcome.failure_kind == "transport_peer_drop"
        assert sessions.slots.free == sessions.slots.size
    finally:
        writer.transport.abort()
        server.should_exit = True
        await running


async def _until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_a_socket_that_answers_pings_keeps_its_session(watched: Watched) -> None:
    async with world("kit", "openenv", watched.url) as connection, connection.session(split="eval", index=0) as session:
        await asyncio.sleep(2.5)
        assert (await session.call("count")).text == "0"


async def test_clients_that_drop_their_connection_at_any_moment_leave_no_slot_behind(watched: Watched) -> None:
    """Requests cut off after every so many bytes, on the routes that take slots."""
    body = b'{"split":"eval","index":0}'
    request = (
        b"POST /kit/gym/seed_session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    )
    host, port = watched.url.removeprefix("http://").split(":")
    for size in range(0, len(request) + 1, 16):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(request[:size] if size + 16 <= len(request) else request)
        await writer.drain()
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()
    await watched.until_free(SLOTS)


async def test_a_slow_body_is_read_and_a_slow_reader_is_waited_for(watched: Watched) -> None:
    host, port = watched.url.removeprefix("http://").split(":")
    body = b'{"split":"eval","index":0}'
    head = b"POST /kit/gym/seed_session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    reader, writer = await asyncio.open_connection(host, int(port))
    for byte in head + body:
        writer.write(bytes([byte]))
        await asyncio.sleep(0.002)
    answer = await reader.readuntil(b"\r\n\r\n")
    assert b" 200 " in answer.split(b"\r\n")[0]
    writer.close()
    async with world("kit", "nemo-gym", watched.url) as connection, connection.session(split="eval", index=0) as other:
        assert (await other.call("count")).text == "0"


async def test_slow_readers_of_large_answers_hold_up_nobody_and_no_memory(watched: Watched) -> None:
    """Twenty clients ask for a megabyte each and do not read it."""
    before_mb = watched.memory_mb()
    host, port = watched.url.removeprefix("http://").split(":")
    row = b'{"responses_create_params":{"input":"x"},"stage":"call","how":"50 MB"}'
    writers = []
    for _ in range(20):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /breaks/gym/seed_session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(row) + row
        )
        head = await reader.readuntil(b"\r\n\r\n")
        cookie = head[head.lower().index(b"gymwire_breaks=") :].split(b";")[0]
        writer.write(
            b"POST /breaks/gym/crash HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: %s\r\nContent-Length: 2\r\n\r\n{}" % cookie
        )
        writers.append(writer)
    async with world("kit", "nemo-gym", watched.url) as connection, connection.session(split="eval", index=0) as other:
        for _ in range(20):
            assert (await asyncio.wait_for(other.call("count"), 5)).text == "0"
    for writer in writers:
        writer.transport.abort()
    await watched.until_free(SLOTS)
    assert watched.memory_mb() - before_mb < 150


async def test_a_client_that_times_out_gets_one_typed_failure(watched: Watched, wire: str) -> None:
    async with (
        connect(watched.url, env="kit", wire=wire, call_timeout_s=0.2) as connection,
        connection.session(split="eval", index=0) as session,
    ):
        with pytest.raises(SessionFailed) as caught:
            await session.call("nap", {"seconds": 1.5})
        assert caught.value.kind == "transport_timeout"
        with pytest.raises(SessionFailed):
            await session.verify()


async def test_requests_of_many_kinds_at_once_do_not_disturb_each_other(watched: Watched) -> None:
    async def episode(wire: str, number: int) -> float | None:
        place = {"split": "eval", "index": number % 8}
        async with world("kit", wire, watched.url) as connection, connection.session(**place) as session:
            await session.call("put", {"item": f"eval-{number % 8}-0", "at": {"shelf": 1}})
            await session.call("dawdle", {"seconds": 1})
            return (await session.verify()).reward

    async def noise(number: int) -> None:
        async with watched.http.post(f"{watched.url}/kit/gym/verify", data=b"{" * number) as answer:
            assert answer.status == 400

    wires = ("nemo-gym", "openenv", "mcp")
    work = [episode(wires[number % 3], number) for number in range(30)]
    rewards, _ = await asyncio.gather(asyncio.gather(*work), asyncio.gather(*(noise(n) for n in range(1, 30))))
    assert set(rewards) == {0.25}
