"""C20, X10, X11, X12, by table: failed sessions in groups and divisors, ids turn by turn, episodes that were cut."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

WHY = "needs the trainer's stack"
torch = pytest.importorskip("torch", reason=WHY)
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from gymwire.adapters import connect  # noqa: E402
from gymwire.adapters.calls import call_for_history  # noqa: E402
from gymwire.servers.environments.codebook import Codebook  # noqa: E402
from gymwire.servers.types import Ending, Message  # noqa: E402
from gymwire.trainer.collect import Batch, Group  # noqa: E402
from gymwire.trainer.config import Failures, Rollout  # noqa: E402
from gymwire.trainer.grpo import Sample  # noqa: E402
from gymwire.trainer.rollout import Episode, Player, Seat, Trace  # noqa: E402
from gymwire.trainer.samples import samples_of  # noqa: E402
from gymwire.trainer.tiny import make_tokenizer  # noqa: E402
from gymwire.trainer.tokens import ChatTemplate, Dialogue  # noqa: E402

from tests.trainer import chat  # noqa: E402
from tests.trainer.exact import Case, Run, play  # noqa: E402
from tests.trainer.reference import apart, gradients  # noqa: E402
from tests.trainer.scripted import Turn, train_book  # noqa: E402
from tests.trainer.tiny import EOS, save_model  # noqa: E402

TABLE = {
    made["id"]: made["input"]
    for made in map(json.loads, Path(__file__).with_name("cases.jsonl").read_text(encoding="utf-8").splitlines())
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def group(rewards: Sequence[float], failed: Sequence[int], lengths: Sequence[int]) -> tuple[Sample, ...]:
    """One group whose completions differ in their first token."""
    return tuple(
        Sample(
            prompt_ids=[2, 3],
            completion_ids=[10 + at, *[20] * (length - 2), EOS],
            sampled=[1] * length,
            logprobs=[-4.0] * length,
            rewards=None if broken else [float(reward)],
        )
        for at, (reward, broken, length) in enumerate(zip(rewards, failed, lengths, strict=True))
    )


def one_batch(case: Case, model: Path, folder: Path) -> tuple[Run, dict[str, Any]]:
    run = play(case, model, folder)
    (batch,) = run.batches
    return run, batch


@pytest.mark.parametrize("row", TABLE["C20"], ids=lambda row: f"{row['scale']}-{row['rewards']}")
def test_c20_a_failed_member_does_not_vote(row: dict[str, Any], model: Path, tmp_path: Path) -> None:
    given = group(row["rewards"], row["failed"], [5, 6, 7, 8])
    case = Case(given=given, micro=4, per_generation=1, accumulation=1, trl={"scale_rewards": row["scale"]})
    _, batch = one_batch(case, model, tmp_path)
    first, advantages = batch["completion_ids"][:, 0].tolist(), batch["advantages"].tolist()
    found = dict(zip(first, advantages, strict=True))
    assert [found.get(10 + at, 0) for at in range(4)] == pytest.approx(row["want"], abs=2e-4)
    (lost,) = [at for at, token in enumerate(first) if token < 10]
    assert advantages[lost] == 0
    assert (batch["completion_mask"] * batch["tool_mask"])[lost].sum() == 0


def test_x10_a_failed_row_is_no_part_of_the_divisor(model: Path, tmp_path: Path) -> None:
    row = TABLE["X10"]
    given = group([1, 0, 0, 1], row["failed"], row["completion_tokens"])
    case = Case(
        loss_type=row["loss_type"],
        given=given,
        micro=4,
        per_generation=1,
        accumulation=1,
        trl={"beta": 0.1, "max_completion_length": 1000},
    )
    run, batch = one_batch(case, model, tmp_path)
    assert int(batch["num_items_in_batch"]) == row["want"]
    (wanted,) = gradients(case, [run], model)
    assert wanted is not None and apart(run.windows[0].gradient, wanted) < 1e-5


# ---- turns


def template_named(name: str) -> ChatTemplate:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = getattr(chat, name, tokenizer.chat_template)
    return ChatTemplate(tokenizer)


@dataclass(frozen=True)
class Written:
    """A policy that says the table's turns as the template writes them; past `max_tokens` it is cut like an engine."""

    template: ChatTemplate
    turns: Sequence[dict[str, Any]]

    def ids(self, turn: int, prompt: str) -> list[int]:
        return self.template.turn(self.message(self.turns[turn], prompt))

    def message(self, said: dict[str, Any], prompt: str) -> Message:
        if "say" in said:
            return {"role": "assistant", "content": said["say"]}
        found = re.findall(r"code of (\w+) and (\w+),", prompt)[-1]
        keys = dict(zip(("first", "second"), found, strict=True))
        name, arguments = said["call"]
        call = call_for_history(name, {key: keys[value] for key, value in arguments.items()}, "c0", objects=True)
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    async def turn(self, episode: Episode, turn: int, ids: Sequence[int], max_tokens: int) -> Turn:
        said = self.ids(turn, self.template.encoder.text(ids))
        reason = "stop" if len(said) <= max_tokens else "length"
        return Turn(said[:max_tokens], [-0.5] * len(said[:max_tokens]), reason)


async def played(policy: Written, **limits: int) -> Trace:
    book = train_book(1)
    async with connect(Codebook) as connection:
        seat = Seat(connection, partial(Dialogue, policy.template), Rollout(**limits), Failures())
        return await Player(seat, policy, 1).play(book.episode(book.names[0]))


def with_objects(message: Message) -> Message:
    """Arguments of calls as templates want them."""
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls} if calls else message


@pytest.mark.parametrize("name", TABLE["X11"]["templates"])
async def test_x11_ids_turn_by_turn_are_those_of_the_rendered_dialogue(name: str) -> None:
    template, turns = template_named(name), TABLE["X11"]["turns"]
    trace = await played(Written(template, turns))
    assert [message["role"] for message in trace.messages] == ["assistant", "tool"] * 2 + ["assistant"]
    dialogue = [with_objects(message) for message in [*trace.prompt, *trace.messages[:-1]]]
    text = str(
        template.tokenizer.apply_chat_template(
            dialogue, tools=list[Any](trace.tools), tokenize=False, add_generation_prompt=True
        )
    )
    assert text.count(f"{template.end_of_turn}\n") == text.count(template.end_of_turn)
    rendered = template.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert trace.prompt_ids + trace.completion_ids == rendered + template.turn(trace.messages[-1])


# ---- cuts


@pytest.mark.parametrize("row", TABLE["X12"], ids=lambda row: row["cut"])
async def test_x12_a_cut_episode_is_known_as_cut(row: dict[str, Any]) -> None:
    template = template_named("TINY")
    policy = Written(template, TABLE["X11"]["turns"])
    first = len(policy.ids(0, train_book(1).episode(train_book(1).names[0]).row.prompt[0]["content"]))  # type: ignore[union-attr]
    named: dict[Any, Any] = {"the first turn and 3": first + 3, "the first turn without 2": first - 2}
    trace = await played(policy, **{key: named.get(value, value) for key, value in row["limits"].items()})
    assert trace.outcome is not None
    assert (trace.outcome.ending, trace.reward) == (Ending.CUT, 0.0)
    assert (len(trace.steps), trace.turns) == (row["calls"], 1)
    assert (trace.completion_ids[-1] == template.end_of_turn_id) is row["ends_a_turn"]
    group = Group("row", [trace])
    for mask_cut in (False, True):
        [sample] = samples_of(Batch([group], 0, [group]), None, mask_cut=mask_cut, stub_id=0)
        assert any(sample.sampled) is not mask_cut
        assert sample.rewards == [0.0]


def test_x12_trl_does_not_judge_by_the_last_token(model: Path, tmp_path: Path) -> None:
    """An episode that ended with a token that TRL does not know keeps its loss; a cut one that ends well has none."""
    ended, cut = group([1, 0, 1, 0], [0, 0, 0, 0], [5, 6, 7, 8]), (1, 2)
    samples = []
    for at, sample in enumerate(ended):
        ids, mask = list(sample.completion_ids), [0 if at in cut else 1] * len(sample.completion_ids)
        samples.append(
            Sample(sample.prompt_ids, ids if at in cut else [*ids[:-1], 30], mask, sample.logprobs, sample.rewards)
        )
    options = {"mask_truncated_completions": True}
    case = Case(given=tuple(samples), micro=4, per_generation=1, accumulation=1, trl=options)
    _, batch = one_batch(case, model, tmp_path)
    firsts = batch["completion_ids"][:, 0].tolist()
    trained = (batch["completion_mask"] * batch["tool_mask"]).sum(1).tolist()
    assert {first - 10: count for first, count in zip(firsts, trained, strict=True)} == {0: 5, 1: 0, 2: 0, 3: 8}
