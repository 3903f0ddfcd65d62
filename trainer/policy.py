"""Warm-starts the tiny policy on scripted transcripts of `codebook`, so that GRPO has something to choose from.

First clean scripts until they are learned: both keys are looked up and the right code is submitted. Then noisy ones,
in which most submit at once: behaviour that must work belongs into the first stage, for what is in the second alone
is copied in form and not in content. A policy that wins between a tenth and half of the held-out rows has room to
learn and enough luck to learn from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from ..adapters.calls import call_for_history, result_for_history
from ..adapters.connect import connect
from ..adapters.session import Session
from ..servers.environments.codebook import KEYS, NO_SUCH_KEY, Codebook, draw, prompt_of
from ..servers.types import Message, Row
from .tiny import END, END_OF_TEXT, make_model, make_tokenizer
from .tokens import ChatTemplate, Dialogue

BATCH = 64
CLEAN_RATE, NOISY_RATE = 2e-3, 1e-3
CLEAN_LOSS, CLEAN_STEPS = 0.02, 200  # until the smoothed loss is below, at most so many steps
NOISY_STEPS = 60
#: How many of the noisy scripts look up no key, or one; the others look up both.
NO_LOOKUP, ONE_LOOKUP = 0.54, 0.16
WRONG_KEY, WRONG_DIGIT = 0.02, 0.05
#: Success on held-out rows that leaves GRPO something to learn and something to learn from.
USEFUL = (0.1, 0.5)
TURN_TOKENS = 24
IGNORED = -100

#: Told of every step: the stage, how far it is (0 to 1), and the loss.
OnStep = Callable[[str, float, float], None]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What came of it. `success` is the share of held-out rows won, sampling at temperature 1."""

    parameters: int
    clean_steps: int
    seconds: float
    success: float

    @property
    def useful(self) -> bool:
        return USEFUL[0] <= self.success <= USEFUL[1]


def build(
    out: Path, *, seed: int = 0, tied: bool = True, on_step: OnStep = lambda stage, done, loss: None
) -> WarmStart:
    """Make the tokenizer and the model, warm-start it, measure it, and save both under `out`."""
    started = perf_counter()
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, seed=seed, tied=tied)
    clean_steps = warm_start(model, ChatTemplate(tokenizer), Random(f"policy:{seed}"), on_step)
    rows = list(Codebook.rows("eval", None, 0))
    success = held_out_success(model, tokenizer, rows, seed=seed)
    on_step("held out", 1.0, 0.0)
    save(model, tokenizer, out)
    parameters = sum(weights.numel() for weights in model.parameters())
    return WarmStart(parameters, clean_steps, perf_counter() - started, success)


def save(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


# Training


def warm_start(model: Qwen3ForCausalLM, template: ChatTemplate, rng: Random, on_step: OnStep) -> int:
    """Both stages; answers how many steps the clean one took."""
    write = Writer(template)
    optimizer = torch.optim.AdamW(model.parameters(), lr=CLEAN_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    model.train()
    smoothed, clean_steps = 4.0, 0
    while smoothed > CLEAN_LOSS and clean_steps < CLEAN_STEPS:
        loss = _step(model, optimizer, [write(_clean(row, rng)) for row in _rows(rng)])
        smoothed += (loss - smoothed) * 0.2
        clean_steps += 1
        on_step("clean", clean_steps / CLEAN_STEPS, smoothed)
    on_step("clean", 1.0, smoothed)
    for step in range(NOISY_STEPS):
        optimizer.param_groups[0]["lr"] = NOISY_RATE * (1 - step / NOISY_STEPS)
        loss = _step(model, optimizer, [write(_noisy(row, rng)) for row in _rows(rng)])
        on_step("noisy", (step + 1) / NOISY_STEPS, loss)
    model.eval()
    return clean_steps


def _rows(rng: Random) -> Iterator[Row]:
    """A batch of tasks, none with a pair of keys that is held out."""
    return (draw(rng, index, held_out=False) for index in range(BATCH))


def _step(model: Qwen3ForCausalLM, optimizer: torch.optim.Optimizer, batch: Sequence[Transcribed]) -> float:
    """One update; transcripts of one length go through the model together, so nothing is padded."""
    by_length: dict[int, list[Transcribed]] = {}
    for transcribed in batch:
        by_length.setdefault(len(transcribed[0]), []).append(transcribed)
    labelled = sum(label != IGNORED for _, labels in batch for label in labels)
    total = 0.0
    for part in by_length.values():
        ids_BT, labels_BT = (torch.tensor(rows) for rows in zip(*part, strict=True))
        logits_BTV = model(input_ids=ids_BT).logits[:, :-1]
        loss = cross_entropy(logits_BTV.flatten(0, 1), labels_BT[:, 1:].flatten(), reduction="sum") / labelled
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    return total


# Scripts


@dataclass(frozen=True, slots=True)
class Script:
    """What a scripted policy did: keys it looked up with what came back, then the code it submitted."""

    keys: tuple[str, str]
    lookups: tuple[tuple[str, str], ...]
    code: tuple[int, int]


Transcribed = tuple[list[int], list[int]]


def _clean(row: Row, rng: Random) -> Script:
    keys, digits = row.data["keys"], row.data["digits"]
    return Script(tuple(keys), tuple(zip(keys, map(str, digits), strict=True)), tuple(digits))


def _noisy(row: Row, rng: Random) -> Script:
    keys, digits = row.data["keys"], row.data["digits"]
    kind = rng.random()
    asked = [] if kind < NO_LOOKUP else [rng.randrange(2)] if kind < NO_LOOKUP + ONE_LOOKUP else [0, 1]
    code = [rng.randint(0, 9), rng.randint(0, 9)]
    lookups = []
    for place in asked:
        key = rng.choice(KEYS) if rng.random() < WRONG_KEY else keys[place]
        if key in keys:
            seen = digits[keys.index(key)]
            code[place] = rng.randint(0, 9) if rng.random() < WRONG_DIGIT else seen
            lookups.append((key, str(seen)))
        else:
            lookups.append((key, NO_SUCH_KEY))
    return Script(tuple(keys), tuple(lookups), (code[0], code[1]))


class Writer:
    """Writes scripts as ids and labels; only what the policy would have sampled has a label."""

    def __init__(self, template: ChatTemplate) -> None:
        tools = [spec.tool for spec in Codebook.tool_specs.values()]
        self._prompt = cache(lambda *keys: template.prompt([{"role": "user", "content": prompt_of(*keys)}], tools))
        self._turn = cache(lambda name, *arguments: template.turn(_turn_of(name, dict(arguments))))
        self._answer = cache(lambda text: template.between([{"role": "tool", "content": text}]))

    def __call__(self, script: Script) -> Transcribed:
        ids = list(self._prompt(*script.keys))
        labels = [IGNORED] * len(ids)
        for key, answer in script.lookups:
            turn, between = self._turn("lookup", ("key", key)), self._answer(answer)
            ids += [*turn, *between]
            labels += [*turn, *[IGNORED] * len(between)]
        turn = self._turn("submit", ("first", script.code[0]), ("second", script.code[1]))
        return ids + turn, labels + turn


def _turn_of(name: str, arguments: dict[str, Any]) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [call_for_history(name, arguments, "0", objects=True)]}


# Measuring


def held_out_success(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Row], *, seed: int = 0
) -> float:
    """The mean reward over rows, sampling at temperature 1 in the environment itself."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return asyncio.run(_play(model, tokenizer, rows))


async def _play(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, rows: Sequence[Row]) -> float:
    template = ChatTemplate(tokenizer)
    async with connect(Codebook) as environment:
        sessions = [await environment.session(row=row) for row in rows]
        playing = [(session, Dialogue(template, session.prompt, session.tools)) for session in sessions]
        for _ in range(Codebook.max_turns or 1):
            turns = _sample(model, tokenizer, [dialogue.ids for _, dialogue in playing])
            acted = [
                await _act(session, dialogue, ids) for (session, dialogue), ids in zip(playing, turns, strict=True)
            ]
            playing = [pair for pair, goes_on in zip(playing, acted, strict=True) if goes_on]
            if not playing:
                break
        outcomes = [await session.verify() for session in sessions]
        return sum(outcome.reward or 0.0 for outcome in outcomes) / len(outcomes)


async def _act(session: Session, dialogue: Dialogue, ids: list[int]) -> bool:
    """Do what a turn says; False where the episode ends with it."""
    text = dialogue.append_sampled(ids, [0.0] * len(ids))
    calls = dialogue.parse(text).calls if dialogue.turn_ended else ()
    answers: list[Message] = []
    for number, call in enumerate(calls):
        if call.error:
            answers.append({"role": "tool", "content": call.error})
            continue
        result = await session.call(call.name, call.arguments)
        if session.done:
            return False
        answers.append(result_for_history(result, str(number)))
    return bool(answers) and bool(dialogue.append_messages(answers))


@torch.inference_mode()
def _sample(model: Any, tokenizer: PreTrainedTokenizerFast, prompts: Sequence[list[int]]) -> list[list[int]]:
    """A turn for each prompt."""
    ids = tokenizer.get_vocab()
    width, pad = max(map(len, prompts)), ids[END_OF_TEXT]
    padded_BT = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in prompts])
    mask_BT = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    drawn_BT = model.generate(input_ids=padded_BT, attention_mask=mask_BT, max_new_tokens=TURN_TOKENS)
    return [_until(row, ids[END]) for row in drawn_BT[:, width:].tolist()]


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end) + 1] if end in ids else ids
