"""X05, X08, X24: what is drawn, what is worth what, and whose fault it was, on every wire."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from typing import Any

import pytest
from gymwire.adapters import Session, SessionFailed
from gymwire.servers.types import Ending, Outcome, Row

from tests.wires import WIRES, world

# X05


async def drawn(connection: Any, seed: int | None) -> tuple[int, tuple[int, ...], float | None]:
    async with connection.session(seed=seed) as session:
        told = json.loads((await session.call("reveal")).text)
        return told["index"], tuple(told["secret"]), (await session.verify()).reward


async def test_equal_seeds_give_equal_tasks_on_every_wire_and_at_once(worlds: str, cases: dict[str, Any]) -> None:
    found: dict[int | None, set[Any]] = defaultdict(set)
    seeds = cases["X05"]["input"]
    for wire in WIRES:
        async with world("secrets", wire, worlds) as connection:
            for seed, task in zip(
                seeds, await asyncio.gather(*(drawn(connection, seed) for seed in seeds)), strict=True
            ):
                found[seed].add(task)
    assert len(found[123]) == len(found[7]) == 1 and found[123] != found[7]
    assert len({task[0] for task in found[None]}) > 3, "unseeded sessions all met the same row"


async def test_members_of_a_group_meet_the_same_hidden_task(worlds: str, wire: str) -> None:
    async with world("secrets", wire, worlds) as connection:

        async def member(index: int) -> Any:
            async with connection.session(split="train", index=index, seed=5) as session:
                return (await session.call("reveal")).text

        groups = await asyncio.gather(*(member(index) for index in (3, 9) for _ in range(8)))
    assert len(set(groups[:8])) == len(set(groups[8:])) == 1 and groups[0] != groups[8]


# X08


async def graded(wire: str, url: str, value: Any) -> Outcome | SessionFailed:
    row = Row.of("Grade.", value=value)
    async with world("grades", wire, url) as connection, connection.session(row=row) as session:
        try:
            outcome = await session.verify()
        except SessionFailed as failure:
            with pytest.raises(SessionFailed):
                await session.verify()
            return failure
        assert await session.verify() == outcome
        return outcome


async def test_a_reward_is_a_finite_number_or_the_session_is_masked(worlds: str, cases: dict[str, Any]) -> None:
    for case in cases["X08"]["input"]:
        found = [await graded(wire, worlds, case["value"]) for wire in WIRES]
        if "reward" in case:
            assert all(isinstance(one, Outcome) and one.reward == case["reward"] for one in found), case
            assert all(one == found[0] for one in found), case
        else:
            assert all(isinstance(one, SessionFailed) and one.kind == "verifier_error" for one in found), case
            assert len({str(one) for one in found}) == 1, case


# X24


async def invalid_json(session: Session) -> Outcome:
    for _ in range(3):
        assert (await session.call("put", '{"item": "cup", "at"')).is_error
    return await session.verify()


async def spent_turns(session: Session) -> Outcome:
    for _ in range(3):
        await session.call("count")
    return await session.verify(ending=Ending.CUT)


async def looping_program(session: Session) -> Outcome:
    assert (await session.call("dawdle", {"seconds": 60})).is_error
    return await session.verify()


async def invented_tool(session: Session) -> Outcome:
    assert (await session.call("compute_everything", {})).is_error
    return await session.verify()


#: How each event comes about: the environment, its row, and what is done.
EVENTS: dict[str, tuple[str, Row | None, Any]] = {
    "the model wrote invalid JSON three times": ("kit", None, invalid_json),
    "the model spent its turns": ("kit", None, spent_turns),
    "the model's program loops": ("kit", None, looping_program),
    "the model called what is not there": ("kit", None, invented_tool),
    "the grader's container did not start": (
        "breaks",
        Row.of("x", stage="verify", kind="provider_unavailable"),
        lambda session: session.verify(),
    ),
    "verify did not come back": ("breaks", Row.of("x", stage="verify", how="hang"), lambda session: session.verify()),
    "the judge was away": ("breaks", Row.of("x", stage="verify", how="none"), lambda session: session.verify()),
    "a tool of ours hung": ("breaks", Row.of("x", stage="call", how="hang"), lambda session: session.call("crash")),
    "a tool of ours crashed": ("breaks", Row.of("x", stage="call"), lambda session: session.call("crash_in_thread")),
}


async def test_the_policys_doing_counts_and_ours_is_masked(worlds: str, wire: str, cases: dict[str, Any]) -> None:
    table = cases["X24"]["input"]
    assert {case["event"] for case in table} == set(EVENTS)
    for case in table:
        name, row, play = EVENTS[case["event"]]
        place: dict[str, Any] = {"split": "eval", "index": 0} if row is None else {"row": row}
        async with world(name, wire, worlds) as connection, connection.session(**place) as session:
            if case["counts"]:
                outcome = await play(session)
                assert (outcome.reward, outcome.masked) == (case["reward"], False), case
                continue
            with pytest.raises(SessionFailed) as caught:
                await play(session)
            assert caught.value.kind == case["kind"], case
            with pytest.raises(SessionFailed):
                await session.verify()
