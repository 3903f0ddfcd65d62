"""The arithmetic of masking: divisors of segments, places of a window, windows without survivors."""

from __future__ import annotations

import pytest
from gymwire.trainer.masking import LOSSES, Segment, loss_scale, micro_batch_scale, segment_places, window_scale

#: Two processes of three micro-batches of four rows.
WHOLE = Segment([[4, 4, 4], [4, 4, 4]], rows=4)
PART = Segment([[4, 1, 0], [2, 0, 3]], rows=4)
LOST = Segment([[0, 0, 0], [0, 0, 0]], rows=4)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_nothing_is_scaled_without_failures(loss: str) -> None:
    assert loss_scale(loss, WHOLE) == micro_batch_scale(WHOLE) == 1


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_nothing_is_divided_by_zero_without_survivors(loss: str) -> None:
    assert loss_scale(loss, LOST) == micro_batch_scale(LOST) == 1


@pytest.mark.parametrize(
    ("losses", "scale"),
    [
        (("grpo", "sapo", "luspo", "dr_grpo"), 24 / 10),
        (("bnpo",), 6 / 4),
        (("dapo", "cispo", "vespo"), 1.0),
    ],
)
def test_a_loss_is_divided_by_what_survived(losses: tuple[str, ...], scale: float) -> None:
    assert {loss_scale(loss, PART) for loss in losses} == {scale}


def test_the_entropy_bonus_is_shared_by_the_micro_batches_that_have_tokens() -> None:
    assert micro_batch_scale(PART) == 6 / 4


def test_an_unknown_loss_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"unknown loss type 'ppo'.*bnpo.*vespo"):
        loss_scale("ppo", WHOLE)


@pytest.mark.parametrize(
    ("survivors", "scale"),
    [([True], 1.0), ([True, True], 1.0), ([True, False], 2.0), ([False, True, False, False], 4.0), ([False] * 3, 0.0)],
)
def test_a_window_is_shared_by_the_segments_that_survived(survivors: list[bool], scale: float) -> None:
    assert window_scale(survivors) == scale


@pytest.mark.parametrize(
    ("window", "per_generation", "segments"),
    [
        # One window a generation batch, and several.
        (3, 3, [[0, 1, 2], [0, 1, 2]]),
        (2, 6, [[0, 1], [2, 3], [4, 5]]),
        # Several generation batches a window.
        (4, 2, [[0, 1], [0, 1]]),
        # Windows that begin in one generation batch and end in the next.
        (2, 3, [[0, 1], [2], [0], [1, 2]]),
        (3, 2, [[0, 1], [0], [1], [0, 1]]),
    ],
)
def test_places_of_a_segment(window: int, per_generation: int, segments: list[list[int]]) -> None:
    steps = range(sum(map(len, segments)))
    found = [list(segment_places(step % per_generation, step % window, window, per_generation)) for step in steps]
    assert found == [places for places in segments for _ in places]
