"""A Qwen3-style model of 1.3 million parameters with a tokenizer of its own: a policy for machines without a GPU.

The tokenizer reads any text: bytes, and beside them the words of `codebook`, so that its keys, its tools and what a
call is made of are a token each. Digits are single tokens. The template is ChatML with Hermes tool calls, and
nothing in it changes once it was rendered.
"""

from __future__ import annotations

import re

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from ..servers.environments.codebook import KEYS, NO_SUCH_KEY, Codebook
from ..servers.types import Row

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
CONTEXT = 1024

TEMPLATE = """\
{%- macro signature(tool) %}
    {%- set function = tool.function if tool.function is defined else tool %}
    {{- '\\n' + function.name + '(' + (function.parameters.properties | list | join(', ')) + '): ' }}
    {{- function.description }}
{%- endmacro %}
{%- set has_system = messages[0].role == 'system' %}
{%- if tools or has_system %}
    {{- '<|im_start|>system\\n' + (messages[0].content if has_system else '') }}
    {%- if tools %}
        {{- ('\\n\\n' if has_system else '') + 'Tools:' }}
        {%- for tool in tools %}{{- signature(tool) }}{%- endfor %}
    {%- endif %}
    {{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {{- '<|im_start|>user' if loop.first or messages[loop.index0 - 1].role != 'tool' else '' }}
        {{- '\\n<tool_response>\\n' + message.content + '\\n</tool_response>' }}
        {{- '<|im_end|>\\n' if loop.last or messages[loop.index0 + 1].role != 'tool' else '' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\\n' + (message.content or '') }}
        {%- for call in message.tool_calls or [] %}
            {{- '\\n' if message.content or not loop.first else '' }}
            {{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
            {{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif not (loop.first and has_system) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{{- '<|im_start|>assistant\\n' if add_generation_prompt else '' }}
"""


def words() -> list[str]:
    """What is a token by itself, longest first."""
    lines = [
        f"{spec.tool.name}({', '.join(spec.tool.parameters['properties'])}): {spec.tool.description}"
        for spec in Codebook.tool_specs.values()
    ]
    calls = ['\n{"name": "lookup", "arguments": {"key": "', '"}}\n', '\n{"name": "submit", "arguments": {"first": ']
    chat = ["system\nTools:\n", "system", "user", "assistant", "user\n", "assistant\n"]
    said = ["Submitted.", NO_SUCH_KEY, "Done.", "\n\n"]
    found = {*KEYS, *lines, *calls, *chat, *said, *_prompt_words(), ', "second": ', "}}\n"}
    return sorted(found, key=lambda word: (-len(word), word))


def _prompt_words() -> list[str]:
    """What stands around the keys in a prompt."""
    row: Row = next(Codebook.rows("train", 1, 0))
    first, second = map(re.escape, row.data["keys"])
    return [word for word in re.split(f"{first}|{second}", row.prompt[-1]["content"]) if word]


def make_tokenizer() -> PreTrainedTokenizerFast:
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(level.pre_tokenize_str(word)[0][0] for word in words())]
    vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    known = Regex("|".join(re.escape(word) for word in words()))
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(known, "isolated"), level])
    backend.decoder = decoders.ByteLevel()
    control = [AddedToken(token, special=True, normalized=False) for token in (END_OF_TEXT, START, END)]
    backend.add_special_tokens(control)
    backend.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token=END,
        pad_token=END_OF_TEXT,
        chat_template=TEMPLATE,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def make_model(tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, tied: bool = True) -> Qwen3ForCausalLM:
    ids = tokenizer.get_vocab()
    end, pad = ids[END], ids[END_OF_TEXT]
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        initializer_range=0.05,  # copying is learned in half the steps that 0.02 takes
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=tied,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
        dtype="float32",
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=end, pad_token_id=pad, do_sample=True, top_k=0, temperature=1.0
    )
    return model
