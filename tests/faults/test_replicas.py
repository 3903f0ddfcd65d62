"""Replicas come and go under their sessions: no acknowledged call is lost or counts twice, none begins anew.

Where a session cannot go on, it fails with its kind; nothing of it becomes a score.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from gymwire.adapters import Connection, Played, Session, SessionFailed, connect, drive
from gymwire.adapters.mcp import McpSession
from gymwire.adapters.nemo_gym import NemoGymSession
from gymwire.servers.rows import RowSource
from gymwire.servers.types import Ending, Message, Outcome, Row, ToolResult
from yarl import URL

from tests.faults.replicas import Chaos, balanced, need, replicas
from tests.servers.shared.conftest import RedisServer, redis_server
from tests.wires import WIRES
from tests.worlds import BUNDLED

__all__ = ["redis_server"]

SESSIONS, SEED = 256, 5
#: Of those that can go on elsewhere.
SHARE = 0.95
#: When so many have ended, nothing more happens to the replicas.
QUIET = 0.9
#: Seconds a session lives in the middle, with its policy's thinking.
LIFE_S = 12.0
ADDS = 14
COUNTER = "slow_counter"
PLAYED = ("battery", "ledger")
ROWS = 8


class Thinking:
    """A session whose policy takes its time before everything it does."""

    def __init__(self, session: Session, rng: Random, steps: int) -> None:
        self.session, self.rng, self.mean_s = session, rng, LIFE_S / steps
        self.max_turns = session.max_turns

    @property
    def done(self) -> bool:
        return self.session.done

    async def think(self) -> None:
        await asyncio.sleep(self.rng.uniform(0.2, 1.8) * self.mean_s)

    async def call(self, name: str, arguments: object = None) -> ToolResult:
        await self.think()
        return await self.session.call(name, arguments)

    async def verify(self, messages: Sequence[Message] = (), *, ending: Ending = Ending.FINISHED) -> Outcome:
        await self.think()
        return await self.session.verify(messages, ending=ending)


@dataclass
class Tally:
    """How the sessions ended."""

    right: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    calls: int = 0

    def failed(self, wire: str, name: str, failure: SessionFailed) -> None:
        self.kinds[failure.kind] += 1
        self.reasons.append(f"{wire} {name}: {failure}")


async def count(session: Thinking, rng: Random, tally: Tally) -> tuple[float, float, str]:
    """Add and look, by turns: the reward, the right one, and what the counter showed that it should not have."""
    acknowledged, messages = 0, []
    for number in range(ADDS):
        n = rng.randint(1, 9)
        result = await session.call("add", {"n": n})
        acknowledged += n
        tally.calls += 1
        assert result.text == "added"
        if number % 4 == 3:
            shown = int((await session.call("read")).text)
            if shown != acknowledged:
                return 0.0, 1.0, f"{acknowledged} were acknowledged, the counter shows {shown}"
    shown = int((await session.session.call("read")).text)
    outcome = await session.verify(messages)
    right = 0.5 * (1 - abs(1000 - acknowledged) / 1000)
    said = "" if shown == acknowledged else f"{acknowledged} were acknowledged, the counter shows {shown}"
    return outcome.reward or 0.0, right, said


async def one(number: int, wire: str, connections: dict[tuple[str, str], Connection], tally: Tally) -> None:
    rng = Random(number)
    name = (COUNTER, COUNTER, *PLAYED)[number // 3 % 4]
    index = number % ROWS
    try:
        if name == COUNTER:
            row = Row.of("Bring the counter to exactly 1000.", start=0, target=1000)
            async with connections[wire, name].session(row=row) as session:
                got, right, said = await count(Thinking(session, rng, ADDS + 4), rng, tally)
        else:
            row, expected = UNDISTURBED[name, index]
            async with connections[wire, name].session(split="eval", index=index) as session:
                steps = expected.turns + 1
                played = await drive(Thinking(session, rng, steps), script(name, row, index))  # type: ignore[arg-type]
            if played.failure is not None:
                raise played.failure
            got, right, said = seen(played), seen(expected), ""
    except SessionFailed as failure:
        tally.failed(wire, name, failure)
        return
    if got == right and not said:
        tally.right += 1
    else:
        tally.wrong.append(f"{wire} {name} {index}: {said or f'{got} instead of {right}'}")


UNDISTURBED: dict[tuple[str, int], tuple[Row, Played]] = {}


def seen(played: Played) -> Any:
    """The reward and everything else; disagreements would say that the server's log has other calls."""
    outcome = played.outcome
    assert outcome is not None
    texts = [result.text for result in played.results]
    return outcome.reward, dict(outcome.components), outcome.ending, outcome.disagreements, texts


def script(name: str, row: Row, index: int) -> Any:
    return BUNDLED[name].policies["oracle" if index % 2 else "rule"](row, Random(index))


async def play_undisturbed() -> None:
    for name in PLAYED:
        source = RowSource(BUNDLED[name])
        async with connect(BUNDLED[name], wire="local") as connection:
            for index in range(ROWS):
                row = source.get("eval", index)
                async with connection.session(split="eval", index=index) as session:
                    UNDISTURBED[name, index] = row, await drive(session, script(name, row, index))


@asynccontextmanager
async def connected(url: str, *names: str) -> AsyncIterator[dict[tuple[str, str], Connection]]:
    made = {(wire, name): connect(url, env=name, wire=wire) for wire in WIRES[1:] for name in names}
    try:
        for connection in made.values():
            await connection.open()
        yield made
    finally:
        for connection in made.values():
            await connection.close()


@pytest.mark.slow
async def test_what_cannot_move_is_lost_with_its_replica(redis_server: RedisServer, tmp_path: Path) -> None:
    """A gateway keeps such a session where it is; the others say at once that they do not have it."""
    need("haproxy")
    with replicas(tmp_path, redis_server.url, 2, "tests.worlds:Kit") as servers, balanced(tmp_path, servers) as url:
        async with connected(url, "kit") as connections:
            sessions = [
                await connections[wire, "kit"].session(split="eval", index=n) for wire in WIRES[1:] for n in (0, 1)
            ]
            for session in sessions:
                for item in ("cup", "cap"):
                    assert not (await session.call("put", {"item": item, "at": {"shelf": 1}})).is_error
            servers[0].kill()
            ended = [await _ending(session) for session in sessions]
            servers[1].kill()
            await asyncio.to_thread(servers[0].start)
            rest = [await _ending(session) for session in sessions]
    assert set(ended) <= {"alive", "session_lost"} and len(set(ended)) == 2, ended
    assert set(rest) == {"session_lost"}


async def _ending(session: Session) -> str:
    try:
        await session.call("count")
    except SessionFailed as failure:
        with pytest.raises(SessionFailed):
            await session.verify()
        return failure.kind
    return "alive"


async def test_every_wire_says_that_a_session_is_anothers(redis_server: RedisServer, tmp_path: Path) -> None:
    with replicas(tmp_path, redis_server.url, 2, "tests.worlds:Kit") as (here, there):
        async with connected(here.url, "kit") as connections, aiohttp.ClientSession() as http:
            gym, _, mcp = [await connections[wire, "kit"].session(split="eval", index=0) for wire in WIRES[1:]]
            assert isinstance(gym, NemoGymSession) and isinstance(mcp, McpSession)
            cookie, at = {"Cookie": gym._jar.header}, f"{there.url}/kit"
            async with http.post(f"{at}/gym/count", json={}, headers=cookie) as answer:
                assert (answer.status, answer.headers["X-Gymwire-Code"]) == (410, "session_lost")
            params = {"responses_create_params": {"input": []}, "response": {"output": []}}
            async with http.post(f"{at}/gym/verify", json=params, headers=cookie) as answer:
                said = await answer.json()
                assert said["mask_sample"] is True and said["failure_kind"] == "session_lost"
            elsewhere = replace(mcp._at, url=URL(f"{at}/mcp"))
            with pytest.raises(SessionFailed, match="session_lost at call"):
                await McpSession(elsewhere, mcp._handle, mcp.prompt, mcp.tools).call("count")
            lost = McpSession(elsewhere, mcp._handle, mcp.prompt, mcp.tools)
            with pytest.raises(SessionFailed, match="session_lost at verify"):
                await lost.verify()
            assert (await gym.call("count")).text == (await mcp.call("count")).text == "0"


async def test_only_a_known_handle_resumes_a_socket(redis_server: RedisServer, tmp_path: Path) -> None:
    """What else is said at the door of a new socket begins nothing."""
    with replicas(tmp_path, redis_server.url, 2, "counter", "tests.worlds:Kit") as (here, there):
        async with aiohttp.ClientSession() as http:
            first = await http.ws_connect(f"{here.url}/counter/openenv/ws")
            begun = await _said(first, {"type": "reset", "data": {"split": "eval", "index": 0, "resume": "mine"}})
            handle = begun["data"]["metadata"]["resume"]
            plain = await http.ws_connect(f"{here.url}/counter/openenv/ws")
            assert handle not in str(await _said(plain, {"type": "reset", "data": {"split": "eval", "index": 0}}))
            pinned = await http.ws_connect(f"{here.url}/kit/openenv/ws")
            assert "resume" not in (await _said(pinned, {"type": "reset", "data": {"resume": "k"}}))["data"]["metadata"]
            for place, name in (("counter", handle[:-1] + "x"), ("counter", "x.y"), ("kit", handle)):
                socket = await http.ws_connect(f"{there.url}/{place}/openenv/ws")
                refused = await _said(socket, {"type": "resume", "data": {"session": name}})
                assert (refused["type"], refused["data"]["metadata"]["code"]) == ("error", "session_lost")
                assert (await _said(socket, READ))["data"]["metadata"]["code"] == "session_lost"
            before = await _said(first, READ)
            transport = first._response.connection
            assert transport is not None and transport.transport is not None
            transport.transport.abort()
            again = await http.ws_connect(f"{there.url}/counter/openenv/ws")
            assert (await _said(again, {"type": "resume", "data": {"session": handle}}))["type"] == "observation"
            assert await _said(again, READ) == before
            assert (await _said(again, {"type": "resume", "data": {"session": handle}}))["type"] == "error"


READ = {"type": "step", "data": {"type": "call_tool", "tool_name": "read", "arguments": {}}}


async def _said(socket: aiohttp.ClientWebSocketResponse, message: Any) -> Any:
    await socket.send_json(message)
    return await socket.receive_json()


@pytest.mark.slow
async def test_replicas_and_the_store_come_and_go(redis_server: RedisServer, tmp_path: Path) -> None:
    need("haproxy")
    await play_undisturbed()
    names = (COUNTER, *PLAYED)
    tally = Tally()
    with (
        replicas(tmp_path, redis_server.url, 3, "tests.faults.slow_counter:SlowCounter", *PLAYED) as servers,
        balanced(tmp_path, servers) as url,
    ):
        chaos = Chaos(servers, redis_server, SEED)
        async with connected(url, *names) as connections, asyncio.TaskGroup() as group:
            group.create_task(chaos.run(LIFE_S / 2))
            work = [one(number, WIRES[1 + number % 3], connections, tally) for number in range(SESSIONS)]
            for ended, session in enumerate(asyncio.as_completed(work), 1):
                await session
                if ended >= QUIET * SESSIONS:
                    chaos.over()
    print(
        f"\n{SESSIONS} sessions: {tally.right} right, {sum(tally.kinds.values())} failed {dict(tally.kinds)}, "
        f"{len(tally.wrong)} wrong; {tally.calls} calls counted; {dict(chaos.done)}"
    )
    assert not tally.wrong, tally.wrong
    assert tally.right + sum(tally.kinds.values()) == SESSIONS
    assert tally.right >= SHARE * SESSIONS, tally.reasons
    assert all(tally.kinds), "a failure without a kind"
    assert chaos.done["store restarted"] == 1
    assert chaos.done["killed"] and chaos.done["held up"], chaos.done
