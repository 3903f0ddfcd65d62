"""Time limits that hold: whatever a tool does, its caller goes on, and what comes late changes nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from gymwire.servers import Environment, Row, ToolError, Transcript, tool
from gymwire.servers.answers import Code
from gymwire.servers.failures import ToolTimeout
from gymwire.servers.running import Threads, within
from gymwire.servers.types import SessionState

from tests.servers.engine import Engine, Notes, call, until

SHORT_S = 0.03


class Hanging(Environment):
    """Hangs in every way there is. `effect` shows what a late call still does."""

    tool_timeout_s = SHORT_S
    verify_timeout_s = SHORT_S

    def reset(self, row: Row) -> None:
        self.effect = 0.0
        self.log: list[str] = []

    @tool
    async def before(self) -> str:
        self.effect = 0.5
        self.log.append("before")
        return "ok"

    @tool
    async def hang(self) -> str:
        await asyncio.sleep(30)
        return "never"

    @tool
    async def swallow(self) -> str:
        return await self._swallow()

    @tool
    async def await_one_that_swallows(self) -> str:
        return await asyncio.create_task(self._swallow())

    @tool
    async def gather_some_that_swallow(self) -> str:
        return (await asyncio.gather(self._swallow(), self._swallow()))[0]

    @tool
    async def wait_for_one_that_swallows(self) -> str:
        return await asyncio.wait_for(self._swallow(), 30)

    @tool
    async def spin(self) -> str:
        until_s = time.monotonic() + 0.3
        while time.monotonic() < until_s:
            await asyncio.sleep(0)
        return self._late()

    @tool
    def block(self) -> str:
        gate.wait(0.3)
        return self._late()

    @tool(timeout="policy")
    async def swallow_by_policy(self) -> str:
        return await self._swallow()

    @tool(timeout="policy")
    async def await_by_policy(self) -> str:
        return await asyncio.create_task(self._swallow())

    @tool(timeout="policy")
    def block_by_policy(self) -> str:
        gate.wait(0.3)
        return self._late()

    @tool(timeout="policy")
    def quick_by_policy(self) -> str:
        self.effect = 0.75
        return "ok"

    async def _swallow(self) -> str:
        until_s = time.monotonic() + 0.3
        while time.monotonic() < until_s:
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue
        return self._late()

    def _late(self) -> str:
        self.effect = 1.0
        self.log.append("late")
        late.set()
        return "late"

    def verify(self, transcript: Transcript) -> float:
        return self.effect


gate = threading.Event()
late = threading.Event()
OURS = [
    "hang",
    "swallow",
    "await_one_that_swallows",
    "gather_some_that_swallow",
    "wait_for_one_that_swallows",
    "spin",
    "block",
]
POLICYS = ["swallow_by_policy", "await_by_policy", "block_by_policy"]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    gate.clear()
    late.clear()


@pytest.mark.parametrize("name", OURS)
async def test_a_tool_past_its_limit_fails_the_session_and_holds_up_nobody(engine: Engine, name: str) -> None:
    session = await engine.start(Hanging)
    started = time.monotonic()
    answer = await call(session, name)
    assert time.monotonic() - started < 0.25
    assert answer.code is Code.SESSION_FAILED and session.state is SessionState.FAILED and engine.all_free
    outcome = await session.verify()
    assert outcome.masked and outcome.failure_kind == "hanging:tool_timeout" and "0.03 s" in outcome.failure_reason
    gate.set()


@pytest.mark.parametrize("name", POLICYS)
async def test_a_late_call_never_changes_what_verify_reads(engine: Engine, name: str) -> None:
    session = await engine.start(Hanging)
    await call(session, "before")
    answer = await call(session, name)
    assert answer.code is Code.TOOL_ERROR and "0.03 s" in answer.result.text
    gate.set()
    await until(late.is_set)
    assert session.environment is not None and session.environment.log == ["before"]  # type: ignore[attr-defined]
    outcome = await session.verify()
    assert outcome.reward == 0.5 and not outcome.masked


async def test_a_policys_tool_in_time_keeps_its_effect(engine: Engine) -> None:
    session = await engine.start(Hanging)
    await call(session, "quick_by_policy")
    assert (await session.verify()).reward == 0.75


async def test_a_replayable_environment_goes_on_from_its_state(engine: Engine) -> None:
    class Replayable(Hanging):
        replayable = True

        def get_state(self) -> float:
            return self.effect

        def set_state(self, state: float) -> None:
            self.effect, self.log = state, []

    session = await engine.start(Replayable)
    await call(session, "before")
    assert (await call(session, "swallow_by_policy")).code is Code.TOOL_ERROR
    await until(late.is_set)
    assert (await session.verify()).reward == 0.5


@pytest.mark.parametrize("stage", ["reset", "reset_sync", "end_turn", "verify", "verify_sync", "close"])
async def test_every_stage_has_its_limit(engine: Engine, stage: str, caplog: pytest.LogCaptureFixture) -> None:
    async def hang(self: Any, *_: Any) -> Any:
        await asyncio.sleep(30)

    def block(self: Any, *_: Any) -> Any:
        gate.wait(0.3)

    function = block if stage.endswith("_sync") else hang
    made = type("Stuck", (Hanging,), {stage.removesuffix("_sync"): function, "name": "stuck"})
    started = time.monotonic()
    if stage.startswith("reset"):
        with pytest.raises(Exception, match="could not be started"):
            await engine.start(made)
    else:
        session = await engine.start(made)
        if stage == "end_turn":
            await session.end_turn()
        outcome = await session.verify()
        assert outcome.masked is (stage != "close")
        await until(lambda: stage != "close" or "close failed" in caplog.text)
    assert time.monotonic() - started < 0.25 and engine.all_free
    gate.set()


async def test_a_tool_may_have_a_limit_of_its_own(engine: Engine) -> None:
    class Own(Notes):
        @tool(timeout_s=SHORT_S)
        async def hang(self) -> str:
            await asyncio.sleep(30)
            return "never"

        @tool(timeout_s=5)
        async def long(self) -> str:
            await asyncio.sleep(2 * SHORT_S)
            return "done"

        tool_timeout_s = SHORT_S

    assert (await call(await engine.start(Own), "long")).result.text == "done"
    assert (await call(await engine.start(Own), "hang")).code is Code.SESSION_FAILED


# What a tool may do inside its limit


async def test_a_tools_own_timeouts_and_cancellations_are_its_own(engine: Engine) -> None:
    class Uses(Notes):
        @tool
        async def times_out(self) -> str:
            try:
                async with asyncio.timeout(0.005):
                    await asyncio.sleep(30)
            except TimeoutError:
                return "gave up"
            return "never"

        @tool
        async def waits_for(self) -> str:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.005)
            return "gave up"

        @tool
        async def groups(self) -> str:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(asyncio.sleep(0.001, value)) for value in "ab"]
            return "".join(task.result() for task in tasks)

        @tool
        async def fails_in_group(self) -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(asyncio.sleep(30))
                    group.create_task(self._fail())
            except* ValueError:
                raise ToolError("not that") from None
            return "never"

        @tool
        async def cancels_a_child(self) -> str:
            child = asyncio.create_task(asyncio.sleep(30))
            await asyncio.sleep(0)
            child.cancel()
            with pytest.raises(asyncio.CancelledError):
                await child
            return "cancelled"

        @tool
        async def in_thread(self) -> str:
            return await asyncio.to_thread(lambda: "threaded")

        @tool
        def makes_a_coroutine(self) -> Any:
            return self.in_thread()

        async def _fail(self) -> None:
            raise ValueError("x")

    session = await engine.start(Uses)
    answers = {
        "times_out": "gave up",
        "waits_for": "gave up",
        "groups": "ab",
        "fails_in_group": "not that",
        "cancels_a_child": "cancelled",
        "in_thread": "threaded",
        "makes_a_coroutine": "threaded",
    }
    for name, text in answers.items():
        assert (await call(session, name)).result.text == text, name
    task = asyncio.current_task()
    assert task is not None and task.cancelling() == 0


async def test_cancelling_the_caller_reaches_what_the_tool_waits_for() -> None:
    reached = asyncio.Event()

    async def child() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            reached.set()
            raise

    async def tool_() -> None:
        await asyncio.create_task(child())

    caller = asyncio.create_task(within(tool_(), 30))
    await asyncio.sleep(0.005)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert reached.is_set()


async def test_a_tool_past_its_limit_is_cancelled_and_may_clean_up() -> None:
    cleaned = asyncio.Event()

    async def tool_() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            cleaned.set()
            raise SystemExit(1)

    with pytest.raises(ToolTimeout):
        await within(tool_(), 0.005)
    await asyncio.wait_for(cleaned.wait(), 1)
    await asyncio.sleep(0.005)


async def test_a_coroutine_that_never_suspends_arms_no_timer() -> None:
    async def quick() -> str:
        return "quick"

    loop = asyncio.get_running_loop()
    before = len(loop._scheduled)  # type: ignore[attr-defined]
    assert await within(quick(), 30) == "quick"
    assert len(loop._scheduled) == before  # type: ignore[attr-defined]


# Threads


async def test_hung_threads_never_starve_the_others() -> None:
    threads, release = Threads(size=2), threading.Event()
    hung = [threads.run(lambda: release.wait(5), 0.02) for _ in range(6)]
    results = await asyncio.gather(*hung, return_exceptions=True)
    assert all(isinstance(result, ToolTimeout) for result in results)
    assert await asyncio.wait_for(threads.run(lambda: "alive", 1), 1) == "alive"
    release.set()
    threads.close()


async def test_the_pool_is_bounded_and_its_queue_is_no_part_of_a_limit() -> None:
    threads, lock = Threads(size=3), threading.Lock()
    running = most = 0

    def work() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1
        return "done"

    assert await asyncio.gather(*(threads.run(work, 0.03) for _ in range(24))) == ["done"] * 24
    assert most <= 3
    threads.close()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), GeneratorExit(), StopIteration(), SystemExit(1), ToolError("x")]
)
async def test_whatever_a_thread_raises_is_an_error_of_the_job(error: BaseException) -> None:
    def work() -> None:
        raise error

    threads = Threads()
    with pytest.raises((RuntimeError, SystemExit, ToolError)):
        await threads.run(work, 1)
    threads.close()


async def test_a_caller_that_leaves_gives_its_thread_up() -> None:
    threads, release = Threads(size=1), threading.Event()
    leaving = asyncio.create_task(threads.run(lambda: release.wait(5), 5))
    await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert await threads.run(lambda: "alive", 1) == "alive"
    release.set()
    threads.close()
