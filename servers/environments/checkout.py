"""Checkout: fill a basket so that it costs exactly the budget, then pay.

There is one piece of each article. What costs more than the budget cannot be paid. A paid basket scores 0.3
times the share of the budget that was spent, and 0.7 more when that is all of it; an unpaid one scores 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated

from pydantic import BaseModel, Field

from ..environment import Environment, ToolError, tool
from ..policies import Call, Script
from ..rows import draw_rows
from ..types import Json, Row, Transcript

SIZES = {"train": 512, "eval": 128}
FILLED, EXACT = 0.3, 0.7
ARTICLES = ("apple", "bread", "cheese", "dates", "eggs", "flour", "grapes", "honey", "juice", "kale", "milk")


def solve(prices: Mapping[str, int], budget: int) -> list[str] | None:
    """Articles that cost exactly the budget together, or None: reach[sum] is how a sum was reached first."""
    reach: dict[int, list[str]] = {0: []}
    for sku, price in prices.items():
        for total, chosen in list(reach.items()):
            if total + price <= budget:
                reach.setdefault(total + price, [*chosen, sku])
    return reach.get(budget)


def draw(rng: Random, index: int) -> Row:
    articles = rng.sample(ARTICLES, rng.randint(7, 10))
    prices = {f"{name}-{rng.randint(10, 99)}": rng.randint(100, 1500) for name in articles}
    budget = sum(prices[sku] for sku in rng.sample(list(prices), rng.randint(3, 5)))
    return Row.of(_prompt(prices, budget), prices=prices, budget=budget)


def _prompt(prices: Mapping[str, int], budget: int) -> str:
    table = "\n".join(f"{sku} {euros(price)}" for sku, price in prices.items())
    return (
        f"Fill the basket so that it costs exactly {euros(budget)} EUR, then pay. There is one piece of each "
        f"article. Articles and their prices in EUR:\n{table}"
    )


def euros(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def read_prompt(row: Row) -> tuple[dict[str, int], int]:
    """The prices and the budget in cents, as any reader of the prompt can know them."""
    about, table = row.prompt[-1]["content"].split(":\n")
    prices = {sku: _cents(price) for sku, price in (line.split(" ") for line in table.split("\n"))}
    return prices, _cents(re.findall(r"exactly ([0-9.]+) EUR", about)[0])


def _cents(text: str) -> int:
    return int(text.replace(".", ""))


def random(row: Row, rng: Random) -> Script:
    """Puts up to four articles in the basket, any of them, and pays if it can."""
    prices, _ = read_prompt(row)
    for sku in rng.sample(list(prices), rng.randint(1, 4)):
        yield Call("add_item", {"sku": sku})
    yield Call("pay")
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Takes the dearest article that still fits, again and again."""
    prices, left = read_prompt(row)
    for sku, price in sorted(prices.items(), key=lambda item: -item[1]):
        if price <= left:
            yield Call("add_item", {"sku": sku})
            left -= price
    yield Call("pay")
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    """Solves the subset sum."""
    for sku in solve(row.data["prices"], row.data["budget"]) or []:
        yield Call("add_item", {"sku": sku})
    yield Call("pay")
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Checkout(Environment):
    """Fill the basket so that it costs exactly the budget, then pay."""

    splits = tuple(SIZES)
    max_turns = 16
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        prices: dict[str, Annotated[int, Field(gt=0)]]  # cents
        budget: Annotated[int, Field(gt=0)]  # cents

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.basket: list[str] = []
        self.paid = False

    def total(self) -> int:
        return sum(self.data.prices[sku] for sku in self.basket)

    @tool
    async def add_item(self, sku: str) -> str:
        """Put an article in the basket.

        Args:
            sku: The article as the list writes it, such as "milk-42".
        """
        if sku not in self.data.prices:
            raise ToolError("There is no such article.")
        if sku in self.basket:
            raise ToolError(f"{sku} is in the basket already; there is one piece of it.")
        self.basket.append(sku)
        return self._costs()

    @tool
    async def remove_item(self, sku: str) -> str:
        """Take an article out of the basket.

        Args:
            sku: An article that is in the basket.
        """
        if sku not in self.basket:
            raise ToolError("That article is not in the basket.")
        self.basket.remove(sku)
        return self._costs()

    @tool(read_only=True)
    async def view_basket(self) -> Json:
        """Show the basket, what it costs, and the budget."""
        return {"items": list(self.basket), "total": euros(self.total()), "budget": euros(self.data.budget)}

    @tool(ends=True)
    async def pay(self) -> str:
        """Pay for the basket. This ends the task."""
        total = self.total()
        if not self.basket:
            raise ToolError("The basket is empty.")
        if total > self.data.budget:
            raise ToolError(f"The basket costs {euros(total)} EUR, more than {euros(self.data.budget)} EUR.")
        self.paid = True
        return f"Paid {euros(total)} EUR."

    def _costs(self) -> str:
        return f"The basket costs {euros(self.total())} EUR."

    def get_state(self) -> Json:
        return {"basket": list(self.basket), "paid": self.paid}

    def set_state(self, state: Json) -> None:
        self.basket, self.paid = list(state["basket"]), state["paid"]

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        spent = self.total() if self.paid else 0
        return {"filled": FILLED * (spent / self.data.budget), "exact": EXACT * (spent == self.data.budget)}
