"""From traces to samples: failed sessions carry no reward and no loss, and what was cut is known as cut."""

from __future__ import annotations

import pytest

WHY = "needs the trainer's stack"
pytest.importorskip("trl.trainer.grpo_trainer", reason=WHY)

from gymwire.adapters import SessionFailed  # noqa: E402
from gymwire.servers.types import Ending, Outcome  # noqa: E402
from gymwire.trainer.collect import Batch, Group  # noqa: E402
from gymwire.trainer.grpo import Sample  # noqa: E402
from gymwire.trainer.rollout import Trace  # noqa: E402
from gymwire.trainer.samples import samples_of  # noqa: E402

from tests.trainer.scripted import train_book  # noqa: E402

END_OF_TURN = 7


def trace(ending: Ending) -> Trace:
    book = train_book(1)
    made = Trace(book.episode(book.names[0]), [1, 2], [3, 4, END_OF_TURN], [1, 0, 1], [-0.5, 0.0, -0.1])
    if ending is Ending.FAILED:
        made.failure = SessionFailed("session_lost", "gone", "call")
    else:
        made.outcome = Outcome(ending, 0.5)
    return made


def sample(ending: Ending, *, mask_cut: bool = False, dropped: bool = False) -> Sample:
    group = Group("row", [trace(ending)], dropped)
    [made] = samples_of(Batch([group], 0, [group]), None, mask_cut=mask_cut, stub_id=9)
    return made


@pytest.mark.parametrize(
    ("ending", "mask_cut", "sampled"),
    [
        (Ending.FINISHED, False, [1, 0, 1]),
        (Ending.FINISHED, True, [1, 0, 1]),
        (Ending.CUT, False, [1, 0, 1]),
        (Ending.CUT, True, [0, 0, 0]),  # X12: though its last token is the end of a turn
    ],
)
def test_a_cut_episode_is_scored_and_loses_its_loss_only_where_asked(
    ending: Ending, mask_cut: bool, sampled: list[int]
) -> None:
    made = sample(ending, mask_cut=mask_cut)
    assert (list(made.sampled), made.rewards) == (sampled, [0.5])


@pytest.mark.parametrize(("ending", "dropped"), [(Ending.FAILED, False), (Ending.FINISHED, True)])
def test_a_failed_or_dropped_session_has_no_reward_and_no_loss(ending: Ending, dropped: bool) -> None:
    made = sample(ending, dropped=dropped)
    assert made.failed and made.rewards is None and not any(made.sampled)
