"""A random Qwen3 of a few thousand parameters, a tokenizer of letters, and made-up rollouts of groups."""

from __future__ import annotations

import random
import string
from collections.abc import Collection
from pathlib import Path

import torch
from gymwire.trainer.grpo import Sample
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

PAD, EOS = 0, 1
WORDS = ["<pad>", "<eos>", *string.ascii_letters]
#: Generations a group.
GROUP = 4


def save_model(folder: Path) -> Path:
    torch.manual_seed(11)
    config = Qwen3Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        initializer_range=0.2,
        tie_word_embeddings=True,
        max_position_embeddings=128,
        pad_token_id=PAD,
        bos_token_id=None,
        eos_token_id=EOS,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def rollouts(rows: int, failed: Collection[int], seed: int, components: int) -> list[Sample]:
    """`rows` rollouts, each unlike all others, with tokens of tools between those of the policy."""
    draw = random.Random(seed)
    prompts = [_words(draw, 3, 7) for _ in range(rows // GROUP)]
    made = [_rollout(draw, prompts[row // GROUP], components) for row in range(rows)]
    return [_broken(sample) if row in failed else sample for row, sample in enumerate(made)]


def _rollout(draw: random.Random, prompt: list[int], components: int) -> Sample:
    called, told, said = _words(draw, 3, 6), _words(draw, 1, 4), [*_words(draw, 2, 6), EOS]
    sampled = [1] * len(called) + [0] * len(told) + [1] * len(said)
    return Sample(
        prompt_ids=prompt,
        completion_ids=called + told + said,
        sampled=sampled,
        logprobs=[-draw.uniform(3.5, 4.5) if chosen else 0.0 for chosen in sampled],
        rewards=[draw.randrange(33) / 16 for _ in range(components)],
    )


def _broken(sample: Sample) -> Sample:
    """A session that failed late: everything but the reward is there, and must not matter."""
    return Sample(sample.prompt_ids, [*sample.completion_ids] * 3, [*sample.sampled] * 3, [-9.0] * 3, rewards=None)


def _words(draw: random.Random, least: int, most: int) -> list[int]:
    return [draw.randrange(2, len(WORDS)) for _ in range(draw.randint(least, most))]
