"""The arithmetic that takes failed rollouts out of an update, exactly. Plain numbers, no framework.

The reference is the same update without them: the same optimizer windows and micro-batches, the failed rows absent.
Nothing of a failed row is in a sum (its mask is zero), so only the divisors are left to put right:

- losses that average over sequences (grpo, sapo, luspo, dr_grpo): every surviving sequence of a segment counts
  alike, whichever micro-batch or process it fell into;
- bnpo and the entropy bonus average over the tokens of a micro-batch: those without a survivor are absent, the
  others share the segment alike;
- dapo, cispo, vespo divide by the tokens of the generation batch, in which masked tokens do not count: no scale.

A segment is the part of one generation batch that one pass brings into one optimizer window (usually all of both).
Segments share a window by their number of micro-batches; one without a survivor is absent, and a window of nothing
but such segments takes no step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PER_SEQUENCE = frozenset({"grpo", "sapo", "luspo", "dr_grpo"})
PER_MICRO_BATCH = frozenset({"bnpo"})
PER_TOKEN = frozenset({"dapo", "cispo", "vespo"})
LOSSES = PER_SEQUENCE | PER_MICRO_BATCH | PER_TOKEN


@dataclass(frozen=True, slots=True)
class Segment:
    """Survivors by micro-batch: `alive_PK[p][k]` of the `rows` in micro-batch k of process p."""

    alive_PK: Sequence[Sequence[int]]
    rows: int

    @property
    def alive(self) -> int:
        return sum(map(sum, self.alive_PK))

    @property
    def micro_batches(self) -> int:
        return sum(map(len, self.alive_PK))

    @property
    def with_survivors(self) -> int:
        return sum(alive > 0 for alive_K in self.alive_PK for alive in alive_K)


def loss_scale(loss_type: str, segment: Segment) -> float:
    """What the loss of each micro-batch of a segment is multiplied with. Without survivors it is zero anyway."""
    if loss_type not in LOSSES:
        raise ValueError(f"unknown loss type {loss_type!r}; known: {', '.join(sorted(LOSSES))}")
    if loss_type in PER_MICRO_BATCH:
        return micro_batch_scale(segment)
    if loss_type in PER_SEQUENCE and segment.alive:
        return segment.rows * segment.micro_batches / segment.alive
    return 1.0


def micro_batch_scale(segment: Segment) -> float:
    """The scale of what is averaged over a micro-batch's own tokens (bnpo, the entropy bonus)."""
    return segment.micro_batches / segment.with_survivors if segment.with_survivors else 1.0


def window_scale(survivors_K: Sequence[bool]) -> float:
    """What the gradient of a window is multiplied with, given for each step whether its segment has survivors.

    Zero: the window takes no step.
    """
    return len(survivors_K) / sum(survivors_K) if any(survivors_K) else 0.0


def segment_places(place: int, position: int, window: int, per_generation: int) -> range:
    """The micro-batches of a generation batch that are in one segment with the one at `place`.

    It is step `position` of an optimizer window of `window` steps; the generation batch has `per_generation`.
    """
    first = place - position
    return range(max(first, 0), min(first + window, per_generation))
