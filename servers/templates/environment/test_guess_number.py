"""The environment's own promises. Episodes run in this process, through the same session engine as on a wire."""

from __future__ import annotations

import asyncio
from random import Random
from statistics import mean

from guess_number import GuessNumber
from gymwire.adapters import Played, connect, drive

ROWS = list(GuessNumber.rows("eval", None, 0))


async def play(policy: str) -> list[Played]:
    """One episode of every row of the eval split, played by a scripted policy."""
    played = []
    async with connect(GuessNumber) as environment:
        for index, row in enumerate(ROWS):
            async with environment.session(split="eval", index=index) as session:
                played.append(await drive(session, GuessNumber.policies[policy](row, Random(index))))
    return played


def rewards(policy: str) -> list[float]:
    played = asyncio.run(play(policy))
    assert not any(episode.masked for episode in played), "a masked episode means that the environment broke"
    return [episode.reward for episode in played if episode.reward is not None]


def test_equal_arguments_give_equal_rows() -> None:
    assert list(GuessNumber.rows("train", 5, 1)) == list(GuessNumber.rows("train", 5, 1))
    assert list(GuessNumber.rows("train", 5, 1)) != list(GuessNumber.rows("train", 5, 2))


def test_a_better_policy_earns_more() -> None:
    assert mean(rewards("oracle")) == 1.0
    assert mean(rewards("oracle")) > mean(rewards("rule")) > mean(rewards("random"))


def test_a_mistake_is_told_and_the_episode_goes_on() -> None:
    async def episode() -> tuple[bool, str]:
        async with connect(GuessNumber) as environment, environment.session(split="eval", index=0) as session:
            wrong = await session.call("guess", {"n": "many"})
            right = await session.call("guess", {"n": ROWS[0].data["secret"]})
            return wrong.is_error, right.text

    assert asyncio.run(episode()) == (True, "right")
