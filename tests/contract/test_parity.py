"""The same scripted episode on the three wires and in-process: the same observations, the same verdict."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from gymwire.adapters.drive import Played
from gymwire.servers.rows import RowSource
from gymwire.servers.types import Ending, ToolResult

from tests.wires import ENVIRONMENTS, WIRES, play, world
from tests.worlds import BUNDLED, Kit

PLAYED = [*BUNDLED, "kit"]
POLICIES = ("random", "rule", "oracle")
ROWS = range(3)


def seen(played: Played, wire: str = "") -> Any:
    """All that a policy and its trainer see of an episode. NeMo Gym carries no pictures: placeholders stand there."""
    assert played.failure is None, played.failure
    outcome = played.outcome
    assert outcome is not None
    as_text = wire == "nemo-gym"
    return {
        "results": [ToolResult(r.plain(), r.is_error, r.done) if as_text else r for r in played.results],
        "messages": played.messages,
        "turns": played.turns,
        "reward": outcome.reward,
        "components": dict(outcome.components),
        "ending": outcome.ending,
        "disagreements": outcome.disagreements,
    }


async def episodes(name: str, wire: str, url: str, policy: str) -> list[Played]:
    source = RowSource(ENVIRONMENTS[name])
    async with world(name, wire, url) as connection:
        work = [play(connection, name, policy, source.get("eval", index), index=index) for index in ROWS]
        return await asyncio.gather(*work)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", PLAYED)
async def test_the_same_episode_is_the_same_on_every_wire(worlds: str, name: str, policy: str) -> None:
    local, *others = [await episodes(name, wire, worlds, policy) for wire in WIRES]
    for wire, other in zip(WIRES[1:], others, strict=True):
        assert [seen(played) for played in other] == [seen(played, wire) for played in local], wire
    assert all(seen(played)["disagreements"] == () for played in local)


@pytest.mark.parametrize("name", PLAYED)
async def test_tools_prompts_and_limits_are_described_alike(worlds: str, name: str) -> None:
    described = []
    for wire in WIRES:
        async with world(name, wire, worlds) as connection, connection.session(split="eval", index=1) as session:
            described.append((session.tools, session.prompt, session.max_turns))
    assert all(one == described[0] for one in described)
    assert described[0][0] == tuple(spec.tool for spec in ENVIRONMENTS[name].tool_specs.values())


@pytest.mark.parametrize("wire", WIRES)
async def test_sixty_four_at_once_share_nothing(worlds: str, wire: str) -> None:
    source = RowSource(Kit)
    policies = [POLICIES[number % 3] for number in range(64)]
    async with world("kit", wire, worlds) as connection:
        alone = {
            (policy, index): seen(await play(connection, "kit", policy, source.get("eval", index), index=index))
            for policy in POLICIES
            for index in range(8)
        }
        work = [
            play(connection, "kit", policy, source.get("eval", number % 8), index=number % 8)
            for number, policy in enumerate(policies)
        ]
        together = [seen(played) for played in await asyncio.gather(*work)]
    for number, (policy, episode) in enumerate(zip(policies, together, strict=True)):
        assert episode == alone[policy, number % 8]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_spent_budget_is_cut_and_still_scored(worlds: str, wire: str) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        await session.call("put", {"item": "eval-0-0", "at": {"shelf": 1}})
        outcome = await session.verify(ending=Ending.CUT)
        assert outcome.ending is Ending.CUT and outcome.components["put"] == 0.125 and not outcome.masked
        assert await session.verify() == outcome


@pytest.mark.parametrize("wire", WIRES)
async def test_where_a_transcript_lies_every_verify_says_so(worlds: str, wire: str) -> None:
    lie = [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "count", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "100"},
        {"role": "assistant", "content": "All put."},
    ]
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        assert (await session.call("count")).text == "0"
        outcome = await session.verify(lie)
    assert outcome.disagreements == ("the result of call 1 (count) differs from the server's",)
    assert outcome.components["answered"] == 0.125


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "text", ["null", "[1,2]", '{"a":1}', "5", "", "ünï\u2028", "NaN", "</tool_call>", "a" * 50_000]
)
async def test_a_string_argument_arrives_unchanged(worlds: str, wire: str, text: str) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        await session.call("put", {"item": text, "at": {"shelf": 3, "side": None}})
        assert (await session.call("where", {"item": text})).text.endswith(":3}")


@pytest.mark.parametrize("wire", WIRES)
async def test_what_a_policys_slow_call_did_is_undone(worlds: str, wire: str) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        result = await session.call("dawdle", {"seconds": 5})
        assert result.is_error and result.text == "dawdle gave no answer within 0.05 s and was stopped."
        assert (await session.call("count")).text == "0"
        assert (await session.verify()).components["tidy"] == 0.125
