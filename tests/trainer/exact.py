"""One case of the exactness tests: what is trained on, and a run of a trainer that is written down as it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from gymwire.trainer.grpo import Sample, SessionGRPOTrainer
from transformers import Qwen3ForCausalLM, TrainerCallback
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from datasets import Dataset
from tests.trainer.tiny import GROUP, rollouts, tokenizer

Tensors = dict[str, torch.Tensor]

#: Failed rows of a generation batch of three groups of four.
FAILURES: dict[str, frozenset[int]] = {
    "none": frozenset(),
    "one": frozenset({5}),
    "all but one of a group": frozenset({4, 6, 7}),
    "a group": frozenset({4, 5, 6, 7}),
    "a group and one": frozenset({4, 5, 6, 7, 9}),
    "all": frozenset(range(12)),
}


@dataclass(frozen=True)
class Case:
    """Options of TRL's under their own names, and which rows of each generation batch fail."""

    loss_type: str = "grpo"
    failures: tuple[str, ...] = ("a group and one",)
    micro: int = 2
    accumulation: int = 3
    per_generation: int = 6
    processes: int = 1
    components: int = 1
    epochs: int = 1
    #: Sampled log-probabilities correct the loss, as with an engine.
    engine: bool = False
    #: Rollouts that are given instead of made up.
    given: tuple[Sample, ...] = ()
    trl: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.micro * self.per_generation * self.processes

    @property
    def windows(self) -> int:
        generations = len(self.failures) // self.epochs
        steps = self.per_generation * generations * self.trl.get("num_iterations", 1)
        return ceil(steps / self.accumulation) * self.epochs

    def samples(self, generation: int) -> list[Sample]:
        if self.given:
            return list(self.given)
        failed = FAILURES[self.failures[generation]]
        return rollouts(self.rows, failed, seed=100 + generation, components=self.components)

    def config(self, folder: Path) -> GRPOConfig:
        options: dict[str, Any] = {
            "learning_rate": 0.2,
            "optim": "sgd",
            "lr_scheduler_type": "constant",
            "max_grad_norm": 0.0,
            "max_completion_length": 20,
            "gradient_checkpointing": False,
            **self.trl,
        }
        return GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1000,
            disable_tqdm=True,
            shuffle_dataset=False,
            loss_type=self.loss_type,
            per_device_train_batch_size=self.micro,
            gradient_accumulation_steps=self.accumulation,
            steps_per_generation=self.per_generation,
            num_generations=GROUP,
            max_steps=self.windows,
            **options,
        )


@dataclass
class Window:
    """An optimizer window of one process: where its gradient was taken, what it was, and of which rows."""

    before: Tensors = field(default_factory=dict)
    gradient: Tensors = field(default_factory=dict)
    after: Tensors = field(default_factory=dict)
    optimizer: tuple[Any, Any] = (None, None)
    #: For each step: the generation batch, and the ids of the surviving rows in the micro-batch.
    steps: list[tuple[int, list[int]]] = field(default_factory=list)


@dataclass
class Run:
    windows: list[Window] = field(default_factory=list)
    #: The parameters with which each generation batch was met.
    met: list[Tensors] = field(default_factory=list)
    #: The micro-batches in order, as TRL holds them.
    batches: list[dict[str, Any]] = field(default_factory=list)


class Recorder(TrainerCallback):
    """Writes a run down, and hands out its rollouts."""

    def __init__(self, case: Case) -> None:
        self.case, self.run, self.window = case, Run(), Window()
        self.trainer: Any = None  # set once it is made

    def collect(self, rows: Sequence[dict[str, Any]], mode: str) -> list[Sample]:
        """The part of the generation batch that is this process's."""
        samples = self.case.samples(len(self.run.met))
        self.run.met.append(parameters(self.trainer.model))
        first = self.trainer.accelerator.process_index * len(rows)
        return samples[first : first + len(rows)]

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self.window.steps.append((len(self.run.met) - 1, self._rows()))

    def on_pre_optimizer_step(self, *_: Any, optimizer: Any, **__: Any) -> None:
        self.on_substep_end()
        model = self.trainer.model
        self.window.before = parameters(model)
        self.window.gradient = {
            name: made.grad.detach().clone() for name, made in model.named_parameters() if made.grad is not None
        }
        self.window.optimizer = (_state(optimizer), None)

    def on_optimizer_step(self, *_: Any, optimizer: Any, **__: Any) -> None:
        self.window.after = parameters(self.trainer.model)
        self.window.optimizer = (self.window.optimizer[0], _state(optimizer))
        self.run.windows.append(self.window)
        self.window = Window()

    def _rows(self) -> list[int]:
        """Which rows are in the micro-batch of the step just done, known by their tokens."""
        place = (self.trainer._step - 1) % self.trainer.args.steps_per_generation
        batch = self.trainer._buffered_inputs[place]
        self.run.batches.append(batch)
        samples = self.case.samples(len(self.run.met) - 1)
        known = {tuple(made.completion_ids): row for row, made in enumerate(samples) if not made.failed}
        assert len(known) == sum(not made.failed for made in samples)
        there = [
            tuple(ids[mask.bool()].tolist())
            for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
        ]
        return [known[ids] for ids in there if ids in known]


def play(case: Case, model: Path, folder: Path, made: Callable[..., GRPOTrainer] | None = None) -> Run:
    """A run of our trainer on a case (or of `made`)."""
    recorder = Recorder(case)
    groups = case.rows // GROUP * (len(case.failures) // case.epochs)
    trainer = (made or ours)(
        model=policy(model),
        args=case.config(folder),
        train_dataset=Dataset.from_dict({"prompt": ["a b c"] * groups}),
        processing_class=tokenizer(),
        callbacks=[recorder],
        recorder=recorder,
    )
    recorder.trainer = trainer
    if case.engine:
        trainer.use_vllm, trainer._last_loaded_step = True, 0
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)  # type: ignore[assignment]
    trainer.train()
    return recorder.run


def ours(*, recorder: Recorder, **options: Any) -> SessionGRPOTrainer:
    names = [f"component_{at}" for at in range(recorder.case.components)]
    return SessionGRPOTrainer(collect=recorder.collect, reward_names=names, **options)


def plain(*, recorder: Recorder, **options: Any) -> GRPOTrainer:
    """TRL's own trainer on the same rollouts, none of them failed."""

    def hand_over(prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        samples = recorder.collect(prompts, "train")
        return {
            "prompt_ids": [sample.prompt_ids for sample in samples],
            "completion_ids": [sample.completion_ids for sample in samples],
            "logprobs": [sample.logprobs for sample in samples],
            "env_mask": [sample.sampled for sample in samples],
            "scores": [sample.rewards for sample in samples],
        }

    def component(at: int) -> Callable[..., list[float]]:
        return lambda scores, **_: [score[at] for score in scores]

    rewards: list[Any] = [component(at) for at in range(recorder.case.components)]
    return GRPOTrainer(reward_funcs=rewards, rollout_func=hand_over, **options)


def policy(model: Path) -> Qwen3ForCausalLM:
    """Some steps away from what is stored, which is the reference model of the KL term."""
    made = deepcopy(stored(model))
    noise = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=noise)
    return made


@cache
def stored(model: Path) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM.from_pretrained(model, dtype=torch.float32)


def parameters(model: Any) -> Tensors:
    return {name: made.detach().clone() for name, made in model.named_parameters()}


def _state(optimizer: Any) -> list[Tensors]:
    """What the optimizer remembers of each parameter, in order."""
    kept = optimizer.state_dict()["state"]
    return [{name: torch.as_tensor(value).clone() for name, value in kept[at].items()} for at in sorted(kept)]
