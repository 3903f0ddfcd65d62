"""From what was played to what is learned from: traces as TRL's update sees them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..servers.types import Ending
from .collect import Batch
from .config import ConfigError
from .grpo import Sample
from .rollout import Trace

#: What TRL's tables of completions show where a session never began.
NO_PROMPT: list[dict[str, Any]] = [{"role": "user", "content": ""}]


def samples_of(batch: Batch, components: Sequence[str] | None, *, mask_cut: bool, stub_id: int) -> list[Sample]:
    """A sample for every session of the batch, in its order.

    components: the reward's parts that TRL sees one by one, or None for their sum.
    mask_cut: TRL's `mask_truncated_completions`; a session that was cut may end with the end-of-turn token, so what
        is cut is said here.
    stub_id: stands where a session has no token at all; it carries no loss.
    """
    return list(_samples(batch, components, mask_cut, stub_id))


def _samples(batch: Batch, components: Sequence[str] | None, mask_cut: bool, stub_id: int) -> Iterator[Sample]:
    for group in batch.groups:
        for trace in group.traces:
            failed = group.dropped or trace.outcome is None
            yield _failed(stub_id) if failed else _sample(trace, components, mask_cut, stub_id)


def _failed(stub_id: int) -> Sample:
    return Sample([stub_id], [stub_id], [0], [0.0], None, {"prompt": NO_PROMPT})


def _sample(trace: Trace, components: Sequence[str] | None, mask_cut: bool, stub_id: int) -> Sample:
    assert trace.outcome is not None
    ids, sampled, logprobs = trace.completion_ids, trace.sampled, trace.logprobs
    if not ids:
        ids, sampled, logprobs = [stub_id], [0], [0.0]
    elif mask_cut and trace.outcome.ending is Ending.CUT:
        sampled = [0] * len(sampled)
    return Sample(trace.prompt_ids, ids, sampled, logprobs, rewards_of(trace, components), {"prompt": trace.prompt})


def rewards_of(trace: Trace, components: Sequence[str] | None) -> list[float]:
    """The reward, or its named parts. Raises `ConfigError` where a verdict lacks one of them."""
    outcome = trace.outcome
    assert outcome is not None and outcome.reward is not None
    if components is None:
        return [outcome.reward]
    lacking = [name for name in components if name not in outcome.components]
    if lacking:
        has = ", ".join(outcome.components) or "none"
        raise ConfigError(
            f"data.components names {', '.join(lacking)}, and the verdict on row {trace.episode.id.row} has: {has}"
        )
    return [outcome.components[name] for name in components]
