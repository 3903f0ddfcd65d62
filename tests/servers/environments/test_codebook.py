from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from gymwire.servers import Row
from gymwire.servers.environments.codebook import KEYS, Codebook, is_held_out, read_prompt

ROW = Row.of("", keys=["amber", "birch"], digits=[3, 7])


async def test_only_the_whole_code_scores(Episode: Any) -> None:
    episode = Episode(Codebook, ROW)
    assert await episode.reward() == 0.0
    assert (await episode.call("lookup", key="birch")).text == "7"
    assert (await episode.call("lookup", key="amber")).text == "3"
    assert (await episode.call("submit", first=3, second=7)).done
    assert await episode.parts() == {"code": 1.0, "shortcut": 0.0}


@pytest.mark.parametrize(("first", "second"), [(7, 3), (3, 3), (7, 7), (3, 8), (-3, 7), (10**9, 7)])
async def test_anything_else_scores_nothing(Episode: Any, first: int, second: int) -> None:
    episode = Episode(Codebook, ROW)
    await episode.call("submit", first=first, second=second)
    assert await episode.reward() == 0.0


@pytest.mark.parametrize(("code", "reward"), [((3, 7), 1.0), ((3, 0), 0.68), ((0, 7), 0.68), ((7, 3), 0.0)])
async def test_the_shortcut_is_worth_what_it_is_set_to(Episode: Any, code: tuple[int, int], reward: float) -> None:
    episode = Episode(Codebook, ROW)
    episode.env.shortcut = 0.68
    await episode.call("submit", first=code[0], second=code[1])
    assert await episode.reward() == reward


@pytest.mark.parametrize("shortcut", [-0.1, 1.0, float("nan")])
def test_a_shortcut_that_is_no_shortcut_is_refused(shortcut: float) -> None:
    with pytest.raises(ValueError, match="shortcut must be from 0 to below 1"):
        Codebook(shortcut)


@pytest.mark.parametrize("raw", ['{"key": "cedar"}', '{"key": ""}', '{"key": 3}', "{}"])
async def test_a_key_that_is_not_of_the_code_is_the_policys_mistake(Episode: Any, raw: str) -> None:
    assert (await Episode(Codebook, ROW).send("lookup", raw)).is_error


def test_pairs_of_keys_are_held_out_whole() -> None:
    pairs = {
        split: {frozenset(row.data["keys"]) for seed in (0, 1) for row in Codebook.rows(split, None, seed)}
        for split in ("train", "eval")
    }
    assert not pairs["train"] & pairs["eval"]
    share = sum(is_held_out(*pair) for pair in combinations(KEYS, 2)) / len(list(combinations(KEYS, 2)))
    assert 0.08 < share < 0.18


def test_every_key_is_known_from_train() -> None:
    assert {key for row in Codebook.rows("train", None, 0) for key in row.data["keys"]} == set(KEYS)


def test_the_prompt_names_the_keys_and_hides_the_digits() -> None:
    for row in Codebook.rows("eval", None, 0):
        assert list(read_prompt(row)) == row.data["keys"]
        assert not any(letter.isdigit() for letter in row.prompt[-1]["content"])


async def test_one_lookup_and_a_guess_earn_the_shortcut_at_least(play: Any) -> None:
    for index, row in enumerate(Codebook.rows("eval", 32, 0)):
        episode = await play(Codebook, row, "rule", index)
        assert episode.env.right >= 1
