"""Calls that only read run beside each other; every other runs alone, and nobody overtakes."""

from __future__ import annotations

import asyncio
import threading
from random import Random
from typing import Any

import pytest
from gymwire.servers import DefinitionError, Environment, Row, ToolError, ToolResult, Transcript, tool
from gymwire.servers.answers import Code
from gymwire.servers.order import Order
from gymwire.servers.types import FailureKind, SessionState

from tests.servers.engine import Engine, Notes, call, until

# The order itself


class Line:
    """Notes who is inside, and who was inside together."""

    def __init__(self) -> None:
        self.order = Order()
        self.started: list[str] = []
        self.together: list[set[str]] = []
        self.inside: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}

    def arrive(self, name: str, *, shared: bool) -> asyncio.Task[None]:
        self.gates[name] = asyncio.Event()
        return asyncio.create_task(self._pass(name, shared))

    async def _pass(self, name: str, shared: bool) -> None:
        await self.order.enter(shared)
        try:
            self.started.append(name)
            self.inside.add(name)
            self.together.append(set(self.inside))
            await self.gates[name].wait()
        finally:
            self.inside.remove(name)
            self.order.leave()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_shares_enters_beside_others_and_who_does_not_waits_for_all() -> None:
    line = Line()
    tasks = [line.arrive(name, shared=name.islower()) for name in "abCdeF"]
    await settle()
    assert line.inside == {"a", "b"}
    line.gates["a"].set()
    await settle()
    assert line.inside == {"b"}
    line.gates["b"].set()
    await settle()
    assert line.inside == {"C"}
    line.gates["C"].set()
    await settle()
    assert line.inside == {"d", "e"}
    for name in "deF":
        line.gates[name].set()
    await asyncio.gather(*tasks)
    assert line.started == list("abCdeF") and line.order.try_enter()


async def test_nobody_overtakes_who_was_let_in_and_has_not_woken() -> None:
    line = Line()
    assert line.order.try_enter()
    tasks = [line.arrive(name, shared=True) for name in "bc"]
    await settle()
    line.order.leave()
    assert not line.order.try_enter(True)
    entering = line.order.enter(True)
    assert isinstance(entering.send(None), asyncio.Future), "it did not wait"
    entering.close()
    tasks.append(line.arrive("d", shared=True))
    await settle()
    assert line.started == list("bcd") and line.inside == set("bcd")
    for name in "bcd":
        line.gates[name].set()
    await asyncio.gather(*tasks)


async def test_who_gives_up_makes_room_for_those_behind() -> None:
    line = Line()
    reading = line.arrive("a", shared=True)
    await settle()
    writer, reader = line.arrive("B", shared=False), line.arrive("c", shared=True)
    await settle()
    assert line.inside == {"a"}
    writer.cancel()
    await settle()
    assert line.inside == {"a", "c"}
    line.gates["a"].set()
    line.gates["c"].set()
    await asyncio.gather(reading, reader)
    assert line.order.try_enter()


@pytest.mark.parametrize("shared", [False, True])
async def test_who_is_let_in_while_giving_up_leaves_again(shared: bool) -> None:
    order = Order()
    assert order.try_enter()
    waiting = asyncio.create_task(order.enter(shared))
    await settle()
    order.leave()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert order.try_enter() and not order.try_enter(True)


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_comes_and_goes_the_rule_holds_and_the_door_ends_open(seed: int) -> None:
    rng, line = Random(seed), Line()
    tasks: dict[str, asyncio.Task[None]] = {}
    arrived: list[str] = []
    for number in range(200):
        name = f"{'s' if rng.random() < 0.7 else 'A'}{number}"
        tasks[name] = line.arrive(name, shared=name.startswith("s"))
        arrived.append(name)
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        for other in rng.sample(sorted(tasks), min(2, len(tasks))):
            if rng.random() < 0.2:
                tasks[other].cancel()
            elif other in line.inside:
                line.gates[other].set()
    for gate in line.gates.values():
        gate.set()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert all(len(inside) == 1 or all(name.startswith("s") for name in inside) for inside in line.together)
    assert line.started == [name for name in arrived if name in set(line.started)]
    assert any(len(inside) > 1 for inside in line.together) and line.order.try_enter()


# Sessions


class Library(Environment):
    """Readers that wait for each other; worth the number of pages that were written."""

    tool_timeout_s = 5.0

    def reset(self, row: Row) -> None:
        self.pages: list[str] = []
        self.reading, self.all_here = 0, asyncio.Event()
        self.barrier = threading.Barrier(2, timeout=5)
        self.entered: list[str] = []

    @tool
    async def write(self, text: str) -> int:
        self.entered.append(f"write {text}")
        await asyncio.sleep(0)
        self.pages.append(text)
        return len(self.pages)

    @tool(read_only=True)
    async def read(self, who: str = "") -> str:
        self.entered.append(f"read {who}")
        await asyncio.sleep(0)
        return " ".join(self.pages)

    @tool(read_only=True)
    async def meet(self, count: int) -> str:
        """Answers when so many are here."""
        self.reading += 1
        if self.reading == count:
            self.all_here.set()
        await self.all_here.wait()
        return "met"

    @tool(read_only=True)
    def meet_in_thread(self) -> str:
        self.barrier.wait()
        return "met"

    @tool(read_only=True)
    async def crash(self) -> str:
        await asyncio.sleep(0.005)
        raise RuntimeError("the shelf fell")

    @tool(read_only=True)
    async def refuse(self) -> str:
        raise ToolError("not here")

    @tool(read_only=True, timeout="policy", timeout_s=0.02)
    async def dawdle(self) -> str:
        await asyncio.sleep(5)
        return "late"

    @tool(read_only=True)
    async def finish(self) -> ToolResult:
        return ToolResult("over", done=True)

    def verify(self, transcript: Transcript) -> dict[str, float]:
        assert all(record.name for record in transcript.calls), "a call that ran is in no log"
        return {"pages": float(len(self.pages)), "calls": float(len(transcript.calls))}


async def test_read_only_calls_of_one_session_run_beside_each_other(engine: Engine) -> None:
    session = await engine.start(Library)
    answers = await asyncio.gather(*(call(session, "meet", count=3) for _ in range(3)))
    assert [answer.result.text for answer in answers] == ["met"] * 3
    answers = await asyncio.gather(*(call(session, "meet_in_thread") for _ in range(2)))
    assert [answer.result.text for answer in answers] == ["met"] * 2
    assert (await session.verify()).components["calls"] == 5.0


async def test_a_call_that_writes_runs_alone_and_in_its_place(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    work = [
        call(session, "read", who="1"),
        call(session, "read", who="2"),
        call(session, "write", text="a"),
        call(session, "read", who="3"),
        call(session, "write", text="b"),
        call(session, "read", who="4"),
        call(session, "read", who="5"),
    ]
    answers = await asyncio.gather(*work)
    assert [answer.result.text for answer in answers] == ["", "", "1", "a", "2", "a b", "a b"]
    assert environment.entered == ["read 1", "read 2", "write a", "read 3", "write b", "read 4", "read 5"]


async def test_the_log_keeps_the_order_of_arrival_whoever_answers_first(engine: Engine) -> None:
    session = await engine.start(Library)
    work = [
        call(session, "meet", count=2),
        call(session, "read"),
        call(session, "meet", count=2),
        call(session, "read"),
    ]
    await asyncio.gather(*work, session.call("nothing", b"{}"))
    assert [record.name for record in session.calls] == ["meet", "read", "meet", "read", "nothing"]
    assert [record.result.text for record in session.calls][:4] == ["met", "", "met", ""]


async def test_verify_end_turn_and_close_wait_for_all_who_read(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    reading = [asyncio.create_task(call(session, "meet", count=3)) for _ in range(2)]
    await until(lambda: environment.reading == 2)
    verifying = asyncio.create_task(session.verify())
    closing = asyncio.create_task(session.close())
    await settle()
    assert session.state is SessionState.ACTIVE and session.in_flight == 4
    environment.all_here.set()
    assert [(await task).code for task in reading] == [Code.OK, Code.OK]
    assert (await verifying).components["calls"] == 2.0
    await closing
    assert session.state is SessionState.CLOSED and session.in_flight == 0


async def test_a_session_does_not_expire_while_several_read(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    first, second = (asyncio.create_task(call(session, "meet", count=3)) for _ in range(2))
    await until(lambda: environment.reading == 2)
    engine.time_s += 10_000
    assert engine.sweep() == 0
    environment.all_here.set()
    await asyncio.gather(first, second)
    engine.time_s += 10_000
    assert engine.sweep() == 1


async def test_one_that_fails_fails_the_session_and_what_the_others_answer_is_dropped(engine: Engine) -> None:
    seen: list[Any] = []
    engine.failures.observers.append(lambda environment, failure: seen.append(failure))
    session = await engine.start(Library)
    environment: Any = session.environment
    reading = [asyncio.create_task(call(session, "meet", f"k{n}", count=3)) for n in range(2)]
    assert (await call(session, "crash")).code is Code.SESSION_FAILED
    assert engine.all_free and session.in_flight == 2
    environment.all_here.set()
    assert {(await task).code for task in reading} == {Code.SESSION_FAILED}
    assert (await call(session, "read")).code is Code.SESSION_FAILED
    assert (await session.verify()).masked and session.in_flight == 0
    assert [(failure.kind, failure.tool) for failure in seen] == [("library:exception", "crash")]


async def test_two_that_fail_are_one_failure(engine: Engine) -> None:
    seen: list[Any] = []
    engine.failures.observers.append(lambda environment, failure: seen.append(failure))
    session = await engine.start(Library)
    answers = await asyncio.gather(*(call(session, "crash") for _ in range(4)))
    assert {answer.code for answer in answers} == {Code.SESSION_FAILED} and len(seen) == 1


async def test_a_reader_that_is_given_up_fails_the_session_and_blocks_nobody(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    gone, staying = (asyncio.create_task(call(session, "meet", count=3)) for _ in range(2))
    await until(lambda: environment.reading == 2)
    gone.cancel()
    environment.all_here.set()
    assert (await staying).code is Code.SESSION_FAILED
    assert (await session.verify()).failure_kind == FailureKind.CANCELLED and session.in_flight == 0


async def test_each_has_its_own_time_limit_and_its_own_mistakes(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    work = [call(session, name) for name in ("dawdle", "refuse", "read", "dawdle")]
    answers = await asyncio.gather(*work, session.call("read", b'{"page":1}'))
    codes = [answer.code for answer in answers]
    assert codes == [Code.TOOL_ERROR, Code.TOOL_ERROR, Code.OK, Code.TOOL_ERROR, Code.INVALID_ARGUMENTS]
    assert "0.02 s" in answers[0].result.text
    assert session.environment is environment, "what reads needs no copy to go back to"
    assert (await session.verify()).components["calls"] == 5.0


async def test_a_repeated_key_waits_for_the_first_answer(engine: Engine) -> None:
    session = await engine.start(Library)
    environment: Any = session.environment
    first = asyncio.create_task(call(session, "meet", "k", count=3))
    await until(lambda: environment.reading == 1)
    repeat, other = (asyncio.create_task(call(session, "meet", key, count=3)) for key in ("k", "l"))
    misuse = asyncio.create_task(call(session, "read", "k"))
    await settle()
    assert environment.reading == 1
    environment.all_here.set()
    assert await repeat is await first and (await other).code is Code.OK
    assert (await misuse).code is Code.KEY_REUSED
    await session.verify()
    assert await call(session, "meet", "k", count=3) is await first
    assert environment.reading == 2


async def test_a_read_only_tool_that_ends_the_episode_broke_its_promise(engine: Engine) -> None:
    session = await engine.start(Library)
    assert (await call(session, "finish")).code is Code.SESSION_FAILED
    outcome = await session.verify()
    assert outcome.masked and "read-only" in outcome.failure_reason


async def test_a_session_without_such_tools_is_as_before(engine: Engine) -> None:
    session = await engine.start(Notes)
    answers = await asyncio.gather(*(call(session, "note", text=letter) for letter in "abc"))
    assert [answer.result.text for answer in answers] == ["1", "2", "3"]


# Definition


def test_a_tool_that_ends_is_never_read_only() -> None:
    def finish(self: Any) -> str:
        return ""

    with pytest.raises(DefinitionError, match=r"Bad\.finish: a tool that ends the episode changes it"):
        type("Bad", (Environment,), {"finish": tool(ends=True, read_only=True)(finish)})


async def test_a_row_cannot_mark_a_tool(engine: Engine) -> None:
    class Described(Library):
        def tools_for(self, row: Row) -> Any:
            from dataclasses import replace

            read, write = (self.tool_specs[name].tool for name in ("read", "write"))
            return [replace(read, read_only=False), replace(write, read_only=True)]

    session = await engine.start(Described)
    assert {shown.name: shown.read_only for shown in session.tools} == {"read": True, "write": False}
