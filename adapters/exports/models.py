"""What other stacks must be told about a model's chat template."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """Models that share a chat template: their renderer in prime-rl and their tool parser in vLLM."""

    pattern: str
    renderer: str
    tool_parser: str


FAMILIES = (
    Family(r"^PrimeIntellect/Qwen3-", "prime-qwen3", "hermes"),
    Family(r"Qwen3\.5-", "qwen3.5", "qwen3_coder"),
    Family(r"Qwen3\.6-", "qwen3.6", "qwen3_coder"),
    Family(r"Qwen3-VL-", "qwen3-vl", "hermes"),
    Family(r"Qwen3-(?!Coder|Next)", "qwen3", "hermes"),
    Family(r"gpt-oss", "gpt-oss", "openai"),
    Family(r"GLM-4\.5", "glm-4.5", "glm45"),
    Family(r"GLM-5", "glm-5", "glm47"),
    Family(r"MiniMax-M2", "minimax-m2", "minimax_m2"),
    Family(r"Kimi-K2-", "kimi-k2", "kimi_k2"),
    Family(r"Nemotron-3-", "nemotron-3", "qwen3_coder"),
    Family(r"Llama-3\.[123]", "llama-3", "llama3_json"),
)
UNKNOWN = Family("", "auto", "")


def family_of(model: str) -> Family:
    return next((family for family in FAMILIES if re.search(family.pattern, model)), UNKNOWN)
