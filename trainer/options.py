"""From a config to what TRL is constructed with. Raises `ConfigError` where it cannot be."""

from __future__ import annotations

import warnings
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl.chat_template_utils import get_training_chat_template
from trl.trainer.grpo_config import GRPOConfig

from .config import TRAINING, Config, ConfigError, Model


def grpo_config(config: Config, *, engine: bool) -> GRPOConfig:
    """TRL's options: the config's `trl`, what gymwire sets itself, and defaults for this machine."""
    _check_names(config.trl)
    cpu = not torch.cuda.is_available()
    defaults: dict[str, Any] = {"logging_steps": 1, "report_to": "none", "disable_tqdm": True}
    if cpu:
        defaults |= {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "dataloader_pin_memory": False}
    owned = {
        "output_dir": str(config.log.dir),
        "max_completion_length": config.rollout.max_tokens,
        "use_vllm": engine,
        "vllm_mode": "colocate",
        "remove_unused_columns": False,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            return GRPOConfig(**{**defaults, **config.trl, **owned})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"trl: {error}") from None


def _check_names(options: dict[str, Any]) -> None:
    known = [field.name for field in fields(GRPOConfig)]
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "see its documentation"
            raise ConfigError(f"trl.{name}: TRL's GRPOConfig has no such option; {hint}")


def load_tokenizer(model: Model) -> PreTrainedTokenizerBase:
    """The model's tokenizer, with the chat template that the config names."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.path, padding_side="left", truncation_side="left")
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path {model.path}: its tokenizer cannot be loaded: {error}") from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.chat_template == TRAINING:
        tokenizer.chat_template = _training_template(tokenizer)
    elif model.chat_template is not None:
        tokenizer.chat_template = Path(model.chat_template).read_text(encoding="utf-8")
    return tokenizer


def _training_template(tokenizer: PreTrainedTokenizerBase) -> str:
    """TRL's template for this model that leaves earlier turns as they were; its own where that does so already."""
    try:
        return get_training_chat_template(tokenizer) or str(tokenizer.chat_template)
    except ValueError as error:
        raise ConfigError(f"model.chat_template: TRL has no training template for this model: {error}") from None


def lora_config(options: dict[str, Any] | None) -> Any:
    """peft's, where LoRA is asked for."""
    if options is None:
        return None
    from peft import LoraConfig  # pyright: ignore[reportMissingImports]

    try:
        return LoraConfig(**{"task_type": "CAUSAL_LM", **options})
    except TypeError as error:
        raise ConfigError(f"model.lora: {error}") from None
