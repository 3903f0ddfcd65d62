"""The token audit: whether a run's traces hold together. Each check reads recorded episodes and names what disagrees.

- *sampled ids*: ids, mask and log-probabilities have one entry a token, and the mask marks what the engine sampled.
- *loss mask*: what was not sampled has log-probability 0; what was sampled has a real one.
- *context*: every turn was asked for with exactly the ids that stand before it: they were only appended.
- *votes*: a failed episode has no reward and no part in the update; the components of a reward sum to it.
- *template*: prompt and everything put between turns is what the model's chat template makes of the messages, the
  special tokens of the whole dialogue, rendered at once, are the same position by position, and the recorded messages
  are what the sampled ids say.
- *reward* (see `reverify`): the recorded calls, made again on a fresh session, are answered alike and score the same.

Only *template* needs a tokenizer; nothing here needs torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import fsum, isclose, isfinite
from typing import TYPE_CHECKING, Any

from ..servers.types import Message, Tool
from ..servers.wording import counted
from .rollout import digest_of
from .trajectories import Record

if TYPE_CHECKING:
    from .templates import ChatTemplate

#: Disagreements that a sentence names.
NAMED = 3


@dataclass(slots=True)
class Check:
    """One check over many episodes. `skipped` says why it was not made, for how many episodes each."""

    name: str
    episodes: int = 0
    disagreements: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str, count: int = 1) -> None:
        self.skipped[why] = self.skipped.get(why, 0) + count

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.name,
            "episodes": self.episodes,
            "disagreements": self.disagreements,
            "not_checked": self.skipped,
        }

    @property
    def not_checked(self) -> int:
        return sum(self.skipped.values())

    def add(self, other: Check) -> None:
        """The same check over further episodes."""
        self.episodes += other.episodes
        self.disagreements += other.disagreements
        for why, count in other.skipped.items():
            self.skip(why, count)

    def note(self) -> str:
        """What a table says beside the numbers."""
        said = self.disagreements[:NAMED]
        more = len(self.disagreements) - len(said)
        said += [f"and {more} more"] if more > 0 else []
        return "\n".join([*said, *(f"{count} not checked: {why}" for why, count in self.skipped.items())])


def failed_sentence(checks: Iterable[Check]) -> str | None:
    """All disagreements in one sentence; None where there is none."""
    said = [(check.name, check.disagreements) for check in checks if check.disagreements]
    return "; ".join(f"{name}: {len(found)} ({found[0]})" for name, found in said) or None


def merged(parts: Sequence[Sequence[Check]]) -> list[Check]:
    """The checks of several processes, each over all of their episodes."""
    first, *others = parts
    for checks in others:
        for check, other in zip(first, checks, strict=True):
            check.add(other)
    return list(first)


def verdict(checks: Sequence[Check], episodes: int) -> str:
    """What all checks came to, in one sentence that also says what they did not reach."""
    bad = sum(bool(check.disagreements) for check in checks)
    found = f"{counted(bad, 'check')} found disagreements" if bad else "nothing disagrees"
    left = [
        f"{check.name} was not checked for {check.not_checked} of {check.episodes + check.not_checked}"
        for check in checks
        if check.not_checked
    ]
    return f"{counted(episodes, 'episode')}: " + "; ".join([found, *left])


def audit_tokens(records: Iterable[Record], template: ChatTemplate | None, why_no_template: str = "") -> list[Check]:
    """Every check that needs no environment."""
    named: dict[str, Callable[[Record], Iterator[str]]] = {
        "sampled ids": sampled_ids,
        "loss mask": loss_mask,
        "context": context,
        "votes": votes,
    }
    checks = {name: Check(name) for name in (*named, "template")}
    for record in records:
        for name, check in named.items():
            _add(checks[name], record, check(record))
        if template is None:
            checks["template"].skip(why_no_template)
        else:
            _add(checks["template"], record, template_agreement(record, template))
    return list(checks.values())


def _add(check: Check, record: Record, found: Iterator[str]) -> None:
    check.episodes += 1
    first = next(found, None)
    if first is not None:
        check.disagreements.append(f"{name_of(record)}: {first}")


def name_of(record: Record) -> str:
    """The episode, and where it stands if it was read from a file."""
    place = record.get("place")
    return str(record["episode"]) if place is None else f"{place}: {record['episode']}"


# ---- ids


def _spans(record: Record) -> list[tuple[int, int]]:
    """Where in the completion each turn's sampled ids stand, as its request says."""
    before = len(record["prompt_ids"])
    starts = [(turn["context"] - before, turn["sampled"]) for turn in record["turns"]]
    return [(start, start + count) for start, count in starts]


def sampled_ids(record: Record) -> Iterator[str]:
    """Lengths, and the mask against what the engine was asked for and sampled."""
    ids, mask, logprobs = record["completion_ids"], record["sampled"], record["logprobs"]
    if not len(ids) == len(mask) == len(logprobs):
        yield f"{len(ids)} ids have {len(mask)} mask entries and {len(logprobs)} log-probabilities"
        return
    expected = [0] * len(ids)
    for number, (start, end) in enumerate(_spans(record)):
        if not 0 <= start <= end <= len(ids):
            yield f"turn {number} was sampled behind the end of the recorded ids"
            return
        expected[start:end] = [1] * (end - start)
    for place, (own, wanted) in enumerate(zip(mask, expected, strict=True)):
        if own != wanted:
            said = "sampled" if wanted else "not sampled"
            yield f"token {place} of the completion was {said}, and its mask is {own}"


def loss_mask(record: Record) -> Iterator[str]:
    for place, (own, logprob) in enumerate(zip(record["sampled"], record["logprobs"], strict=False)):
        if not own and logprob != 0:
            yield f"token {place} of the completion carries no loss, and its log-probability is {logprob}"
        if own and (not isinstance(logprob, int | float) or not isfinite(logprob) or logprob > 1e-6):
            yield f"token {place} of the completion was sampled, and its log-probability is {logprob}"


def context(record: Record) -> Iterator[str]:
    """Whether each turn's request was the dialogue up to there, which never shrinks."""
    ids = record["prompt_ids"] + record["completion_ids"]
    reached = len(record["prompt_ids"])
    for number, turn in enumerate(record["turns"]):
        if number == 0 and turn["context"] != reached:
            yield f"the first turn was asked for with {turn['context']} ids, and the prompt has {reached}"
        if turn["context"] < reached:
            yield f"turn {number} was asked for with {turn['context']} ids, fewer than the {reached} there were"
        if digest_of(ids[: turn["context"]]) != turn["digest"]:
            yield f"turn {number} was asked for with other ids than those recorded before it"
        reached = turn["context"] + turn["sampled"]


def votes(record: Record) -> Iterator[str]:
    reward, components = record["reward"], record["components"]
    if record["failure"] is not None:
        if reward is not None:
            yield f"it failed ({record['failure']['kind']}), and has the reward {reward}"
        if record["trained"]:
            yield f"it failed ({record['failure']['kind']}), and is part of the update"
    elif not isinstance(reward, int | float) or not isfinite(reward):
        yield f"it did not fail, and its reward is {reward}"
    elif components and not isclose(fsum(components.values()), reward, rel_tol=1e-9, abs_tol=1e-9):
        yield f"its components sum to {fsum(components.values())}, and its reward is {reward}"


# ---- template


def template_agreement(record: Record, template: ChatTemplate) -> Iterator[str]:
    """What the template makes of the recorded messages, against the recorded ids."""
    if not record["prompt_ids"]:
        return  # the session never began
    try:
        yield from _agreement(record, template)
    except ValueError as error:  # also what the template refuses
        yield f"its messages cannot be rendered: {error}"


def _agreement(record: Record, template: ChatTemplate) -> Iterator[str]:
    tools = [Tool.from_any(tool) for tool in record["tools"]]
    spans = _spans(record)
    turns, between = _pieces(record, spans)
    if template.prompt(record["prompt"], tools) != record["prompt_ids"]:
        yield "the chat template makes other ids of the prompt than those recorded"
        return
    said, answers = _split(record["messages"])
    if len(said) != len(turns):
        yield f"{len(turns)} turns were sampled, and the messages have {len(said)}"
        return
    for number, (ids, message) in enumerate(zip(turns, said, strict=True)):
        if not _reads_as(template, ids, record["turns"][number]["finish_reason"], number, tools, message):
            yield f"the sampled ids of turn {number} do not say what its message says"
    last = len(turns) - 1
    for number, (ids, after) in enumerate(zip(between, answers, strict=True)):
        wanted = template.between(after) if after and (ids or number < last) else []
        if wanted != ids:
            yield f"the chat template makes other ids of what follows turn {number} than those recorded"
    yield from _whole(record, template, tools, said, between)


def _pieces(record: Record, spans: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    """The completion as turns, and what stands behind each of them."""
    ids = record["completion_ids"]
    ends = [start for start, _ in spans[1:]] + [len(ids)]
    return [ids[start:end] for start, end in spans], [
        ids[end:until] for (_, end), until in zip(spans, ends, strict=True)
    ]


def _split(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """The assistant's messages, and those that follow each."""
    said: list[Message] = []
    after: list[list[Message]] = []
    for own, several in groupby(messages, key=lambda message: message["role"] == "assistant"):
        for message in several:
            if own:
                said.append(message)
                after.append([])
            elif after:
                after[-1].append(message)
    return said, after


def _reads_as(
    template: ChatTemplate, ids: list[int], finish_reason: str, number: int, tools: list[Tool], message: Message
) -> bool:
    text = template.text(ids)
    if finish_reason == "length":
        return message == {"role": "assistant", "content": text}
    parsed = template.parse(text, tools)
    names = [f"call_{number + 1}_{place}" for place in range(len(parsed.calls))]
    return parsed.as_message(names) == message


def _whole(
    record: Record, template: ChatTemplate, tools: list[Tool], said: list[Message], between: list[list[int]]
) -> Iterator[str]:
    """Special tokens of the dialogue up to its last turn, rendered at once, against the recorded ids.

    The policy's turns stand there as the template writes their messages: how it said them is its own affair.
    """
    followed = [number for number, ids in enumerate(between) if ids]
    if not followed:
        return
    control = frozenset(template.encoder.control.values())
    end = _position(record["messages"], followed[-1])
    dialogue = [_for_template(message, template) for message in [*record["prompt"], *record["messages"][:end]]]
    rendered = [index for index in template.prompt(dialogue, tools) if index in control]
    recorded = list(record["prompt_ids"])
    for number in range(followed[-1] + 1):
        recorded += [*template.turn(_for_template(said[number], template)), *between[number]]
    special = [index for index in recorded if index in control]
    for place, (wanted, own) in enumerate(zip(rendered, special, strict=False)):
        if wanted != own:
            names = template.encoder.text([wanted]), template.encoder.text([own])
            yield f"special token {place} of the rendered dialogue is {names[0]}, and the recorded one is {names[1]}"
            return
    if len(rendered) != len(special):
        yield f"the rendered dialogue has {len(rendered)} special tokens, and the recorded one {len(special)}"


def _position(messages: Sequence[Message], turn: int) -> int:
    """Where the messages that follow a turn end."""
    seen = -1
    for place, message in enumerate(messages):
        seen += message["role"] == "assistant"
        if seen > turn:
            return place
    return len(messages)


def _for_template(message: Message, template: ChatTemplate) -> Message:
    """With the arguments of calls as objects, as chat templates want them; the policy's words are only words."""
    if message["role"] != "assistant":
        return message
    calls = [_objects(call) for call in message.get("tool_calls") or ()]
    said = {**message, "tool_calls": calls} if calls else dict(message)
    broken = template.encoder.guard([json.dumps(said, ensure_ascii=False)]).broken
    return {"role": "assistant"} | {key: _deep(value, broken) for key, value in said.items() if key != "role"}


def _objects(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}


def _deep(value: Any, change: Callable[[str], str]) -> Any:
    """Data with every text in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _deep(item, change) for key, item in value.items()}
    return [_deep(item, change) for item in value] if isinstance(value, list) else value
