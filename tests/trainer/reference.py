"""What the gradient of a window has to be, worked out from the surviving rows alone, in double precision.

Written from the papers' formulas and the layout in `gymwire.trainer.masking`; nothing of TRL's is used. Options that
a case does not name have TRL's defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
from gymwire.trainer.grpo import Sample
from torch.func import functional_call

from tests.trainer.exact import Case, Run, Tensors, Window, stored
from tests.trainer.tiny import GROUP

#: A row: its generation batch and its place there.
Row = tuple[int, int]
#: The surviving rows of one micro-batch of one process.
MicroBatch = list[Row]


def gradients(case: Case, runs: Sequence[Run], folder: Path) -> list[Tensors | None]:
    """For each window its gradient, or None where it takes no step. `runs` are those of all processes."""
    reference = Reference(case, runs[0], folder)
    return [reference.gradient([run.windows[at] for run in runs]) for at in range(len(runs[0].windows))]


@dataclass
class Said:
    """The sampled tokens of one row under a policy: log-probabilities, and the entropies they were drawn with."""

    logps: torch.Tensor
    entropies: torch.Tensor


class Reference:
    def __init__(self, case: Case, run: Run, folder: Path) -> None:
        self.case, self.run = case, run
        self.model = deepcopy(stored(folder)).double()
        self.stored = {name: made.detach().clone() for name, made in self.model.named_parameters()}
        self.samples = [case.samples(generation) for generation in range(len(run.met))]
        self.advantages = [advantages(case, samples) for samples in self.samples]

    def option(self, name: str, default: Any) -> Any:
        return self.case.trl.get(name, default)

    # ---- a window

    def gradient(self, windows: Sequence[Window]) -> Tensors | None:
        segments = [made for made in self.segments(windows) if any(map(bool, made))]
        if not segments:
            return None
        weights = {name: made.double().requires_grad_() for name, made in windows[0].before.items()}
        rows = sorted({row for made in segments for batch in made for row in batch})
        said = dict(zip(rows, self.say(weights, rows), strict=True))
        steps = sum(map(len, segments))
        loss = sum(len(made) / steps * self.segment_loss(made, said) for made in segments)
        assert isinstance(loss, torch.Tensor)
        made = torch.autograd.grad(loss, list(weights.values()))
        return dict(zip(weights, made, strict=True))

    def segments(self, windows: Sequence[Window]) -> Iterable[list[MicroBatch]]:
        """The micro-batches of each segment; those of the processes lie side by side."""
        steps = [
            [[(generation, row) for row in rows] for window in windows for rows in [window.steps[at][1]]]
            for at, (generation, _) in enumerate(windows[0].steps)
        ]
        first = self.steps_before(windows[0])
        cuts = [at for at in range(len(steps)) if at == 0 or (first + at) % self.case.per_generation == 0]
        for start, stop in zip(cuts, [*cuts[1:], len(steps)], strict=True):
            yield [batch for step in steps[start:stop] for batch in step]

    def steps_before(self, window: Window) -> int:
        at = next(at for at, made in enumerate(self.run.windows) if made is window)
        return sum(len(made.steps) for made in self.run.windows[:at])

    # ---- a segment

    def segment_loss(self, batches: list[MicroBatch], said: dict[Row, Said]) -> torch.Tensor:
        kind, there = self.case.loss_type, [batch for batch in batches if batch]
        hot = {row: self.hot(row, self.beside(batch, batches), said) for batch in there for row in batch}
        tokens = [[self.token_losses(row, said[row], hot[row]) for row in batch] for batch in there]
        rows = [made for batch in tokens for made in batch]
        if kind in ("grpo", "sapo"):
            loss = torch.stack([made.mean() for made in rows]).mean()
        elif kind == "luspo":
            loss = torch.stack([made.sum() for made in rows]).mean()
        elif kind == "dr_grpo":
            loss = torch.stack([made.sum() for made in rows]).mean() / self.option("max_completion_length", 20)
        elif kind == "bnpo":
            loss = torch.stack([torch.cat(batch).mean() for batch in tokens]).mean()
        else:
            share = len(batches) / (self.case.per_generation * self.case.processes)
            loss = torch.cat(rows).sum() / (self.tokens(there[0][0][0]) * share)
        bonus = [torch.cat([said[row].entropies[hot[row] > 0] for row in batch]).mean() for batch in there]
        return loss - self.option("entropy_coef", 0.0) * torch.stack(bonus).mean()

    def tokens(self, generation: int) -> int:
        """The trained tokens of a generation batch."""
        return sum(sum(sample.sampled) for sample in self.samples[generation] if not sample.failed)

    def beside(self, batch: MicroBatch, batches: list[MicroBatch]) -> list[Row]:
        """The rows of all processes in the step of a micro-batch."""
        at = next(at for at, made in enumerate(batches) if made is batch)
        first = at - at % self.case.processes
        return [row for made in batches[first : first + self.case.processes] for row in made]

    def hot(self, row: Row, beside: list[Row], said: dict[Row, Said]) -> torch.Tensor:
        """1 for the tokens whose entropy is among the highest of their step."""
        least = torch.quantile(
            torch.cat([said[other].entropies.detach() for other in beside]),
            1 - self.option("top_entropy_quantile", 1.0),
        )
        return (said[row].entropies.detach() >= least).double()

    # ---- a row

    def token_losses(self, row: Row, said: Said, hot: torch.Tensor) -> torch.Tensor:
        """The loss of each sampled token of a row; the policy's part only of the hot ones."""
        generation, place = row
        advantage, now, old = self.advantages[generation][place], said.logps, self.old[row]
        log_ratio = now - old
        if self.option("importance_sampling_level", "token") == "sequence":
            log_ratio = log_ratio.mean().expand_as(now)
        ratio = log_ratio.exp()
        loss = self.policy_losses(advantage, now, now - old, ratio, row) * hot
        if self.case.engine and self.case.loss_type != "vespo":
            loss = loss * self.corrections(row)
        beta = self.option("beta", 0.0)
        if beta:
            apart = self.reference[row] - now
            kl = apart.exp() - apart - 1
            loss = loss + beta * (kl * ratio if self.option("use_bias_correction_kl", True) else kl)
        return loss

    def policy_losses(
        self, advantage: float, now: torch.Tensor, apart: torch.Tensor, ratio: torch.Tensor, row: Row
    ) -> torch.Tensor:
        kind, low = self.case.loss_type, self.option("epsilon", 0.2)
        high = self.option("epsilon_high", low)
        if kind == "cispo":
            return -ratio.clamp(max=high).detach() * advantage * now
        if kind == "sapo":
            heat = 1.0 if advantage > 0 else 1.05
            return -advantage * 4 / heat * torch.sigmoid(heat * (ratio - 1))
        if kind == "vespo":
            k, rate = (2.0, 3.0) if advantage >= 0 else (3.0, 2.0)
            weight = apart.detach().sum()
            if self.case.engine:
                weight = weight + self.corrections(row).log().sum()
            gamma = (rate + k * weight - rate * weight.exp()).exp()
            return -gamma * advantage * now
        bounded = ratio.clamp(1 - low, 1 + high)
        return -torch.minimum(ratio * advantage, bounded * advantage)

    def corrections(self, row: Row) -> torch.Tensor:
        """How much likelier the trainer's policy was to say each token than the engine that said it; bounded."""
        sample = self.samples[row[0]][row[1]]
        engine = torch.tensor([p for p, chosen in zip(sample.logprobs, sample.sampled, strict=True) if chosen])
        apart = self.old[row] - engine.float().double()
        bound = self.option("vllm_importance_sampling_clip_max", 3.0)
        if self.option("vllm_importance_sampling_mode", "sequence_mask") == "token_truncate":
            return apart.exp().clamp(max=bound)
        whole = apart.sum().exp()
        return torch.where(whole > bound, 0.0, whole).expand_as(apart)

    @cached_property
    def old(self) -> dict[Row, torch.Tensor]:
        """Log-probabilities under the policy that met the generation batch."""
        made: dict[Row, torch.Tensor] = {}
        for generation, weights in enumerate(self.run.met):
            rows = self.survivors(generation)
            at = {name: weight.double() for name, weight in weights.items()}
            made |= {row: said.logps.detach() for row, said in zip(rows, self.say(at, rows), strict=True)}
        return made

    @cached_property
    def reference(self) -> dict[Row, torch.Tensor]:
        rows = [row for generation in range(len(self.samples)) for row in self.survivors(generation)]
        return {row: said.logps.detach() for row, said in zip(rows, self.say(self.stored, rows), strict=True)}

    def survivors(self, generation: int) -> list[Row]:
        return [(generation, at) for at, sample in enumerate(self.samples[generation]) if not sample.failed]

    def say(self, weights: Tensors, rows: Sequence[Row]) -> list[Said]:
        """All rows in one pass. Padding comes last, where no earlier token sees it."""
        if not rows:
            return []
        samples = [self.samples[generation][at] for generation, at in rows]
        ids = [torch.tensor([*sample.prompt_ids, *sample.completion_ids]) for sample in samples]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        logits = functional_call(self.model, weights, (padded,), {"use_cache": False}, tie_weights=True).logits
        logps = torch.log_softmax(logits / self.option("temperature", 1.0), dim=-1)
        entropies = -(logps.exp() * logps).sum(-1)
        return [self._said(sample, logps[at], entropies[at], padded[at]) for at, sample in enumerate(samples)]

    @staticmethod
    def _said(sample: Sample, logps: torch.Tensor, entropies: torch.Tensor, ids: torch.Tensor) -> Said:
        start = len(sample.prompt_ids)
        places = torch.tensor([start + at for at, chosen in enumerate(sample.sampled) if chosen])
        return Said(logps[places - 1, ids[places]], entropies[places - 1])


def advantages(case: Case, samples: Sequence[Sample]) -> list[float]:
    """Of each row of a generation batch; a failed one has none, and 0 stands there."""
    weights = case.trl.get("reward_weights", [1.0] * case.components)
    scores = [_weighted(sample.rewards, weights) for sample in samples]
    if case.trl.get("multi_objective_aggregation") == "normalize_then_sum":
        scores = _normalized_components(samples, weights)
        scored = [score for score in scores if score is not None]
        return [0.0 if s is None or len(scored) < 2 else (s - mean(scored)) / (stdev(scored) + 1e-4) for s in scores]
    scale = case.trl.get("scale_rewards", "group")
    scored = [score for score in scores if score is not None]
    spread = stdev(scored) + 1e-4 if scale == "batch" and len(scored) > 1 else 1.0
    made = []
    for first in range(0, len(scores), GROUP):
        made += _group_advantages(scores[first : first + GROUP], scale, spread)
    return made


def _weighted(rewards: Sequence[float] | None, weights: Sequence[float]) -> float | None:
    return None if rewards is None else sum(r * w for r, w in zip(rewards, weights, strict=True))


def _group_advantages(scores: Sequence[float | None], scale: str, spread: float) -> list[float]:
    scored = [score for score in scores if score is not None]
    if len(scored) < 2:
        return [0.0] * len(scores)
    divisor = stdev(scored) + 1e-4 if scale == "group" else spread
    return [0.0 if score is None else (score - mean(scored)) / divisor for score in scores]


def _normalized_components(samples: Sequence[Sample], weights: Sequence[float]) -> list[float | None]:
    """Each component normalized within its group, then the weighted sum of them."""
    sums: list[float | None] = [None if sample.failed else 0.0 for sample in samples]
    for at, weight in enumerate(weights):
        for first in range(0, len(samples), GROUP):
            group = [None if made.rewards is None else made.rewards[at] for made in samples[first : first + GROUP]]
            for place, part in enumerate(_group_advantages(group, "group", 1.0)):
                before = sums[first + place]
                sums[first + place] = None if before is None else before + weight * part
    return sums


def apart(made: Tensors, wanted: Tensors) -> float:
    """How far two gradients are apart, as a share of the second's length."""
    assert made.keys() == wanted.keys()
    return float((_flat(made) - _flat(wanted)).norm()) / size(wanted)


def size(tensors: Tensors) -> float:
    return float(_flat(tensors).norm())


def _flat(tensors: Tensors) -> torch.Tensor:
    return torch.cat([tensors[name].double().flatten() for name in sorted(tensors)])
