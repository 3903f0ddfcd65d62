"""A policy that says the same turn whenever it is asked: the tiny model, in which every token names the next.

Attention and the layers between are computed as in any model, but write nothing: the output layer sees the last
token's embedding alone, and gives all probability to the token that follows it in the turn. So the engine works as
hard as for the tiny policy, samples as it does in training, and every turn is as long as the bench wants it and ends
in a call that the parser reads.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import pairwise

import torch
from gymwire.adapters.calls import call_for_history
from gymwire.servers.environments.codebook import KEYS
from gymwire.trainer.tiny import make_model, make_tokenizer
from gymwire.trainer.tokens import ChatTemplate
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

#: The logit of the token that follows; the others' are below a third of it.
LOGIT = 90.0


def make_chain() -> tuple[Qwen3ForCausalLM, PreTrainedTokenizerFast, int]:
    """The model, its tokenizer, and how many tokens a turn has."""
    tokenizer = make_tokenizer()
    template = ChatTemplate(tokenizer)
    call = call_for_history("lookup", {"key": KEYS[0]}, "call_1_0")
    said = {"role": "assistant", "content": string.ascii_letters + string.digits, "tool_calls": [call]}
    turn = template.turn(said)
    before = template.prompt([{"role": "user", "content": "question"}], ())[-1]
    model = make_model(tokenizer, tied=False)
    _chain(model, [before, *turn])
    return model, tokenizer, len(turn)


def _chain(model: Qwen3ForCausalLM, ids: Sequence[int]) -> None:
    if len(set(ids)) != len(ids):
        raise ValueError("a token that stands twice in a turn cannot name the next")
    embeddings, output = model.model.embed_tokens.weight, model.lm_head.weight
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weights.zero_()
        output.zero_()
        for token, following in pairwise(ids):
            direction = embeddings[token] / embeddings[token].norm()
            output[following] = direction * (LOGIT / embeddings.shape[1] ** 0.5)  # the last norm makes all ones of it
