from __future__ import annotations

import json
from typing import Any

import pytest
from gymwire.servers import Row
from gymwire.servers.environments.checkout import Checkout, read_prompt, solve

PRICES = {"milk-1": 250, "bread-2": 400, "eggs-3": 350, "kale-4": 900}
ROW = Row.of("", prices=PRICES, budget=1000)


async def fill(episode: Any, *articles: str) -> None:
    for sku in articles:
        assert not (await episode.call("add_item", sku=sku)).is_error


async def test_exactly_the_budget_scores_1(Episode: Any) -> None:
    episode = Episode(Checkout, ROW)
    await fill(episode, "milk-1", "bread-2", "eggs-3")
    assert await episode.reward() == 0.0
    result = await episode.call("pay")
    assert (result.text, result.done) == ("Paid 10.00 EUR.", True)
    assert await episode.reward() == 1.0


async def test_a_basket_below_the_budget_scores_its_share(Episode: Any) -> None:
    episode = Episode(Checkout, ROW)
    await fill(episode, "kale-4")
    await episode.call("pay")
    assert await episode.parts() == {"filled": pytest.approx(0.27), "exact": 0.0}


async def test_too_much_or_nothing_cannot_be_paid_and_may_be_mended(Episode: Any) -> None:
    episode = Episode(Checkout, ROW)
    assert (await episode.call("pay")).is_error
    await fill(episode, "kale-4", "bread-2")
    result = await episode.call("pay")
    assert result.is_error
    assert result.text == "The basket costs 13.00 EUR, more than 10.00 EUR."
    assert await episode.reward() == 0.0
    await episode.call("remove_item", sku="kale-4")
    await fill(episode, "milk-1", "eggs-3")
    shown = json.loads((await episode.call("view_basket")).text)
    assert shown == {"items": ["bread-2", "milk-1", "eggs-3"], "total": "10.00", "budget": "10.00"}
    await episode.call("pay")
    assert await episode.reward() == 1.0


@pytest.mark.parametrize("sku", ["", "milk", "MILK-1", "milk-1 ", "x" * 100_000, "__class__", "\x00"])
async def test_unknown_articles_are_refused(Episode: Any, sku: str) -> None:
    episode = Episode(Checkout, ROW)
    for tool in ("add_item", "remove_item"):
        result = await episode.call(tool, sku=sku)
        assert result.is_error
        assert len(result.text) < 100
    assert episode.env.basket == []


async def test_there_is_one_piece_of_each_article(Episode: Any) -> None:
    episode = Episode(Checkout, ROW)
    await fill(episode, "milk-1")
    assert (await episode.call("add_item", sku="milk-1")).is_error
    await episode.call("remove_item", sku="milk-1")
    assert (await episode.call("remove_item", sku="milk-1")).is_error
    await fill(episode, "milk-1")


@pytest.mark.parametrize("raw", ["{}", '{"sku": 1}', '{"sku": null}', '{"sku": ["milk-1"]}', '{"sku": "a", "n": 2}'])
async def test_arguments_are_strict(Episode: Any, raw: str) -> None:
    assert (await Episode(Checkout, ROW).send("add_item", raw)).is_error


def test_solve_finds_a_subset_or_says_that_there_is_none() -> None:
    assert solve(PRICES, 1000) == ["milk-1", "bread-2", "eggs-3"]
    assert solve(PRICES, 999) is None


def test_the_prompt_says_prices_and_budget_but_not_the_basket() -> None:
    for row in Checkout.rows("eval", None, 0):
        prices, budget = read_prompt(row)
        assert {"prices": prices, "budget": budget} == row.data
        assert list(prices) != solve(prices, budget)
