"""What `gymwire bridge` hosts: functions, programs that speak JSON lines, Gymnasium's and reasoning-gym's tasks."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import SessionFailed, WrongRequest, connect
from gymwire.adapters.bridge import reasoning_gym
from gymwire.adapters.bridge.lines import LineProcess
from gymwire.adapters.bridge.sources import hosted
from gymwire.servers import Environment, Row
from gymwire.servers.catalog import Served
from gymwire.servers.environment import DefinitionError

from tests.serving import Running, serving

HERE = Path(__file__).parent
WORKER, DICE = f"sh {HERE / 'counting_worker.sh'}", str(HERE / "dice.py")
#: Answers one kind of question with two lines, and a verify with what the row says.
TWICE = """
import json, sys
for line in sys.stdin:
    question = json.loads(line)
    asked = question["op"]
    answer = said = said if asked == "verify" else question.get("data", {}).get("verify", {})
    if asked == "describe":
        answer = {"tools": [{"name": "go", "parameters": {"type": "object"}, "read_only": True}]}
    elif asked != "verify":
        answer = {"reward": 0.25}
    sys.stdout.write((json.dumps(answer) + "\\n") * (1 + (asked == sys.argv[1])))
    sys.stdout.flush()
"""
WIRES = ("local", "nemo-gym", "openenv", "mcp")


def said(text: object) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": str(text)}]


@pytest.mark.parametrize(
    "kind, target", [("functions", DICE), ("jsonl-worker", WORKER), ("gymnasium", "FrozenLake-v1")]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_hosted_plays_on_every_wire(kind: str, target: str, wire: str, tmp_path: Path) -> None:
    row = Row(data={"wanted": 5, "seed": 3})
    if wire == "local":
        async with connect(hosted(kind, target)) as connection:
            await PLAYS[kind](await connection.session(row=row))
        return
    with serving(tmp_path / "log", target, "--from", kind, command="bridge") as running:
        async with connect(running.url, wire=wire) as connection:
            await PLAYS[kind](await connection.session(row=row))


async def play_dice(session: Any) -> None:
    assert session.max_turns == 3
    assert (await session.call("total", {"faces": [3, 9]})).text == "9"
    assert (await session.call("_checked", {"faces": [1]})).is_error
    assert (await session.call("total", {"faces": "many"})).is_error
    assert (await session.verify(said(7))).reward == 1.0


async def play_counting(session: Any) -> None:
    assert session.prompt[-1]["content"] == "Count to 5."
    assert (await session.call("add", {"by": 2})).text == "2"
    wrong = await session.call("add", {"by": "x"})
    assert wrong.is_error and wrong.text == "by is a number"
    assert (await session.call("add", {"by": 3})).text == "5"
    assert (await session.verify(said("done"))).reward == 1.0


async def play_lake(session: Any) -> None:
    assert "SFFF" in session.prompt[-1]["content"].replace("\x1b[41m", "").replace("\x1b[0m", "")
    assert session.tools[0].parameters["properties"]["action"] == {"type": "integer", "minimum": 0, "maximum": 3}
    for wrong in (4, "left", None, [1], True):
        assert "is no action" in (await session.call("act", {"action": wrong})).text
    assert (await session.call("act", {"action": 1, "more": 2})).is_error
    result = await session.call("act", {"action": 1})
    assert not result.is_error and "reward 0" in result.text
    assert (await session.verify()).reward == 0.0


PLAYS = {"functions": play_dice, "jsonl-worker": play_counting, "gymnasium": play_lake}


async def test_a_row_is_a_seed_and_the_same_seed_the_same_episode() -> None:
    async with connect(hosted("gymnasium", "FrozenLake-v1")) as connection:
        seen = []
        for seed in (11, 11, 12):
            async with connection.session(row=Row(data={"seed": seed})) as session:
                seen.append([(await session.call("act", {"action": 2})).text for _ in range(6)])
        assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("seed", ["abc", -1, 1.5, True])
async def test_a_row_whose_seed_is_none_is_refused(seed: Any) -> None:
    async with connect(hosted("gymnasium", "FrozenLake-v1")) as connection:
        with pytest.raises(WrongRequest, match="whole number from 0 on"):
            await connection.session(row=Row(data={"seed": seed}))


async def test_an_episode_that_is_over_ends_and_is_scored() -> None:
    environment = hosted("gymnasium", "FrozenLake-v1")
    async with (
        connect(Served(environment, {"is_slippery": False})) as connection,
        connection.session(row=Row()) as lake,
    ):
        for action in (2, 2, 1, 1, 1, 2):  # right, down: to the goal
            result = await lake.call("act", {"action": action})
        assert result.done and "over" in result.text
        assert (await lake.verify()).reward == 1.0


@pytest.mark.parametrize(
    "by, kind, reason",
    [
        (13, "counting:exception", "the counter broke"),
        (14, "provider_unavailable", "ended with status 3"),
        (15, "provider_unavailable", "no JSON object"),
        (16, "counting:exception", "a step returned str"),
        (19, "counting:exception", "done 'true', which is neither"),
        (20, "provider_unavailable", "it ended with status"),
    ],
)
async def test_a_program_that_breaks_is_masked(by: int, kind: str, reason: str) -> None:
    async with connect(hosted("jsonl-worker", WORKER)) as connection:
        session = await connection.session(row=Row(data={"wanted": 5}))
        with pytest.raises(SessionFailed, match=reason) as failed:
            await session.call("add", {"by": by})
        assert failed.value.kind == kind
        with pytest.raises(SessionFailed):
            await session.verify(said("done"))


@pytest.mark.parametrize(("by", "text"), [(17, ""), (18, '{"count": [1, null]}')])
async def test_what_is_no_text_is_told_as_json(by: int, text: str) -> None:
    async with connect(hosted("jsonl-worker", WORKER)) as connection:
        session = await connection.session(row=Row(data={"wanted": 5}))
        assert (await session.call("add", {"by": by})).text == text


def sleepers() -> list[str]:
    return [line.parent.name for line in Path("/proc").glob("[0-9]*/cmdline") if b"86314" in line.read_bytes()]


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc")
def test_nothing_of_a_program_that_does_not_describe_itself_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell was killed, and what it had started held the terminal for as long as it ran."""
    monkeypatch.setattr("gymwire.adapters.bridge.jsonl_worker.DESCRIBE_S", 0.5)
    with pytest.raises(DefinitionError, match="did not end within"):
        hosted("jsonl-worker", "sh -c 'sleep 86314; true'")
    end = time.monotonic() + 10
    while sleepers() and time.monotonic() < end:  # what was killed is there until the kernel has taken it away
        time.sleep(0.01)
    assert sleepers() == []


def test_a_program_that_answers_without_end_is_said_at_the_start() -> None:
    """All of it was kept for as long as it might answer."""
    with pytest.raises(DefinitionError, match="yes answered no JSON object"):
        hosted("jsonl-worker", "yes")


@pytest.fixture
def twice(tmp_path: Path) -> str:
    program = tmp_path / "twice.py"
    program.write_text(TWICE)
    return f"{sys.executable} {program}"


@pytest.mark.parametrize("asked", ["step", "verify"])
async def test_a_second_line_for_one_question_is_no_answer_to_the_next(twice: str, asked: str) -> None:
    """Its reward would be another answer's. Where it came late it was taken for verify's, and verify's is left."""
    async with connect(hosted("jsonl-worker", f"{twice} {asked}")) as connection:
        session = await connection.session(row=Row(data={"verify": {"reward": 1}}))
        with pytest.raises(SessionFailed, match="more than one line"):
            await session.call("go", {})
            await session.verify()


def test_a_second_line_is_said_at_the_start(twice: str) -> None:
    with pytest.raises(DefinitionError, match="more than one line; what is no answer belongs on stderr"):
        hosted("jsonl-worker", f"{twice} describe")


async def test_a_program_is_asked_one_question_at_a_time(twice: str) -> None:
    """Whatever it calls read-only: its answers carry no name of their question."""
    async with connect(hosted("jsonl-worker", f"{twice} nothing")) as connection:
        session = await connection.session(row=Row(data={"verify": {"reward": None, "components": {}}}))
        await asyncio.gather(*(session.call("go", {}) for _ in range(4)))
        assert (await session.verify()).reward == 1.0


@pytest.mark.parametrize(
    ("verified", "reward"),
    [
        ({"reward": 0.5, "components": {}}, 0.5),
        ({"reward": 0.5, "components": {"a": 0.2, "b": 0.3}}, 0.5),
        ({"components": {"a": 0.2, "b": 0.3}}, 0.5),
        ({"reward": 3, "components": {"a": 0.5}}, None),
        ({"reward": {"a": 0.5}}, None),
        ({"components": 0}, None),
        ({"components": 0, "reward": 1}, None),
        ({"components": [1]}, None),
        ({"reward": True}, None),
    ],
)
async def test_a_score_of_no_known_form_is_masked(twice: str, verified: dict[str, Any], reward: float | None) -> None:
    async with connect(hosted("jsonl-worker", f"{twice} nothing")) as connection:
        session = await connection.session(row=Row(data={"verify": verified}))
        if reward is not None:
            assert (await session.verify()).reward == reward
            return
        with pytest.raises(SessionFailed) as failed:
            await session.verify()
        assert failed.value.kind == "verifier_error"


@pytest.mark.parametrize(
    ("step", "reward"),
    [
        ({}, None),
        ({"reward": None}, None),
        ({"reward": 0}, 0.0),
        ({"error": True}, 0.0),  # the policy's mistake is no way out of a score
        (None, 0.0),
    ],
)
async def test_steps_without_any_reward_are_no_score(
    tmp_path: Path, step: dict[str, Any] | None, reward: float | None
) -> None:
    program = tmp_path / "silent.py"
    answers = {"describe": {"tools": [{"name": "go", "parameters": {"type": "object"}}]}, "step": step}
    program.write_text(
        f"import json, sys\nfor line in sys.stdin:\n    answer = {answers!r}.get(json.loads(line)['op'], {{}})\n"
        "    print(json.dumps(answer), flush=True)\n"
    )
    async with connect(hosted("jsonl-worker", f"{sys.executable} {program}")) as connection:
        session = await connection.session()
        if step is not None:
            await session.call("go", {})
        if reward is not None:
            assert (await session.verify()).reward == reward
            return
        with pytest.raises(SessionFailed, match="brought a reward") as failed:
            await session.verify()
        assert failed.value.kind == "verifier_error"


async def test_a_done_of_the_program_ends_the_episode() -> None:
    async with connect(hosted("jsonl-worker", WORKER)) as connection:
        session = await connection.session(row=Row(data={"wanted": 100}))
        assert (await session.call("add", {"by": 100})).done
        assert (await session.verify()).reward == 1.0


@pytest.mark.parametrize(
    "kind, target, reason",
    [
        ("functions", "nosuch.py", "there is no file"),
        ("functions", "json", "verify|no public function"),
        ("gymnasium", "Nosuch-v9", "gymnasium cannot make 'Nosuch-v9'"),
        ("reasoning-gym", "leg_countin", "Did you mean 'leg_counting'"),
        ("jsonl-worker", "/no/such/program", "cannot be started"),
        ("jsonl-worker", "true", "answered no JSON object"),
        ("jsonl-worker", "echo hello", "no JSON object"),
        ("jsonl-worker", "echo {}", "names no tools"),
        ("jsonl-worker", "'open quote", "is no command"),
    ],
)
def test_what_cannot_be_hosted_is_said_in_a_sentence(kind: str, target: str, reason: str) -> None:
    with pytest.raises(DefinitionError, match=reason):
        hosted(kind, target)


# ---- reasoning-gym

#: One of the families leaves its data file open.
leaves_a_file_open = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(scope="module")
def families() -> type[Environment]:
    return hosted("reasoning-gym", "all")


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("reasoning") / "log"
    with serving(log, "all", "--from", "reasoning-gym", "--set", "size=8", command="bridge") as running:
        yield running


@pytest.mark.slow
@leaves_a_file_open
@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_their_own_answers_score_1_in_90_families(families: type[Environment], tasks: Running, wire: str) -> None:
    """A few families ship no answer of their own; a nonsense answer is worth less than theirs."""
    solved = []
    async with connect(tasks.url, wire=wire) as connection:
        for row in families.rows("train", 105, 0):
            family, seed = row.data["family"], row.data["task_seed"]
            async with connection.session(row=row) as session:
                answer = reasoning_gym.entry(family, seed, {})["answer"]
                if (await session.verify(said(f"I think: <answer>{answer}</answer>"))).reward == 1.0:
                    solved.append(family)
    assert len(set(solved)) >= 90, sorted(set(families.families) - set(solved))  # pyright: ignore


async def test_an_answer_that_breaks_the_scorer_is_the_policys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_gym, "SCORE_S", 2.0)
    async with connect(hosted("reasoning-gym", "simple_equations,polynomial_equations")) as connection:
        for index in (0, 1):
            async with connection.session(split="train", index=index) as session:
                assert (await session.verify(said("<answer>9**9**9**9</answer>"))).reward in (0.0, 0.01)


@pytest.mark.parametrize(("own", "reward"), [(1.0, 0.0), (float("nan"), None), (0.0, None)])
async def test_a_score_that_is_no_number_is_the_policys_where_the_expected_answer_has_one(
    monkeypatch: pytest.MonkeyPatch, own: float, reward: float | None
) -> None:
    async def ask(self: LineProcess, message: Any, timeout_s: float) -> Any:
        return {"score": own if message.get("answer") is None else float("nan")}

    monkeypatch.setattr(LineProcess, "ask", ask)
    async with (
        connect(hosted("reasoning-gym", "leg_counting")) as connection,
        connection.session(split="train", index=0) as session,
    ):
        if reward is not None:
            assert (await session.verify(said("<answer>nan</answer>"))).reward == reward
            return
        with pytest.raises(SessionFailed) as failed:
            await session.verify(said("<answer>nan</answer>"))
        assert failed.value.kind == "verifier_error"


async def test_a_scorer_that_is_killed_from_outside_costs_a_right_answer_nothing() -> None:
    environment = hosted("reasoning-gym", "leg_counting")
    async with connect(environment) as connection:
        for kill in (False, True):
            async with connection.session(split="train", index=0) as session:
                row = next(iter(environment.rows("train", 1, 0)))
                answer = reasoning_gym.entry(row.data["family"], row.data["task_seed"], {})["answer"]
                if kill:
                    (process,) = environment.scorer._free  # pyright: ignore
                    await process.kill()
                assert (await session.verify(said(f"<answer>{answer}</answer>"))).reward == 1.0


async def test_many_answers_at_once_are_scored_by_a_few_processes() -> None:
    environment = hosted("reasoning-gym", "leg_counting")
    async with connect(environment) as connection:
        sessions = [await connection.session(split="train", index=index) for index in range(24)]
        outcomes = await asyncio.gather(*(session.verify(said("<answer>none</answer>")) for session in sessions))
        assert len(outcomes) == 24
        assert len(environment.scorer._free) <= reasoning_gym.PROCESSES  # pyright: ignore


def test_gymnasiums_environment_is_made_as_the_settings_say() -> None:
    """It was looked at without them: a wrong one was found by every session, and the tool was another space's."""
    for wrong in ({"map_name": "9x9"}, {"lakes": 2}):
        with pytest.raises(DefinitionError, match="gymnasium cannot make 'FrozenLake-v1'"):
            hosted("gymnasium", "FrozenLake-v1", wrong)
    import gymnasium

    class Wide(gymnasium.Env[int, int]):
        observation_space = gymnasium.spaces.Discrete(1)

        def __init__(self, width: int = 2) -> None:
            self.action_space = gymnasium.spaces.Discrete(width)

    gymnasium.register("Wide-v0", Wide)
    (spec,) = hosted("gymnasium", "Wide-v0", {"width": 5, "reward": "last"}).tool_specs.values()
    assert spec.tool.parameters["properties"]["action"]["maximum"] == 4


def test_a_files_functions_are_called_as_the_file(tmp_path: Path) -> None:
    """A module of the same name, loaded before, had it called by a number that was another at every start."""
    for name, called in (("json.py", "json"), ("my-dice 2.py", "my-dice_2")):
        (tmp_path / name).write_text(Path(DICE).read_text())
        assert hosted("functions", str(tmp_path / name)).name == called


def test_a_verify_that_takes_no_transcript_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text("def roll() -> int: return 4\n\ndef verify() -> float: return 1.0\n")
    with pytest.raises(DefinitionError, match="verify takes the transcript alone"):
        hosted("functions", str(tmp_path / "tools.py"))


@pytest.mark.parametrize("kind, target, settings", [("gymnasium", "FrozenLake-v1", {"reward": "most"})])
async def test_a_wrong_setting_is_said_at_the_start(kind: str, target: str, settings: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match="reward is one of sum, last"):
        await Served(hosted(kind, target), settings).prepare()


async def test_a_scorer_that_cannot_score_at_all_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_gym, "SCORER", "no.such.module")
    async with connect(hosted("reasoning-gym", "leg_counting")) as connection:
        session = await connection.session(split="eval", index=0)
        with pytest.raises(SessionFailed, match="verifier_error"):
            await session.verify(said("<answer>1</answer>"))


@leaves_a_file_open
def test_train_and_eval_share_no_task(families: type[Environment]) -> None:
    train, held_out = ({row.data["task_seed"] for row in families.rows(name, 50, 0)} for name in ("train", "eval"))
    assert not train & held_out


@pytest.mark.parametrize(
    "text, answer",
    [
        ("<answer>a</answer> no: <answer> b </answer>", "b"),
        ("<answer>a</answer> and <answer>b", "a"),
        ("plain", "plain"),
        ("<answer>b", "<answer>b"),
        ("", ""),
    ],
)
def test_the_last_whole_answer_counts(text: str, answer: str) -> None:
    assert reasoning_gym.answer_of(text) == answer
