"""A cheap load: many connections, each driven by a generator that yields requests and is sent the answers.

A flow yields the bytes of the next request, or the seconds to think before it goes on (it is sent None then).
It counts its finished operations on the meter. When a connection ends, `ConnectionError` is raised inside its
flow: a flow that expects the end catches it and returns.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import NamedTuple, cast

from .processes import HOST, BenchError, Server

READY_TIMEOUT_S = 60.0
#: Connections that wait for their first answer at once: more would overflow the queue of a listening socket.
OPENING = 256
#: A whole wave takes seconds at the slowest peer; past this the server, or a flow, hangs.
STALL_S = 45.0


class Answer(NamedTuple):
    """What came back: a whole HTTP answer, or the text of one WebSocket message (status 0, no head)."""

    status: int
    head: bytes
    body: bytes


Flow = Generator[bytes | float, Answer, None]


@dataclass(slots=True)
class Meter:
    """What a load has done so far."""

    operations: int = 0
    ready: int = 0
    latencies_s: list[float] = field(default_factory=list)
    #: Latencies are kept only while this is set: they cost the load generator time.
    timing: bool = False
    _awaited: int = 0
    _reached: asyncio.Future[None] | None = None

    def done(self) -> None:
        """One operation has ended."""
        self.operations += 1
        if self._reached is not None and self.operations >= self._awaited:
            self._reached.set_result(None)
            self._reached = None

    async def more(self, operations: int) -> None:
        """Wait until that many more have ended. Raises `BenchError` when they do not."""
        self._awaited = self.operations + operations
        self._reached = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(STALL_S):
                await self._reached
        except TimeoutError:
            raise BenchError(f"fewer than {operations} operations within {STALL_S:g} s") from None


MakeFlow = Callable[[Meter, int], Flow]


class Connection(asyncio.Protocol):
    """One connection and the flow on it; the wires say how requests and answers are framed."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._transport: asyncio.Transport | None = None
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.heard = asyncio.Event()  # the first answer came

    def begin(self) -> None:
        self._resume(lambda: next(self._flow))

    def answered(self, answer: Answer) -> None:
        self.heard.set()
        self._resume(lambda: self._flow.send(answer))

    def send(self, payload: bytes) -> None:
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by class

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self._resume(lambda: self._flow.throw(ConnectionError("the server ended the connection")))
            if not self.over.done():
                self._end(BenchError("a flow went on after its connection had ended"))

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Give up the flow."""
        self._end(None)

    def _resume(self, step: Callable[[], bytes | float]) -> None:
        if self.over.done():
            return
        try:
            wanted = step()
        except StopIteration:
            self._end(None)
        except Exception as error:  # whatever a flow found wrong ends the measurement
            self._end(error)
        else:
            if isinstance(wanted, bytes):
                self.send(wanted)
            else:
                asyncio.get_running_loop().call_later(wanted, self.begin)

    def _end(self, error: Exception | None) -> None:
        self.heard.set()
        if not self.over.done():
            self.over.set_result(None) if error is None else self.over.set_exception(error)
        if self._transport is not None:
            self._transport.close()


@dataclass(frozen=True, slots=True)
class Load:
    """The timed part of a load, from both ends."""

    operations: int
    wall_s: float
    server_cpu_s: float
    latencies_s: list[float]

    @property
    def cpu_ms(self) -> float:
        """Server CPU per operation."""
        return 1000 * self.server_cpu_s / self.operations

    @property
    def per_s(self) -> float:
        return self.operations / self.wall_s


@dataclass(frozen=True, slots=True)
class Timing:
    """At least `timed_s`, or at least so many `operations`, after every connection was ready and `warm_s`."""

    warm_s: float = 0.2
    timed_s: float = 1.0
    operations: int = 0


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many connections of which wire."""

    connection: type[Connection]
    make_flow: MakeFlow
    size: int
    keep_latencies: bool = False


async def drive(server: Server, crowd: Crowd, timing: Timing) -> Load:
    """Put the load on the server and measure its timed part. Raises what a flow raised."""
    with _no_collections():  # a pause of the load generator would be counted as the server's latency
        return await _drive(server, crowd, timing)


@contextmanager
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _drive(server: Server, crowd: Crowd, timing: Timing) -> Load:
    meter, live = Meter(), set[Connection]()
    gate = asyncio.Semaphore(OPENING)
    workers = [asyncio.create_task(_work(server.port, crowd, meter, live, gate, index)) for index in range(crowd.size)]
    measuring = asyncio.create_task(_measure(server, crowd, meter, timing))
    try:
        await asyncio.wait([measuring, *workers], return_when=asyncio.FIRST_COMPLETED)
        for worker in workers:
            if worker.done() and not measuring.done():
                worker.result()
        return await measuring
    finally:
        for task in (measuring, *workers):
            task.cancel()
        for connection in list(live):
            connection.close()
        await asyncio.gather(measuring, *workers, return_exceptions=True)
        await asyncio.sleep(0.05)  # the server sees the connections end


async def _work(
    port: int, crowd: Crowd, meter: Meter, live: set[Connection], gate: asyncio.Semaphore, index: int
) -> None:
    """One member of the crowd: a connection at a time, for ever."""
    loop = asyncio.get_running_loop()
    for turn in count():
        async with gate:
            connection = crowd.connection(crowd.make_flow(meter, index + turn * crowd.size))
            await loop.create_connection(lambda connection=connection: connection, HOST, port)
            live.add(connection)
            await connection.heard.wait()
        try:
            await connection.over
        finally:
            live.discard(connection)


async def _measure(server: Server, crowd: Crowd, meter: Meter, timing: Timing) -> Load:
    """Whole waves only: a crowd moves in step, so that a part of a wave would be the cheap or the dear part."""
    await _all_ready(crowd, meter)
    await asyncio.sleep(timing.warm_s)
    await meter.more(1)
    meter.timing = crowd.keep_latencies
    operations, cpu_s, started = meter.operations, server.cpu_s(), perf_counter()
    while meter.operations - operations < timing.operations or perf_counter() - started < timing.timed_s:
        await meter.more(crowd.size)
    done, spent_s, wall_s = meter.operations - operations, server.cpu_s() - cpu_s, perf_counter() - started
    return Load(done, wall_s, spent_s, meter.latencies_s)


async def _all_ready(crowd: Crowd, meter: Meter) -> None:
    try:
        async with asyncio.timeout(READY_TIMEOUT_S):
            while meter.ready < crowd.size:
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise BenchError(f"{meter.ready} of {crowd.size} connections were ready in time") from None


def ended_by_server(last: bytes) -> Flow:
    """The end of a flow: a last message, which the server answers by ending the connection."""
    with suppress(ConnectionError):
        yield last
