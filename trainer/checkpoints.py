"""TRL's checkpoints, and what a run adds to them so that it can go on exactly where it was."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .collect import Progress

PROGRESS = "gymwire_progress.json"


def newest(folder: Path) -> Path | None:
    """The newest complete checkpoint of a run folder: the progress is what is written last."""
    found = {int(path.parent.name.rpartition("-")[2]): path.parent for path in folder.glob(f"checkpoint-*/{PROGRESS}")}
    return found[max(found)] if found else None


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class Moment:
    """What a step left behind: the progress and every random state, to save although the next one has begun."""

    progress: Progress
    python: Any
    numpy: Any
    torch: torch.Tensor
    cuda: list[torch.Tensor]

    @classmethod
    def now(cls, progress: Progress) -> Moment:
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        return cls(progress.copy(), random.getstate(), np.random.get_state(), torch.get_rng_state(), cuda)

    def restore(self, progress: Progress) -> None:
        progress.take(self.progress)
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)
