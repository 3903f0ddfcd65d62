"""TRL's colocated vLLM on machines without a GPU. With a GPU, TRL's own is used as it is.

On a CPU vLLM packs its weights for the processor when it loads them, so TRL's way of giving it new ones, one
parameter at a time, finds nothing to load into. Here vLLM reloads all of them by its own `reload_weights`, which
unpacks and packs again; but it leaves out an output layer that is tied to the embeddings, so that one is tied and
packed anew. Without this step a tied model samples from old weights and nothing says so:
`tests/trainer/test_engine.py` holds that both sides agree after every sync.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch._dynamo
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer import grpo_trainer
from vllm import LLM

from .weights import context_of

#: float32 because bfloat16, which "auto" picks, moves log-probabilities by up to 0.07; eager because compiling takes
#: a minute and makes nothing faster here. A prompt is prefilled whole: for one that is prefilled in parts vLLM sets the
#: seeded generator back, which a processor's cannot ("CPU Generator does not use offset").
LLM_ARGUMENTS: dict[str, Any] = {"dtype": "float32", "enforce_eager": True, "enable_chunked_prefill": False}
#: GiB for the KV cache; without a limit vLLM takes most of the machine's memory.
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}


class CpuVLLMGeneration(VLLMGeneration):
    """TRL's `VLLMGeneration` with a weight sync that works on packed weights."""

    def _init_vllm(self) -> None:
        if self.mode != "colocate" or self.tensor_parallel_size != 1 or self.enable_sleep_mode:
            raise ValueError(
                "without a GPU vLLM runs colocated, unsplit and never asleep: leave vllm_mode, "
                "vllm_tensor_parallel_size and vllm_enable_sleep_mode at colocate, 1 and false"
            )
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        torch._dynamo.config.disable = True  # the sampler's small functions take a minute to compile, and gain nothing
        with _replaced(vllm_generation, "LLM", _llm):
            super()._init_vllm()

    def sync_weights(self) -> None:
        """Give vLLM the trainer's weights."""
        runner = self.llm.llm_engine.model_executor.driver_worker.model_runner
        runner.reload_weights(weights_iterator=self._iter_named_params())
        _pack_tied_output(runner.get_model())
        self.llm.reset_prefix_cache()


def _llm(**arguments: Any) -> LLM:
    """The engine as TRL asks for it, with our arguments; a step has room for the longest prompt there can be."""
    longest = arguments["max_model_len"] or context_of(Path(arguments["model"])) or 0
    room = max(arguments["max_num_batched_tokens"], longest)
    return LLM(**{**arguments, **LLM_ARGUMENTS, "max_num_batched_tokens": room})


def _pack_tied_output(model: Any) -> None:
    """Tie the output layer to the embeddings that were just loaded, and pack it for the processor again."""
    if not model.config.tie_word_embeddings:
        return
    output = model.lm_head.tie_weights(model.model.embed_tokens)
    output.quant_method.process_weights_after_loading(output)


@contextmanager
def generation_for_this_machine() -> Iterator[None]:
    """While a `GRPOTrainer` is constructed: the class it makes its engine of."""
    if torch.accelerator.is_available():
        yield
        return
    with _replaced(grpo_trainer, "VLLMGeneration", CpuVLLMGeneration):
        yield


@contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    """A module's global, changed for a while: TRL takes neither the class nor vLLM's arguments from outside."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
