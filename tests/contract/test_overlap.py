"""Calls of read-only tools run beside each other where the wire can carry that; any other call runs in its place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from gymwire.adapters import SessionFailed
from gymwire.servers.sessions import Sessions
from gymwire.servers.types import Row

from tests.servers.faces.live import live
from tests.wires import WIRES, world
from tests.worlds import Readers

READ_ONLY = {"read", "meet", "meet_in_thread"}
ROW = Row.of("Read.")
#: OpenEnv's socket carries one step at a time.
MET = {"openenv": "alone"}


def said(calls: Sequence[tuple[str, dict[str, Any]]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """One assistant turn with these calls, and their answers in order."""
    asked = [
        {"id": str(n), "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for n, (name, arguments) in enumerate(calls)
    ]
    answers = [{"role": "tool", "tool_call_id": str(n), "content": text} for n, text in enumerate(texts)]
    return [{"role": "assistant", "content": "", "tool_calls": asked}, *answers]


@pytest.mark.parametrize("wire", WIRES)
async def test_the_mark_reaches_the_client(worlds: str, wire: str) -> None:
    pinned = Row(prompt=ROW.prompt, tools=tuple(spec.tool for spec in Readers.tool_specs.values()))
    async with world("readers", wire, worlds) as connection:
        assert {tool.name for tool in connection.info.tools if tool.read_only} == READ_ONLY
        for row in (ROW, Row.from_json(pinned.to_json())):
            async with connection.session(row=row) as session:
                assert {tool.name for tool in session.tools if tool.read_only} == READ_ONLY
                overlapping = {tool.name for tool in session.tools if session.may_overlap(tool.name)}
                assert overlapping == (set() if wire == "openenv" else READ_ONLY)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("tool", "arguments"), [("meet", {"count": 2}), ("meet_in_thread", {})])
async def test_calls_that_only_read_start_before_either_ends(worlds: str, wire: str, tool: str, arguments: Any) -> None:
    async with world("readers", wire, worlds) as connection, connection.session(row=ROW) as session:
        results = await asyncio.gather(*(session.call(tool, arguments) for _ in range(2)))
        assert [result.text for result in results] == [MET.get(wire, "met")] * 2
        assert (await session.verify()).reward == 2.0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_that_writes_stays_between_those_that_read(worlds: str, wire: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read", {"who": 0}),
        ("read", {"who": 1}),
        ("write", {"text": "a"}),
        ("read", {"who": 3}),
        ("write", {"text": "b"}),
        *(("read", {"who": who}) for who in range(5, 13)),
    ]
    async with world("readers", wire, worlds) as connection, connection.session(row=ROW) as session:
        texts = [result.text for result in await asyncio.gather(*(session.call(*call) for call in calls))]
        assert texts == ["0: ", "1: ", "1", "3: a", "2", *(f"{who}: a b" for who in range(5, 13))]
        outcome = await session.verify(said(calls, texts))
    assert outcome.reward == len(calls) and outcome.disagreements == ()


@pytest.mark.parametrize("wire", WIRES)
async def test_where_one_breaks_the_session_has_failed_for_all_and_its_slot_is_free(wire: str) -> None:
    async with live(Readers) as server:
        sessions: Sessions = server.sessions
        failures: list[Any] = []
        sessions.failures.observers.append(lambda _, failure: failures.append(failure))
        async with world("readers", wire, server.url, sessions=sessions) as connection:
            session = await connection.session(row=Row.of("Read.", wrong=True))
            count = 1 if wire == "openenv" else 3
            answers = await asyncio.gather(
                *(session.call("meet", {"count": count}) for _ in range(3)), return_exceptions=True
            )
            assert [getattr(answer, "kind", answer) for answer in answers] == ["readers:exception"] * 3
            assert sessions.slots.free == sessions.slots.size and len(failures) == 1
            with pytest.raises(SessionFailed):
                await session.verify()
            await session.close()
