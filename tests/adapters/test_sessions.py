"""One Session on every wire: the same observations, endings and failures."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import SessionFailed, WrongRequest, connect, drive
from gymwire.adapters.session import read_outcome
from gymwire.servers import Ending, EpisodeId, Media, Row, Tool
from gymwire.servers.policies import Call, EndTurn, Script
from gymwire.servers.types import FailureKind

from tests.adapters.conftest import TROUBLE, Connecting
from tests.adapters.trouble import PNG, Trouble
from tests.serving import serving

TASK = Row.of("Do it.")


def row(**data: Any) -> Row:
    return Row.of("Do it.", **data)


async def failing(work: Any) -> tuple[str, str, str]:
    with pytest.raises(SessionFailed) as caught:
        await work
    return caught.value.kind, caught.value.stage, caught.value.reason


async def test_a_session_shows_prompt_tools_and_limits(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=row(start="talkative")) as session:
        assert [message["content"] for message in session.prompt] == ["Do it.", "A last word."]
        assert session.tools == tuple(spec.tool for spec in Trouble.tool_specs.values())
        assert session.max_turns == env.info.max_turns == 50
        assert env.info.splits == {"train": 4}


async def test_rows_are_chosen_by_split_and_index_or_by_seed(connecting: Connecting) -> None:
    async with connecting() as env:
        async with env.session(split="train", index=2) as session:
            assert session.prompt[0]["content"] == "Task 2."
        prompts = set()
        for _ in range(3):
            async with env.session(seed=7) as session:
                prompts.add(session.prompt[0]["content"])
        assert len(prompts) == 1


async def test_a_row_may_pin_fewer_tools(connecting: Connecting) -> None:
    pinned = Row(
        prompt=TASK.prompt, tools=(Tool("now", "an old description", {"type": "object"}), Tool("gone", "", {}))
    )
    async with connecting() as env, env.session(row=pinned) as session:
        assert session.tools == (Trouble.tool_specs["now"].tool,)
        assert "The tools are: now." in (await session.call("echo", {"text": "x"})).text


@pytest.mark.parametrize("arguments", ["", " ", "\n", None, "{}", {}])
async def test_no_arguments_in_every_form(connecting: Connecting, arguments: Any) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        assert (await session.call("now", arguments)).text == "1"


TEXTS = ["null", "[1,2]", '{"a":1}', "5", "", "ünï\u2028", "</tool_call>", "\u0000", "a\r\nb", "<|im_end|>"]


@pytest.mark.parametrize("text", TEXTS)
async def test_a_string_argument_arrives_unchanged(connecting: Connecting, text: str) -> None:
    shown = text.replace("\u0000", "\ufffd").replace("\r\n", "\n")
    async with connecting() as env, env.session(row=TASK) as session:
        result = await session.call("echo", {"text": text})
        assert (result.text, result.is_error) == (shown, False)


@pytest.mark.parametrize("value", [12345678901234567890123, 0.1, -1, None])
async def test_a_number_arrives_unchanged(connecting: Connecting, value: Any) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        result = await session.call("number", {"value": value})
        assert result.text == f'{{"value":{"null" if value is None else value}}}'


MISTAKES = [
    ("nosuch", {}),
    ("verify", {}),
    ("close_session", {"resources_session_id": "x"}),
    ("seed_session", {}),
    ("../verify", {}),
    ("", {}),
    ("echo", "[1,2]"),
    ("echo", "null"),
    ("echo", '"Paris"'),
    ("echo", '{"text": "a'),
    ("echo", '{"text": "\\ud800"}'),
    ("echo", {"text": 5}),
    ("echo", {}),
    ("echo", {"text": "a", "more": 1}),
    ("refuse", {}),
]


async def test_the_policys_mistakes_read_the_same_and_are_trained_on(connecting: Connecting) -> None:
    async with (
        connect(Trouble) as own,
        own.session(row=TASK) as local,
        connecting() as env,
        env.session(row=TASK) as session,
    ):
        for name, arguments in MISTAKES:
            result = await session.call(name, arguments)
            assert result.is_error and result.text
            assert result == await local.call(name, arguments), name
        outcome = await session.verify([{"role": "assistant", "content": "done"}])
        assert (outcome.reward, outcome.ending) == (0.0, Ending.FINISHED)


async def test_doubly_encoded_arguments_run(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        assert (await session.call("echo", '"{\\"text\\": \\"a\\"}"')).text == "a"


async def test_calls_of_one_session_keep_their_order(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        results = await asyncio.gather(*(session.call("now") for _ in range(20)))
        assert [result.text for result in results] == [str(number) for number in range(1, 21)]


async def test_pictures_are_passed_on_where_the_wire_has_them(connecting: Connecting, wire: str) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        result = await session.call("picture")
        if wire == "nemo-gym":
            assert result.text == "a picture:\n[image: image/png]"
        else:
            assert (result.text, result.media) == ("a picture:", (Media("image", PNG, "image/png"),))


async def test_long_results_are_cut(connecting: Connecting) -> None:
    async with connecting(max_result_chars=200, keep="end") as env, env.session(row=TASK) as session:
        text = "x" * 1000 + "end"
        result = await session.call("echo", {"text": text})
        assert len(result.text) <= 200 and result.text.endswith("xend") and "last" in result.text
        call = {"id": "c", "function": {"name": "echo", "arguments": {"text": text}}}
        messages = [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": result.text},
        ]
        assert (await session.verify(messages)).disagreements == ()


async def test_several_prompts(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        assert [await session.end_turn("a"), await session.end_turn("b")] == ["Second.", "Third."]
        assert await session.end_turn("c") is None


@pytest.mark.parametrize("ending", [Ending.FINISHED, Ending.CUT])
async def test_verify_scores_and_repeats(connecting: Connecting, ending: Ending) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        await session.call("now")
        outcome = await session.verify(ending=ending)
        assert outcome.ending is ending
        assert outcome.components == {"calls": 0.1, "cut": 0.5 * (ending is Ending.CUT)}
        assert outcome.reward == pytest.approx(sum(outcome.components.values()))
        assert await session.verify([{"role": "assistant", "content": "other"}]) == outcome
        late = await session.call("now")
        assert (late.is_error, late.done) == (True, False)
        assert "ended" in late.text


async def test_the_final_answer_reaches_the_grader(connecting: Connecting) -> None:
    async with connecting() as env:
        for said in (["no", "yes"], ["yes", "no"]):
            async with env.session(row=row(verdict="answer")) as session:
                messages = [*session.prompt, *({"role": "assistant", "content": text} for text in said)]
                assert (await session.verify(messages)).reward == float(said[-1] == "yes")


async def test_a_tool_may_end_the_episode(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        result = await session.call("finish")
        assert (result.text, result.done, session.done) == ("finished", True, True)
        assert await session.end_turn("more") is None
        assert (await session.verify()).ending is Ending.FINISHED


async def test_a_broken_tool_fails_the_session_for_good(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        assert await failing(session.call("crash")) == ("trouble:exception", "call", "RuntimeError: boom")
        for again in (session.call("now"), session.verify(), session.end_turn()):
            assert await failing(again) == ("trouble:exception", "call", "RuntimeError: boom")


async def test_a_tool_past_its_time_fails_the_session(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        kind, stage, _ = await failing(session.call("hang"))
        assert (kind, stage) == ("trouble:tool_timeout", "call")


@pytest.mark.parametrize("verdict", ["nan", "raise"])
async def test_a_masked_verify_raises(connecting: Connecting, verdict: str) -> None:
    async with connecting() as env, env.session(row=row(verdict=verdict)) as session:
        kind, stage, reason = await failing(session.verify())
        assert (kind, stage) == ("verifier_error", "verify") and reason
        assert (await failing(session.verify()))[0] == "verifier_error"


async def test_a_seed_that_breaks_on_our_side(connecting: Connecting) -> None:
    async with connecting() as env:
        expected = ("trouble:exception", "seed", "RuntimeError: no luck today")
        assert await failing(env.session(row=row(start="broken")).start()) == expected


WRONG_TASKS = [{"split": "nosuch"}, {"split": "train", "index": 99}, {"row": row(start=5)}, {"row": {"input": "?"}}]


@pytest.mark.parametrize("task", WRONG_TASKS)
async def test_a_task_that_cannot_be_is_the_callers_mistake(connecting: Connecting, task: Any) -> None:
    async with connecting() as env:
        with pytest.raises(WrongRequest):
            await env.session(**task)


async def test_an_episode_is_seeded_once(connecting: Connecting, wire: str) -> None:
    episode = EpisodeId(f"row/ünï {wire}", attempt=1, sample=2, seed=3)
    async with connecting() as env:
        first = await env.session(row=TASK, episode=episode)
        if wire == "nemo-gym" or wire == "mcp":
            again = await env.session(row=TASK, episode=episode)
            await first.call("now")
            assert (await again.call("now")).text == "2"
            with pytest.raises(WrongRequest, match="another task"):
                await env.session(row=Row.of("Another."), episode=episode)
        await first.close()


async def test_a_closed_session_is_lost(connecting: Connecting) -> None:
    async with connecting() as env:
        session = await env.session(row=TASK)
        await session.close()
        await session.close()
        assert (await failing(session.call("now")))[0] == "session_lost"


async def test_256_sessions_at_once(connecting: Connecting) -> None:
    def script() -> Script:
        for _ in range(3):
            yield Call("now")
        return "done"

    async def episode(env: Any) -> float | None:
        async with env.session(row=TASK) as session:
            return (await drive(session, script())).reward

    async with connecting() as env:
        rewards = await asyncio.gather(*(episode(env) for _ in range(256)))
    assert rewards == [pytest.approx(0.3)] * 256


async def test_sessions_left_open_are_closed_with_the_connection(connecting: Connecting) -> None:
    async with connecting() as env:
        sessions = [await env.session(row=TASK) for _ in range(5)]
    for session in sessions:
        assert (await failing(session.call("now")))[0] == "session_lost"


async def test_a_call_given_up_does_not_disturb_the_next_one(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=TASK) as session:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await session.call("nap", {"seconds": 0.3})
        assert (await session.call("echo", {"text": "mine"})).text == "mine"


# Driving


def talker() -> Script:
    result = yield Call("echo", {"text": "a"})
    result = yield EndTurn(f"I heard {result.text}")
    assert (result.text, result.done) == ("Second.", False)
    return "yes"


async def test_drive_plays_a_script_and_keeps_its_messages(connecting: Connecting) -> None:
    async with connecting() as env, env.session(row=row(verdict="answer")) as session:
        played = await drive(session, talker())
    assert (played.reward, played.turns, played.masked) == (1.0, 3, False)
    assert [message["role"] for message in played.messages] == ["assistant", "tool", "assistant", "user", "assistant"]
    assert played.outcome is not None and played.outcome.disagreements == ()


async def test_drive_cuts_at_the_turn_limit(connecting: Connecting) -> None:
    def endless() -> Script:
        while True:
            yield Call("now")

    async with connecting() as env, env.session(row=TASK) as session:
        played = await drive(session, endless(), max_turns=3)
    assert played.outcome is not None
    assert (played.turns, played.outcome.ending, len(played.messages)) == (3, Ending.CUT, 6)


async def test_a_final_answer_is_a_turn_too(connecting: Connecting) -> None:
    def one() -> Script:
        yield Call("now")
        return "done"

    async with connecting() as env:
        endings = []
        for limit in (1, 2):
            async with env.session(row=TASK) as session:
                endings.append((await drive(session, one(), max_turns=limit)).outcome)
    assert [outcome and outcome.ending for outcome in endings] == [Ending.CUT, Ending.FINISHED]


async def test_drive_answers_the_failure(connecting: Connecting) -> None:
    def breaker() -> Script:
        yield Call("crash")
        raise AssertionError("a script never sees a failed session")

    async with connecting() as env, env.session(row=TASK) as session:
        played = await drive(session, breaker())
    assert played.masked and played.reward is None
    assert played.failure is not None and played.failure.kind == "trouble:exception"


def test_a_failure_crosses_processes() -> None:
    copy = pickle.loads(pickle.dumps(SessionFailed("session_lost", "gone", "call")))
    assert (copy.kind, copy.reason, copy.stage) == ("session_lost", "gone", "call")


# Servers that are full, forget, or die


@pytest.mark.parametrize("remote", ["nemo-gym", "openenv", "mcp"])
async def test_a_full_server_is_waited_for(tmp_path: Path, remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymwire.adapters.patience.uniform", lambda low, high: 0.02)
    with serving(tmp_path / "log", TROUBLE, "--max-sessions", "2", "--queue-timeout", "0.05") as running:
        async with connect(running.url, wire=remote) as env:

            async def episode() -> str:
                async with env.session(row=TASK) as session:
                    return (await session.call("nap", {"seconds": 0.05})).text

            assert await asyncio.gather(*(episode() for _ in range(12))) == ["awake"] * 12
        async with connect(running.url, wire=remote, patience_s=0.2) as env:
            held = [await env.session(row=TASK) for _ in range(2)]
            kind, stage, reason = await failing(env.session(row=TASK).start())
            assert (kind, stage) == ("provider_unavailable", "seed") and "no slot within 0.2 s" in reason
            await held[0].close()
            async with env.session(row=TASK) as session:
                assert (await session.call("now")).text == "1"


@pytest.mark.parametrize("remote", ["nemo-gym", "openenv", "mcp"])
async def test_a_forgotten_session_is_expired_but_an_open_socket_is_not(tmp_path: Path, remote: str) -> None:
    with serving(tmp_path / "log", TROUBLE, "--idle-timeout", "0.3") as running:
        async with connect(running.url, wire=remote) as env, env.session(row=TASK) as session:
            await asyncio.sleep(1.0)
            if remote == "openenv":
                assert (await session.call("now")).text == "1"
            else:
                assert (await failing(session.call("now")))[:2] == ("session_expired", "call")
                assert (await failing(session.verify()))[0] == "session_expired"


@pytest.mark.parametrize("remote", ["nemo-gym", "openenv", "mcp"])
async def test_a_server_that_dies_is_one_typed_failure(tmp_path: Path, remote: str) -> None:
    with serving(tmp_path / "log", TROUBLE) as running:
        async with connect(running.url, wire=remote) as env:
            session, idle = await env.session(row=TASK), await env.session(row=TASK)
            call = asyncio.create_task(session.call("nap", {"seconds": 0.8}))
            await asyncio.sleep(0.2)
            running.kill()
            async with asyncio.timeout(10):
                kinds = {(await failing(call))[0], (await failing(idle.call("now")))[0]}
            assert kinds <= {"transport_peer_drop", "transport_unreachable"}
            assert (await failing(env.session(row=TASK).start()))[:2] == ("transport_unreachable", "seed")


@pytest.mark.parametrize(
    ("reward", "components"),
    [
        (True, None),
        ("1", None),
        (10**400, None),
        (1.0, {"a": None}),
        (1.0, {"a": "x"}),
        (1.0, {"a": 10**400}),
        (1.0, {"a": 2}),
    ],
)
def test_what_is_no_reward_on_a_wire_fails_the_session(reward: object, components: object) -> None:
    with pytest.raises(SessionFailed) as caught:
        read_outcome(reward, "finished", components)
    assert caught.value.kind == FailureKind.VERIFIER_ERROR
