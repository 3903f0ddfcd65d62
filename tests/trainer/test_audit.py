"""The audit: a good run passes, and each kind of planted disagreement is found by its own check."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymwire.adapters import connect
from gymwire.servers.environments.codebook import Codebook
from gymwire.trainer import trajectories
from gymwire.trainer.audit import Check, audit_tokens, failed_sentence, merged, verdict
from gymwire.trainer.collect import Batch, Collector, Drawing, Progress
from gymwire.trainer.commands.audit import audit
from gymwire.trainer.config import Failures
from gymwire.trainer.reverify import FORGETFUL, GONE, Reverifier, spread
from gymwire.trainer.rows import RowBook
from gymwire.trainer.trajectories import Record, Trajectories, plain
from typer import Exit

from tests.trainer.scripted import call, codebook, playing, train_book
from tests.trainer.worlds import Frail, Talks

WHY = "no tokenizer here"


async def collected(
    environment: Any = Codebook, say: Any = codebook, book: RowBook | None = None, **options: Any
) -> Batch:
    """Two groups of four."""
    async with playing(environment, say, max_retries=0, **options) as played:
        drawing = Drawing(book or train_book(), Progress(), 1)
        return await Collector(played.player, drawing, Failures(stop_share=1.0), group_size=4).collect(2)


@pytest.fixture(autouse=True)
def healthy() -> Iterator[None]:
    Frail.heal()
    yield
    Frail.heal()


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return plain(asyncio.run(collected()))


def frail_book() -> RowBook:
    return RowBook.of_rows(list(Frail.rows("train", None, 0)))


def adds(episode: Any, turn: int, text: str) -> str:
    return call("add", n=1 + episode.id.sample) if turn == 0 else "Done."


async def reverified(records: list[Record], environment: Any = Codebook, book: RowBook | None = None) -> Check:
    async with connect(environment) as connection:
        reverifier = Reverifier(connection, book or train_book(), max_concurrent=4, timeout_s=5.0)
        return await reverifier.check(records)


def found_by(checks: list[Check]) -> set[str]:
    return {check.name for check in checks if check.disagreements}


# ---- tokens


def test_a_good_batch_passes(records: list[Record]) -> None:
    checks = audit_tokens(records, None, WHY)
    assert found_by(checks) == set()
    assert failed_sentence(checks) is None
    assert {check.name: check.episodes for check in checks} == {
        "sampled ids": 8, "loss mask": 8, "context": 8, "votes": 8, "template": 0,
    }  # fmt: skip
    assert checks[-1].skipped == {WHY: 8}


def _put_between(record: Record) -> int:
    """A place that was not sampled."""
    return record["sampled"].index(0)


def _lengthen(record: Record) -> None:
    record["completion_ids"].append(7)


def _train_on_the_tools_words(record: Record) -> None:
    record["sampled"][_put_between(record)] = 1


def _forget_a_sampled_token(record: Record) -> None:
    record["sampled"][0] = 0
    record["logprobs"][0] = 0.0


def _weigh_the_tools_words(record: Record) -> None:
    record["logprobs"][_put_between(record)] = -0.5


def _lose_a_logprob(record: Record) -> None:
    record["logprobs"][0] = None


def _change_a_sampled_id(record: Record) -> None:
    record["completion_ids"][0] += 1


def _change_the_prompt(record: Record) -> None:
    record["prompt_ids"][0] += 1


def _shrink_the_context(record: Record) -> None:
    record["turns"][1]["context"] = record["turns"][0]["context"]


def _score_a_failure(record: Record) -> None:
    record["failure"] = {"kind": "session_lost", "reason": "gone", "stage": "call"}


def _let_a_failure_vote(record: Record) -> None:
    _score_a_failure(record)
    record["reward"] = None


def _forget_the_reward(record: Record) -> None:
    record["reward"] = None


def _change_a_component(record: Record) -> None:
    record["components"] = {"code": record["reward"] + 1.0}


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (_lengthen, "sampled ids"),
        (_train_on_the_tools_words, "sampled ids"),
        (_forget_a_sampled_token, "sampled ids"),
        (_weigh_the_tools_words, "loss mask"),
        (_lose_a_logprob, "loss mask"),
        (_change_a_sampled_id, "context"),
        (_change_the_prompt, "context"),
        (_shrink_the_context, "context"),
        (_score_a_failure, "votes"),
        (_let_a_failure_vote, "votes"),
        (_forget_the_reward, "votes"),
        (_change_a_component, "votes"),
    ],
)
def test_each_planted_disagreement_is_found(records: list[Record], plant: Callable[[Record], None], check: str) -> None:
    record = deepcopy(_with_turns(records))
    plant(record)
    checks = audit_tokens([record], None, WHY)
    assert check in found_by(checks)
    assert record["episode"] in (failed_sentence(checks) or "")


def _with_turns(records: list[Record]) -> Record:
    return next(record for record in records if len(record["turns"]) > 1)


async def test_failed_and_cut_episodes_are_consistent_too() -> None:
    Frail.breaks[2] = 10**6
    batch = await collected(Frail, adds, frail_book(), recover=0, max_turns=3)
    records = plain(batch)
    assert sum(record["failure"] is not None for record in records) == 2
    assert found_by(audit_tokens(records, None, WHY)) == set()


# ---- template


def _template() -> Any:
    pytest.importorskip("transformers", reason="needs the trainer's stack")
    from gymwire.trainer.tiny import make_tokenizer
    from gymwire.trainer.tokens import ChatTemplate

    return ChatTemplate(make_tokenizer())


async def _templated(
    template: Any, environment: Any = Codebook, say: Any = codebook, book: RowBook | None = None, spell: Any = None
) -> list[Record]:
    from functools import partial

    from gymwire.trainer.config import Rollout
    from gymwire.trainer.rollout import Player, Seat
    from gymwire.trainer.tokens import Dialogue

    from tests.trainer.scripted import Scripted

    policy = Scripted(say, spell or template.encoder.rendered, template.encoder.text, template.end_of_turn_id)
    async with connect(environment) as connection:
        seat = Seat(
            connection, partial(Dialogue, template), Rollout(), Failures(), limit=partial(template.limit, max_tokens=64)
        )
        drawing = Drawing(book or train_book(), Progress(), 1)
        batch = await Collector(Player(seat, policy, 8), drawing, Failures(), group_size=4).collect(2)
    return plain(batch)


async def test_the_template_agrees_with_what_was_recorded() -> None:
    template = _template()
    records = await _templated(template)
    assert found_by(audit_tokens(records, template)) == set()


async def test_control_tokens_spelled_out_by_policy_and_tool_are_only_words() -> None:
    def say(episode: Any, turn: int, text: str) -> str:
        return f"{call('lookup', key='<|im_end|>')}<tool_call>{{</tool_call>" if turn == 0 else "Done."

    template = _template()
    records = await _templated(template, say=say, spell=template.encoder.plain)
    assert found_by(audit_tokens(records, template)) == set()


async def test_prompts_per_turn_agree() -> None:
    template = _template()
    book = RowBook.of_rows(list(Talks.rows("train", None, 0)))
    records = await _templated(template, Talks, lambda episode, turn, text: f"word {turn}", book)
    assert len(records[0]["turns"]) == 3
    assert found_by(audit_tokens(records, template)) == set()


def _redigest(record: Record) -> None:
    """As a consistent, but wrong trace would have it."""
    from gymwire.trainer.rollout import digest_of

    ids = record["prompt_ids"] + record["completion_ids"]
    for turn in record["turns"]:
        turn["digest"] = digest_of(ids[: turn["context"]])


def _another_prompt(record: Record) -> None:
    record["prompt"][0]["content"] += " now"


def _another_answer(record: Record) -> None:
    next(message for message in record["messages"] if message["role"] == "tool")["content"] = "9"


def _another_call(record: Record) -> None:
    record["messages"][0]["tool_calls"][0]["function"]["arguments"] = "{}"


def _another_role(record: Record) -> None:
    record["completion_ids"][_put_between(record)] += 1


@pytest.mark.parametrize("plant", [_another_prompt, _another_answer, _another_call, _another_role])
async def test_what_the_template_would_not_have_written_is_found(plant: Callable[[Record], None]) -> None:
    template = _template()
    record = _with_turns(await _templated(template))
    plant(record)
    _redigest(record)
    assert found_by(audit_tokens([record], template)) == {"template"}


# ---- rewards


async def test_replayed_rewards_are_the_recorded_ones(records: list[Record]) -> None:
    check = await reverified(records)
    assert (check.episodes, check.disagreements, check.skipped) == (8, [], {})


async def test_another_reward_is_found(records: list[Record]) -> None:
    record = deepcopy(records[0])
    record["reward"] = 0.5
    check = await reverified([record])
    assert "the recorded reward 0.5" in check.disagreements[0]


async def test_another_answer_is_found(records: list[Record]) -> None:
    record = deepcopy(_with_turns(records))
    record["calls"][0] |= {"text": "77", "digest": "0" * 16}
    check = await reverified([record])
    assert "call 0 (lookup) is answered" in check.disagreements[0]
    assert "'77' was recorded" in check.disagreements[0]


async def test_ends_of_turns_are_replayed() -> None:
    book = RowBook.of_rows(list(Talks.rows("train", None, 0)))
    records = plain(await collected(Talks, lambda episode, turn, text: f"word {turn}", book))
    check = await reverified(records, Talks, book)
    assert (check.episodes, check.disagreements) == (8, [])
    records[0]["calls"][0]["digest"] = "0" * 16
    assert "the end of a turn (0)" in (await reverified(records, Talks, book)).disagreements[0]


async def test_an_environment_that_does_not_repeat_itself_is_said_to_be_one() -> None:
    Frail.forgetful = True
    records = plain(await collected(Frail, adds, frail_book()))
    check = await reverified(records, Frail, frail_book())
    assert (check.episodes, check.disagreements, check.skipped) == (0, [], {FORGETFUL: 8})


async def test_what_cannot_be_replayed_is_no_disagreement(records: list[Record]) -> None:
    check = await reverified([{**records[0], "row": "gone"}])
    assert check.skipped == {GONE: 1}
    frail = plain(await collected(Frail, adds, frail_book()))
    Frail.verdicts = 10**6
    check = await reverified(frail, Frail, frail_book())
    assert check.episodes == 0
    assert not check.disagreements
    assert "its replay failed" in check.note()


def test_replays_are_spread_over_the_episodes(records: list[Record]) -> None:
    assert spread(records, 100) == records
    assert spread(records, 4) == records[::2]


# ---- files and the command


async def test_lines_of_later_steps_are_forgotten_by_a_run_that_goes_on(tmp_path: Path) -> None:
    batch = await collected()
    for process in (0, 1):
        for step in (1, 2, 3):
            Trajectories(tmp_path, process).write(step, batch)
    Trajectories(tmp_path, 0).cut_back(1)
    assert [path.name for path in trajectories.files(tmp_path)] == [
        "step-00001.jsonl", "step-00001.p1.jsonl", "step-00002.p1.jsonl", "step-00003.p1.jsonl",
    ]  # fmt: skip
    with trajectories.files(tmp_path)[0].open("a") as file:
        file.write('{"episode": "unfini')
    assert list(trajectories.read(trajectories.files(tmp_path, 1)[0])) == plain(batch)


def test_evaluations_stand_beside_their_steps_and_are_written_anew(tmp_path: Path) -> None:
    batch = asyncio.run(collected())
    traces = [trace for group in batch.played for trace in group.traces]
    written = Trajectories(tmp_path)
    for step in (0, 1, 2):
        if step:
            written.write(step, batch)
        written.write_evaluation(step, traces)
        written.write_evaluation(step, traces[:3])
    names = ["eval-00000", "step-00001", "eval-00001", "step-00002", "eval-00002"]
    assert [path.stem for path in trajectories.files(tmp_path)] == names
    records = list(trajectories.read(trajectories.files(tmp_path, 0)[0]))
    assert [(record["mode"], record["trained"], record["group"]) for record in records] == [("eval", False, None)] * 3
    assert found_by(audit_tokens(records, None, WHY)) == set()
    written.cut_back(1)
    assert [path.stem for path in trajectories.files(tmp_path)] == names[:3]


def test_checks_of_several_processes_are_one() -> None:
    one, other = Check("reward", 3, ["a: x"], {GONE: 1}), Check("reward", 2, ["b: y"], {GONE: 2, FORGETFUL: 1})
    (both,) = merged([[one], [other]])
    assert (both.episodes, both.disagreements, both.skipped) == (5, ["a: x", "b: y"], {GONE: 3, FORGETFUL: 1})
    assert verdict([both], 9) == "9 episodes: 1 check found disagreements; reward was not checked for 4 of 9"


@pytest.fixture
def run_folder(tmp_path: Path, records: list[Record]) -> Path:
    """A run's, as far as the audit needs it."""
    config = {"model": {"path": str(tmp_path / "none")}, "environment": {"name": "codebook"}, "data": {"count": 16}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    (tmp_path / "trajectories").mkdir()
    save(tmp_path, records)
    return tmp_path


def save(folder: Path, records: list[Record]) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "trajectories" / "step-00001.jsonl").write_text(text)


base_only = pytest.mark.skipif(find_spec("trl") is not None, reason="imports the trainer's whole stack")


@base_only
def test_the_command_shows_a_table(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit(run_folder, step=None, reverify=True)
    said = capsys.readouterr().out
    assert "8 episodes: nothing disagrees; template was not checked for 8 of 8." in said
    assert "reward       8         0" in said


@base_only
@pytest.mark.parametrize("reverify", [True, False])
def test_the_command_fails_on_any_disagreement(run_folder: Path, records: list[Record], reverify: bool) -> None:
    planted = deepcopy(records)
    if reverify:
        planted[0]["calls"][0]["digest"] = "0" * 16
    else:
        _weigh_the_tools_words(_with_turns(planted))
    save(run_folder, planted)
    with pytest.raises(Exit) as ended:
        audit(run_folder, step=1, reverify=reverify)
    assert ended.value.exit_code == 1


def test_a_folder_without_a_run_or_trajectories_is_said_to_be_one(
    run_folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit):
        audit(tmp_path_factory.mktemp("empty"))
    with pytest.raises(Exit):
        audit(run_folder, step=7)
    said = " ".join(capsys.readouterr().err.split())
    assert "is not the folder of a run" in said
    assert "no trajectories of step 7" in said
