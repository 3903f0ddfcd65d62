from __future__ import annotations

from typing import Any

import pytest
from gymwire.servers import Row
from gymwire.servers.environments.counter import Counter

ROW = Row.of("Bring the counter to exactly 25.", start=5, target=25)


async def test_half_of_the_reward_is_the_way_and_half_the_arrival(Episode: Any) -> None:
    episode = Episode(Counter, ROW)
    assert await episode.parts() == {"closer": 0.0, "exact": 0.0}
    await episode.call("add", n=10)
    assert await episode.parts() == {"closer": 0.25, "exact": 0.0}
    await episode.call("add", n=10)
    assert (await episode.call("read")).text == "25"
    assert await episode.parts() == {"closer": 0.5, "exact": 0.5}


async def test_walking_away_scores_nothing_and_never_less(Episode: Any) -> None:
    episode = Episode(Counter, ROW)
    for _ in range(5):
        await episode.call("add", n=-10)
    assert await episode.reward() == 0.0


@pytest.mark.parametrize("raw", ['"5"', "1.0", "true", "null", "[1]", "11", "-11", "1" + "0" * 400])
async def test_odd_steps_are_the_policys_mistake_and_change_nothing(Episode: Any, raw: str) -> None:
    episode = Episode(Counter, ROW)
    assert (await episode.send("add", f'{{"n": {raw}}}')).is_error
    assert (await episode.call("read")).text == "5"


async def test_a_counter_that_begins_on_its_target_is_won_by_leaving_it_alone(Episode: Any) -> None:
    episode = Episode(Counter, Row.of("", start=3, target=3))
    assert await episode.reward() == 1.0
    await episode.call("add", n=1)
    assert await episode.reward() == 0.0


def test_the_start_is_hidden_and_the_target_is_not() -> None:
    for row in Counter.rows("train", None, 0):
        prompt = row.prompt[-1]["content"]
        assert f"exactly {row.data['target']}." in prompt
        assert str(row.data["start"]) not in prompt.replace(str(row.data["target"]), "").replace("10", "")
