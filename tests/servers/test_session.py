"""One session's rules: order, keys, verify once, what ends it, and failure for good in every stage."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from gymwire.servers import Environment, Media, Outcome, Row, SessionFailure, ToolError, ToolResult, Transcript, tool
from gymwire.servers import session as session_module
from gymwire.servers.answers import Code
from gymwire.servers.types import Ending, FailureKind, SessionState, Stage

from tests.servers.engine import Engine, Notes, call, refused, until

# Calls


async def test_calls_of_one_session_run_one_at_a_time_in_arrival_order(engine: Engine) -> None:
    class Slow(Notes):
        running = 0

        @tool
        async def slowly(self, text: str) -> str:
            assert Slow.running == 0, "two calls ran at once"
            Slow.running += 1
            await asyncio.sleep(0.001)
            Slow.running -= 1
            self.notes.append(text)
            return " ".join(self.notes)

    session = await engine.start(Slow)
    answers = await asyncio.gather(*(call(session, "slowly", text=letter) for letter in "abcdef"))
    assert answers[-1].result.text == "a b c d e f"
    assert [record.arguments["text"] for record in session.calls] == list("abcdef")


async def test_sync_and_async_tools_keep_one_order(engine: Engine) -> None:
    class Both(Notes):
        @tool
        def sync(self, text: str) -> str:
            time.sleep(0.002)
            self.notes.append(text)
            return "".join(self.notes)

    session = await engine.start(Both)
    names = ("sync", "note", "sync", "note")
    answers = await asyncio.gather(*(call(session, name, text=str(i)) for i, name in enumerate(names)))
    assert answers[2].result.text == "012" and answers[3].result.text == "4"


async def test_sessions_do_not_wait_for_each_other(engine: Engine) -> None:
    class Waits(Notes):
        @tool
        def block(self) -> str:
            assert gate.wait(5)
            return "through"

    gate = threading.Event()
    blocked, free = await engine.start(Waits), await engine.start(Waits)
    blocking = asyncio.create_task(call(blocked, "block"))
    assert (await call(free, "note", text="x")).code is Code.OK
    gate.set()
    assert (await blocking).result.text == "through"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("note", b'{"text":"x"}', Code.OK),
        ("nothing", b"{}", Code.UNKNOWN_TOOL),
        ("verify", b"{}", Code.UNKNOWN_TOOL),
        ("reset", b"{}", Code.UNKNOWN_TOOL),
        ("_private", b"{}", Code.UNKNOWN_TOOL),
        ("\ud800" * 500, b"{}", Code.UNKNOWN_TOOL),
        ("note", b'{"text":5}', Code.INVALID_ARGUMENTS),
        ("note", b'{"text":"x","more":1}', Code.INVALID_ARGUMENTS),
        ("note", b"[1,2]", Code.INVALID_ARGUMENTS),
        ("note", b'"Paris"', Code.INVALID_ARGUMENTS),
        ("note", b"{", Code.INVALID_ARGUMENTS),
        ("note", b'{"text":"\xff"}', Code.INVALID_ARGUMENTS),
        ("note", b"[" * 100_000, Code.INVALID_ARGUMENTS),
        ("note", b'{"' + b"k" * 1_000_000 + b'":1}', Code.INVALID_ARGUMENTS),
        ("refuse", b"{}", Code.TOOL_ERROR),
    ],
)
async def test_what_the_policy_does_wrong_is_a_result_and_the_episode_goes_on(
    engine: Engine, name: str, arguments: bytes, code: Code
) -> None:
    class Refuses(Notes):
        @tool
        async def refuse(self) -> str:
            raise ToolError("not like that")

    session = await engine.start(Refuses)
    answer = await session.call(name, arguments)
    assert answer.code is code and answer.result.is_error is (code is not Code.OK)
    assert len(answer.result.text) < 1_000 and answer.result.text.encode()
    assert (await call(session, "note", text="on")).code is Code.OK
    assert (await session.verify()).reward is not None
    assert engine.metrics.failures._metrics == {}


async def test_only_marked_methods_can_be_reached(engine: Engine) -> None:
    session = await engine.start(Notes)
    for name in dir(Notes):
        if name != "note":
            assert (await session.call(name, b"{}")).code is Code.UNKNOWN_TOOL


# Idempotency keys


async def test_a_repeated_key_answers_what_the_first_did_and_acts_once(engine: Engine) -> None:
    session = await engine.start(Notes)
    first = await call(session, "note", "k1", text="x")
    assert await call(session, "note", "k1", text="x") is first
    assert (await session.verify()).reward == 1.0
    assert await call(session, "note", "k1", text="x") is first


async def test_a_key_used_for_another_call_is_refused(engine: Engine) -> None:
    session = await engine.start(Notes)
    await call(session, "note", "k1", text="x")
    assert (await call(session, "note", "k1", text="y")).code is Code.KEY_REUSED
    assert (await call(session, "other", "k1", text="x")).code is Code.KEY_REUSED
    assert (await session.verify()).reward == 1.0


async def test_a_repeat_while_the_first_is_in_flight_waits_for_its_answer(engine: Engine) -> None:
    class Slow(Notes):
        @tool
        async def slowly(self) -> int:
            await asyncio.sleep(0.01)
            self.notes.append("x")
            return len(self.notes)

    session = await engine.start(Slow)
    answers = await asyncio.gather(*(call(session, "slowly", "k") for _ in range(4)))
    assert {answer.result.text for answer in answers} == {"1"}


async def test_keys_belong_to_their_session(engine: Engine) -> None:
    one, two = await engine.start(Notes), await engine.start(Notes)
    await call(one, "note", "k", text="x")
    assert (await call(two, "note", "k", text="y")).code is Code.OK


async def test_the_call_that_ended_the_episode_can_still_be_repeated(engine: Engine) -> None:
    class Ends(Notes):
        @tool(ends=True)
        async def finish(self) -> str:
            return "over"

    session = await engine.start(Ends)
    first = await call(session, "finish", "k")
    assert await call(session, "finish", "k") is first and first.result.done


async def test_an_ended_session_keeps_only_the_newest_answers(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "KEPT_ANSWER_CHARACTERS", 100)
    session = await engine.start(Notes)
    for number in range(20):
        await call(session, "note", f"k{number}", text="x")
    await session.verify()
    assert (await call(session, "note", "k0", text="x")).code is Code.SESSION_VERIFIED
    assert (await call(session, "note", "k19", text="x")).result.text == "20"


# Verify


class CountsVerifies(Notes):
    verifies = 0

    async def verify(self, transcript: Transcript) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        type(self).verifies += 1
        await asyncio.sleep(0.002)
        return float(len(self.notes))


async def test_verify_runs_once_and_a_repeat_answers_the_same(engine: Engine) -> None:
    class Counts(CountsVerifies):
        pass

    session = await engine.start(Counts)
    outcomes = await asyncio.gather(*(session.verify() for _ in range(5)))
    assert all(outcome is outcomes[0] for outcome in outcomes) and Counts.verifies == 1
    assert (await session.verify(ending=Ending.CUT)).ending is Ending.FINISHED


async def test_a_call_after_verify_is_refused_and_changes_nothing(engine: Engine) -> None:
    session = await engine.start(Notes)
    await call(session, "note", text="x")
    environment: Any = session.environment
    outcome = await session.verify()
    assert (await call(session, "note", text="late")).code is Code.SESSION_VERIFIED
    assert environment.notes == ["x"] and await session.verify() is outcome
    assert await session.end_turn() is None


async def test_verify_frees_the_slot_at_once(engine: Engine) -> None:
    session = await engine.start(Notes)
    assert not engine.all_free
    await session.verify()
    assert engine.all_free and session.state is SessionState.VERIFIED


async def test_a_cut_episode_is_verified_and_scored(engine: Engine) -> None:
    class SeesEnding(Notes):
        def verify(self, transcript: Transcript) -> float:
            return 1.0 if transcript.ending is Ending.CUT else 0.0

    outcome = await (await engine.start(SeesEnding)).verify(ending=Ending.CUT)
    assert outcome.ending is Ending.CUT and outcome.reward == 1.0


async def test_verify_reads_the_answer_and_its_own_log(engine: Engine) -> None:
    class Reads(Notes):
        def verify(self, transcript: Transcript) -> dict[str, float]:
            return {"answer": float(transcript.answer == "42"), "calls": float(len(transcript.calls_to("note")))}

    session = await engine.start(Reads)
    await call(session, "note", text="x")
    outcome = await session.verify([{"role": "assistant", "content": "42"}])
    assert outcome.components == {"answer": 1.0, "calls": 1.0} and outcome.reward == 2.0


async def test_a_grader_that_scribbles_in_its_transcript_spoils_nothing(engine: Engine) -> None:
    class Scribbles(Notes):
        def verify(self, transcript: Transcript) -> float:
            assert isinstance(transcript.calls, tuple)
            return 0.0

    assert (await (await engine.start(Scribbles)).verify()).reward == 0.0


async def test_a_policy_cannot_escape_its_score_by_nesting_too_deeply(engine: Engine) -> None:
    class Reads(Notes):
        def verify(self, transcript: Transcript) -> float:
            return float(sum(call.arguments is not None for call in transcript.calls))

    session = await engine.start(Reads)
    await session.call("unknown", b"[" * 200_000)
    outcome = await session.verify([{"role": "assistant", "tool_calls": [{"function": {"name": "unknown"}}]}])
    assert not outcome.masked and outcome.reward == 0.0


# What ends an episode


class Ends(Notes):
    @tool(ends=True)
    async def finish(self, well: bool = True) -> str:
        """End it."""
        if not well:
            raise ToolError("not yet")
        return "over"

    @tool
    async def perhaps(self, over: bool) -> ToolResult:
        return ToolResult("said", done=over)


async def test_a_tool_that_ends_verifies_at_once_from_the_log(engine: Engine) -> None:
    session = await engine.start(Ends)
    await call(session, "note", text="x")
    answer = await call(session, "finish")
    assert answer.result.done and answer.code is Code.OK
    assert session.state is SessionState.VERIFIED and engine.all_free
    outcome = await session.verify([{"role": "assistant", "content": "whatever"}], Ending.CUT)
    assert outcome.reward == 1.0 and outcome.ending is Ending.FINISHED


async def test_a_tool_error_of_a_tool_that_ends_does_not_end(engine: Engine) -> None:
    session = await engine.start(Ends)
    answer = await call(session, "finish", well=False)
    assert not answer.result.done and session.state is SessionState.ACTIVE


async def test_a_result_that_says_done_ends_the_episode(engine: Engine) -> None:
    session = await engine.start(Ends)
    assert not (await call(session, "perhaps", over=False)).result.done
    assert (await call(session, "perhaps", over=True)).result.done
    assert session.state is SessionState.VERIFIED


async def test_after_an_ending_call_verify_still_says_where_the_transcripts_differ(engine: Engine) -> None:
    session = await engine.start(Ends)
    await call(session, "note", text="x")
    await call(session, "finish")
    lie = [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "note", "arguments": '{"text":"x"}'}}]},
        {"role": "tool", "tool_call_id": "1", "content": "100"},
    ]
    first = await session.verify(lie)
    assert len(first.disagreements) == 2 and session.calls == []
    assert await session.verify() is first


async def test_a_verify_that_breaks_in_an_ending_call_masks(engine: Engine) -> None:
    class Broken(Ends):
        def verify(self, transcript: Transcript) -> float:
            raise RuntimeError("grader")

    session = await engine.start(Broken)
    assert (await call(session, "finish")).code is Code.SESSION_FAILED
    outcome = await session.verify()
    assert outcome.masked and outcome.failure_kind == FailureKind.VERIFIER_ERROR and engine.all_free


async def test_a_result_that_is_an_error_has_the_code_of_one(engine: Engine) -> None:
    class Says(Notes):
        @tool(ends=True)
        async def say(self) -> ToolResult:
            return ToolResult("no", is_error=True, done=True)

    session = await engine.start(Says)
    answer = await call(session, "say")
    assert answer.code is Code.TOOL_ERROR and not answer.result.done and session.state is SessionState.ACTIVE


async def test_media_reach_the_answer(engine: Engine) -> None:
    class Draws(Notes):
        @tool
        async def draw(self) -> list[Any]:
            return ["a line", Media("image", "AAAA", "image/png")]

    answer = await call(await engine.start(Draws), "draw")
    assert answer.result.text == "a line" and answer.result.media == (Media("image", "AAAA", "image/png"),)


# Several prompts


class Turns(Notes):
    def reset(self, row: Row) -> str:
        super().reset(row)
        return "first"

    async def end_turn(self) -> str | None:
        await call_nothing()
        self.notes.append("turn")
        return "second" if len(self.notes) == 1 else None


async def call_nothing() -> None:
    await asyncio.sleep(0)


async def test_prompts_follow_each_other_until_there_is_none(engine: Engine) -> None:
    session = await engine.start(Turns)
    assert session.prompt[-1] == {"role": "user", "content": "first"}
    assert [await session.end_turn(), await session.end_turn()] == ["second", None]
    assert (await session.verify()).reward == 2.0


async def test_a_repeat_of_an_end_turn_answers_the_first_prompt(engine: Engine) -> None:
    session = await engine.start(Turns)
    assert [await session.end_turn("a"), await session.end_turn("a")] == ["second", "second"]
    assert [await session.end_turn("b"), await session.end_turn("b"), await session.end_turn("a")] == [
        None,
        None,
        "second",
    ]
    assert (await session.call("nothing", b"{}", "a")).code is Code.KEY_REUSED
    await session.call("nothing", b"{}", "c")
    assert (await refused(session.end_turn("c"))).code is Code.KEY_REUSED
    assert (await session.verify()).reward == 2.0


async def test_an_environment_of_one_prompt_has_no_next(engine: Engine) -> None:
    assert await (await engine.start(Notes)).end_turn() is None


# Failure, for good


class Stages(Environment):
    """Breaks where it is told to."""

    stage = ""

    def __init__(self) -> None:
        self._break("constructor")

    def reset(self, row: Row) -> Any:
        self._break("reset")

    @tool
    def act(self) -> str:
        self._break("tool")
        return "fine"

    @tool
    async def act_async(self) -> str:
        await asyncio.sleep(0)
        self._break("async tool")
        return "fine"

    def end_turn(self) -> str | None:
        self._break("end_turn")
        return None

    def verify(self, transcript: Transcript) -> float:
        self._break("verify")
        return 1.0

    async def close(self) -> None:
        self._break("close")

    def _break(self, stage: str) -> None:
        if self.stage == stage:
            raise self.error  # type: ignore[attr-defined]


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS = [
    RuntimeError("bang"),
    SystemExit(3),
    StopIteration("early"),
    asyncio.CancelledError(),
    MemoryError(),
    RecursionError("deep"),
    SessionFailure("no disk", "disk_full"),
    SessionFailure("judge away", FailureKind.JUDGE_FAILED),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\ud800\n"),
    Unspeakable(),
    ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
    TimeoutError("their own"),
    ValueError("x" * 1_000_000),
]


def breaking(stage: str, error: BaseException) -> type[Stages]:
    return type("Breaking", (Stages,), {"stage": stage, "error": error, "name": "stages"})


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stage", ["constructor", "reset"])
async def test_what_breaks_at_seed_refuses_the_seed(engine: Engine, stage: str, error: BaseException) -> None:
    refusal = await refused(engine.start(breaking(stage, error)))
    assert refusal.code is Code.SESSION_FAILED and engine.all_free
    assert refusal.failure is not None and refusal.failure.stage == Stage.SEED
    assert refusal.as_outcome().masked


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stage", ["tool", "async tool", "end_turn", "verify"])
async def test_what_breaks_later_fails_the_session_for_good(engine: Engine, stage: str, error: BaseException) -> None:
    environment = breaking(stage, error)
    session = await engine.start(environment)
    if stage == "end_turn":
        assert await session.end_turn() is None
    elif stage != "verify":
        answer = await call(session, {"tool": "act"}.get(stage, "act_async"))
        assert answer.code is Code.SESSION_FAILED and answer.result.is_error
    outcome = await session.verify()
    assert outcome.masked and outcome.reward is None and outcome.failure_kind and outcome.failure_reason
    assert len(outcome.failure_reason) <= 300 and outcome.failure_reason.isprintable()
    assert session.state is SessionState.FAILED and engine.all_free
    environment.stage = ""  # it would work again by now
    for _ in range(2):
        assert (await call(session, "act")).code is Code.SESSION_FAILED
        assert await session.verify() is outcome
    assert await session.end_turn() is None and session.state is SessionState.FAILED


async def test_a_close_that_breaks_changes_nothing(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    for error in (RuntimeError("bang"), SystemExit(1), asyncio.CancelledError()):
        session = await engine.start(breaking("close", error))
        assert (await session.verify()).reward == 1.0
        await until(lambda: "close failed" in caplog.text)
        caplog.clear()


async def test_close_may_be_sync_and_runs_once_however_the_session_ends(engine: Engine) -> None:
    class Closes(Notes):
        closes = 0

        def close(self) -> None:  # type: ignore[override]  # pyright: ignore
            type(self).closes += 1

    for ending in ("verify", "close", "fail", "expire"):
        session = await engine.start(Closes)
        if ending == "verify":
            await session.verify()
        elif ending == "fail":
            session._fail(RuntimeError("bang"), Stage.CALL)
        elif ending == "expire":
            session.expire("test")
        await engine.close(session)
    await until(lambda: Closes.closes == 4)
    await engine.drain(0)
    assert Closes.closes == 4


async def test_a_failure_is_recorded_once_with_its_place(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []
    engine.failures.observers.append(lambda environment, failure: seen.append((environment, failure)))
    session = await engine.start(breaking("tool", RuntimeError("bang")))
    for _ in range(3):
        await call(session, "act")
    await session.verify()
    [(environment, failure)] = seen
    assert environment == "stages"
    assert (failure.kind, failure.stage, failure.tool) == ("stages:exception", "call", "act")
    assert failure.reason == "RuntimeError: bang"
    assert caplog.text.count("failed: stages:exception") == 1


async def test_the_policy_is_not_told_what_broke(engine: Engine) -> None:
    session = await engine.start(breaking("tool", RuntimeError("the secret answer is 42")))
    assert "42" not in (await call(session, "act")).result.text


async def test_a_failure_from_outside_waits_for_nobody_and_sticks(engine: Engine) -> None:
    class Hangs(Notes):
        @tool
        async def think(self) -> str:
            await asyncio.sleep(0.01)
            return "thought"

    session = await engine.start(Hangs)
    thinking = asyncio.create_task(call(session, "think"))
    await until(lambda: session.in_flight == 1)
    session._fail(RuntimeError("socket"), Stage.TRANSPORT)
    assert engine.all_free
    assert (await thinking).code is Code.SESSION_FAILED
    assert (await session.verify()).masked


async def test_a_caller_that_gives_up_half_way_fails_the_session(engine: Engine) -> None:
    class Long(Notes):
        @tool
        async def think(self) -> str:
            await asyncio.sleep(30)
            return "thought"

    session = await engine.start(Long)
    thinking = asyncio.create_task(call(session, "think"))
    await until(lambda: session.in_flight == 1)
    queued = asyncio.create_task(call(session, "note", text="x"))
    await until(lambda: session.in_flight == 2)
    thinking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await thinking
    assert (await queued).code is Code.SESSION_FAILED
    outcome = await session.verify()
    assert outcome.masked and outcome.failure_kind == FailureKind.CANCELLED and session.in_flight == 0


async def test_a_caller_that_gives_up_in_line_leaves_the_session_whole(engine: Engine) -> None:
    class Slow(Notes):
        @tool
        async def think(self) -> str:
            await asyncio.sleep(0.01)
            return "thought"

    session = await engine.start(Slow)
    thinking = asyncio.create_task(call(session, "think"))
    await until(lambda: session.in_flight == 1)
    waiting = asyncio.create_task(call(session, "note", text="x"))
    await until(lambda: session.in_flight == 2)
    waiting.cancel()
    assert (await thinking).code is Code.OK
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await session.verify()).reward == 0.0


async def test_verify_cannot_be_cancelled_into_a_second_run(engine: Engine) -> None:
    class Counts(CountsVerifies):
        pass

    session = await engine.start(Counts)
    verifying = asyncio.create_task(session.verify())
    await until(lambda: Counts.verifies == 1)
    verifying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await verifying
    assert (await session.verify()).masked and Counts.verifies == 1


# Rewards


class Scores(Environment):
    value: Any = 0.0

    def verify(self, transcript: Transcript) -> Any:
        return self.value() if callable(self.value) else self.value


def scoring(value: Any) -> type[Scores]:
    return type("Scoring", (Scores,), {"value": staticmethod(value) if callable(value) else value})


@pytest.mark.parametrize(
    ("value", "reward"),
    [(0.5, 0.5), (1, 1.0), (-2, -2.0), (0, 0.0), ({"a": 0.25, "b": 0.5}, 0.75), (Outcome(Ending.FINISHED, 1.0), 1.0)],
)
async def test_finite_numbers_are_rewards(engine: Engine, value: Any, reward: float) -> None:
    outcome = await (await engine.start(scoring(value))).verify()
    assert outcome.reward == reward and type(outcome.reward) is float and not outcome.masked


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        10**400,
        None,
        True,
        False,
        "0.5",
        b"1",
        [1.0],
        1j,
        {},
        {"a": float("nan")},
        {"a": True},
        {"a": None},
        {1: 0.5, "1": 0.5},
        lambda: Outcome(Ending.FINISHED, True),
        lambda: Outcome(Ending.FINISHED, 1.0, {"a": True}),
        lambda: Outcome(Ending.FINISHED, None),
        lambda: Outcome(Ending.FINISHED, float("nan")),
        lambda: Outcome(Ending.FINISHED, 1.0, {"a": 0.5}),
    ],
)
async def test_anything_else_masks_with_a_reason(engine: Engine, value: Any) -> None:
    outcome = await (await engine.start(scoring(value))).verify()
    assert outcome.masked and outcome.reward is None
    assert outcome.failure_kind == FailureKind.VERIFIER_ERROR and outcome.failure_reason


async def test_a_grader_may_say_that_our_side_broke(engine: Engine) -> None:
    def say(kind: str) -> Any:
        return scoring(lambda: Outcome(Ending.FAILED, failure_kind=kind, failure_reason="why\n\ud800"))

    public = await (await engine.start(say("judge_failed"))).verify()
    assert public.masked and public.failure_kind == "judge_failed" and public.failure_reason == "why  "
    own = await (await engine.start(say("disk"))).verify()
    assert own.failure_kind == "scoring:disk"


async def test_component_names_can_be_sent(engine: Engine) -> None:
    outcome = await (await engine.start(scoring({"\ud800": 1.0}))).verify()
    assert list(outcome.components) == ["?"]
