"""How many episodes a step plays, from TRL's own options; the same arithmetic, without TRL."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config import ConfigError

#: TRL 1.16's defaults of the options that decide it.
DEFAULTS = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "num_generations": 8,
    "num_iterations": 1,
    "save_steps": 500,
}


@dataclass(frozen=True, slots=True)
class Geometry:
    """`rollouts` is the episodes of one generation batch, over all processes; `group` those of one row."""

    group: int
    rollouts: int
    processes: int
    micro_batches: int
    """Forward passes of each process between two generation batches."""
    accumulation: int
    save_steps: int

    @property
    def groups(self) -> int:
        return self.rollouts // self.group

    def is_boundary(self, step: int) -> bool:
        """Whether the next optimizer step after this one begins with fresh episodes: only there can a run go on."""
        return step * self.accumulation % self.micro_batches == 0

    @classmethod
    def of(cls, trl: Mapping[str, Any], processes: int | None = None) -> Geometry:
        """Read TRL's options. Raises `ConfigError`."""
        said = {key: _count(trl, key) for key in DEFAULTS if key != "save_steps"}
        processes = int(os.environ.get("WORLD_SIZE", "1")) if processes is None else processes
        per_step = said["per_device_train_batch_size"] * processes
        steps, total = trl.get("steps_per_generation"), trl.get("generation_batch_size")
        if steps is not None and total is not None:
            raise ConfigError(
                "trl.steps_per_generation and trl.generation_batch_size say the same; give one of the two"
            )
        if total is not None and total % per_step:
            raise ConfigError(
                f"trl.generation_batch_size {total} must be a multiple of the {per_step} rollouts of a pass"
            )
        steps = total // per_step if total is not None else steps or said["gradient_accumulation_steps"]
        save_steps = trl.get("save_steps", DEFAULTS["save_steps"])
        made = cls(
            said["num_generations"],
            per_step * steps,
            processes,
            steps * said["num_iterations"],
            said["gradient_accumulation_steps"],
            save_steps if isinstance(save_steps, int) else 0,
        )
        made._check(trl)
        return made

    def _check(self, trl: Mapping[str, Any]) -> None:
        if self.group < 2:
            raise ConfigError("trl.num_generations must be 2 or more: a group of one has nothing to compare")
        own = self.rollouts // self.processes
        if own % self.group:
            many = f" of each of {self.processes} processes" if self.processes > 1 else ""
            raise ConfigError(
                f"the {own} rollouts{many} do not divide into groups of {self.group}: make "
                "trl.per_device_train_batch_size x trl.steps_per_generation a multiple of trl.num_generations"
            )
        saves = str(trl.get("save_strategy", "steps")) == "steps"
        if saves and self.save_steps and not self.is_boundary(self.save_steps):
            raise ConfigError(
                f"trl.save_steps {self.save_steps} would save while a generation batch is in use, which no run can "
                f"resume from; make it a multiple of {self._period()}"
            )

    def _period(self) -> int:
        return next(step for step in range(1, self.micro_batches + 1) if self.is_boundary(step))


def _count(trl: Mapping[str, Any], key: str) -> int:
    value = trl.get(key, DEFAULTS[key])
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"trl.{key} must be a whole number from 1 on, got {value!r}")
    return value
