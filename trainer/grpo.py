"""TRL's GRPOTrainer with rollouts collected over sessions, and failed ones taken out of the update.

TRL owns the optimizer, the loss and the engine. Overridden here: where completions and rewards come from
(`_generate_and_score_completions` collects first, `rollout_func` and `_calculate_rewards` hand over), and what the
loss is divided by (`_prepare_inputs`, `_compute_loss`, `training_step`, see `masking`). Nothing of a failed session
reaches TRL: a masked placeholder of one token stands in its place, and its reward is not a number, which TRL's
baselines leave out. `tests/trainer/test_trl_seam.py` holds the signatures.

Which episodes were cut is said by their samples, so TRL's own `mask_truncated_completions`, which looks at the last
token, is switched off. What cannot be had together with masked sessions is refused (`refusals`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from .masking import Segment, loss_scale, micro_batch_scale, segment_places, window_scale
from .refusals import ROUTER, refusals

ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class Sample:
    """One rollout as the update sees it. Lengths: `completion_ids`, `sampled` and `logprobs` are equal.

    `sampled` is 1 where the policy chose the token, 0 where a tool, a template or the environment did.
    `rewards` has one number a reward name, or None for a failed session, of which nothing else is read.
    """

    prompt_ids: Sequence[int]
    completion_ids: Sequence[int]
    sampled: Sequence[int]
    logprobs: Sequence[float]
    rewards: Sequence[float] | None
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        return self.rewards is None


#: Plays the rows of one generation batch (each repeated `num_generations` times) and answers a sample for each.
Collect = Callable[[list[dict[str, Any]], str], Sequence[Sample]]


class SessionGRPOTrainer(GRPOTrainer):
    """GRPO on what `collect` brings home."""

    args: GRPOConfig
    model: torch.nn.Module
    _buffered_inputs: list[dict[str, Any]] | None

    def __init__(self, model: Any, *, args: GRPOConfig, collect: Collect, reward_names: Sequence[str], **kwargs: Any):
        for sentence in refusals(vars(args)):
            raise ValueError(sentence)
        self._collect = collect
        self._samples: Sequence[Sample] = ()
        self._alive_PK: list[list[int]] = []
        self._survivors_K: list[bool] = []
        super().__init__(model, reward_funcs=[_named(name) for name in reward_names], args=args, **kwargs)
        if self.aux_loss_enabled:
            raise ValueError(ROUTER)
        # An episode that ended by itself may end with another token than TRL knows, and a cut one with one it knows.
        self.mask_truncated_completions = False
        # Not given to the constructor, which warns of an experimental interface: the pin on TRL holds it.
        self.rollout_func = _hand_over

    # ---- rollouts

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        self._sync_engine()
        self._samples = self._collect(inputs, "train" if self.model.training else "eval")
        if len(self._samples) != len(inputs):
            raise RuntimeError(f"{len(inputs)} rollouts were asked for, {len(self._samples)} came back")
        inputs = [{**given, **sample.columns} for given, sample in zip(inputs, self._samples, strict=True)]
        output = super()._generate_and_score_completions(inputs)
        output[ALIVE] = torch.tensor([not sample.failed for sample in self._samples], device=self.accelerator.device)
        return output

    def _sync_engine(self) -> None:
        """Give the engine the current weights before rollouts begin; TRL itself does so only after them."""
        slept = self.args.vllm_enable_sleep_mode  # which discards the weights
        if self.use_vllm and (slept or self.state.global_step != self._last_loaded_step):
            self.vllm_generation.sync_weights()
            self._last_loaded_step = self.state.global_step

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any) -> torch.Tensor:
        nothing = [torch.nan] * len(self.reward_funcs)
        rewards = [nothing if sample.rewards is None else list(sample.rewards) for sample in self._samples]
        return self._gathered(torch.tensor(rewards, dtype=torch.float32, device=self.accelerator.device))

    def _gathered(self, here: torch.Tensor) -> torch.Tensor:
        """The same of all processes, one after the other."""
        everywhere = self.accelerator.gather(here)
        assert isinstance(everywhere, torch.Tensor)
        return everywhere

    # ---- what the loss is divided by

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        batches = self._buffered_inputs
        if batches is not None and batches is not before:
            alive_K = torch.stack([batch[ALIVE].sum() for batch in batches])
            self._alive_PK = self._gathered(alive_K).view(-1, len(batches)).tolist()
        return inputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        segment = self._segment(inputs[ALIVE])
        scale, entropy_coef = loss_scale(self.loss_type, segment), self.entropy_coef
        # The bonus has a divisor of its own, and is part of the loss that is scaled as a whole.
        self.entropy_coef = entropy_coef * micro_batch_scale(segment) / scale
        try:
            return super()._compute_loss(model, inputs) * scale
        finally:
            self.entropy_coef = entropy_coef

    def _segment(self, alive: torch.Tensor) -> Segment:
        if not self.model.training:
            return Segment([[int(alive.sum())]], len(alive))
        per_generation = len(self._alive_PK[0])
        window, position = self.current_gradient_accumulation_steps, len(self._survivors_K)
        places = segment_places(self._step % per_generation, position, window, per_generation)
        segment = Segment([alive_K[places.start : places.stop] for alive_K in self._alive_PK], len(alive))
        self._survivors_K.append(segment.alive > 0)
        return segment

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if self.accelerator.sync_gradients:
            _scale_gradients(model, window_scale(self._survivors_K))
            self._survivors_K = []
        return loss


def _hand_over(prompts: list[Any], trainer: SessionGRPOTrainer) -> dict[str, Any]:
    """TRL's `rollout_func`: what was collected, in TRL's words."""
    pad: list[Any] = [trainer._tokenizer.pad_token_id]
    placeholder = Sample(prompt_ids=pad, completion_ids=pad, sampled=[0], logprobs=[0.0], rewards=None)
    samples = [placeholder if sample.failed else sample for sample in trainer._samples]
    return {
        "prompt_ids": [list(sample.prompt_ids) for sample in samples],
        "completion_ids": [list(sample.completion_ids) for sample in samples],
        "logprobs": [list(sample.logprobs) for sample in samples],
        "env_mask": [list(sample.sampled) for sample in samples],
    }


def _scale_gradients(model: torch.nn.Module, scale: float) -> None:
    """Zero leaves no gradients at all: an optimizer passes over such parameters, and its state stays as it is."""
    if scale == 0:
        model.zero_grad(set_to_none=True)
    elif scale != 1:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(scale)


def _named(name: str) -> Callable[..., Any]:
    """A reward function for TRL to name and count; `_calculate_rewards` knows the rewards."""

    def reward(**_: Any) -> Any:
        raise AssertionError("rewards come with the samples")

    reward.__name__ = name
    return reward
