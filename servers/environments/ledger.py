"""Ledger: find the facts, do the arithmetic, hand in one amount. Prompts are in German and in English.

Facts are private: only `lookup` shows one, by its entry's name, and some are named by another fact alone. 0.8
of the reward is a strict verdict on the amount (to the cent, no tolerance), 0.2 the share of the needed facts
that were looked up. Without `submit` the verdict is 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Literal
from unicodedata import normalize

from pydantic import BaseModel

from ..environment import Environment, ToolError, tool
from ..policies import Call, Script
from ..rows import draw_rows
from ..types import Json, Row, Transcript
from .arithmetic import BadExpression, as_decimal, calculate
from .ledger_texts import LANGUAGES, Texts

SIZES = {"train": 512, "eval": 128}
ANSWER, EVIDENCE = 0.8, 0.2
#: Cents that a branch may book, least and most; the revenue always covers the rest.
BRANCH_LIMITS = {"revenue": (900_000, 2_000_000), "wages": (200_000, 600_000), "rent": (50_000, 250_000)}


@dataclass
class Task:
    """A question, the entries its prompt names, and those that only another entry leads to."""

    question: str
    named: dict[str, str]
    needed: list[str]
    expression: str
    cents: int
    hidden: dict[str, str]


def draw(rng: Random, index: int) -> Row:
    """Languages alternate, and so do the kinds of task: any eight rows in a row hold one of each."""
    language = tuple(LANGUAGES)[index % len(LANGUAGES)]
    kind = tuple(KINDS)[index // len(LANGUAGES) % len(KINDS)]
    task = KINDS[kind](rng, LANGUAGES[language])
    names = list(task.named)
    rng.shuffle(names)
    quoted = ", ".join(f'"{name}"' for name in names)
    return Row.of(
        LANGUAGES[language].frame.format(question=task.question, names=quoted),
        language=language,
        kind=kind,
        facts=task.named | task.hidden,
        needed=task.needed,
        expression=task.expression,
        cents=task.cents,
    )


def _order(rng: Random, texts: Texts) -> Task:
    town, other_town = rng.sample(texts.towns, 2)
    article, other_article = rng.sample(texts.articles, 2)
    quantity, price, fee = rng.randint(3, 40), rng.randint(125, 4999), rng.randint(490, 3990)
    name = texts.entries
    needed = {
        name["quantity"].format(article): texts.pieces.format(quantity),
        name["price"].format(article): texts.euros(price),
        name["delivery"].format(town): texts.euros(fee),
    }
    others = {
        name["quantity"].format(other_article): texts.pieces.format(rng.randint(3, 40)),
        name["price"].format(other_article): texts.euros(rng.randint(125, 4999)),
        name["delivery"].format(other_town): texts.euros(rng.randint(490, 3990)),
    }
    question = texts.questions["order"].format(article=article, town=town)
    expression = f"{quantity}*{_number(price)}+{_number(fee)}"
    return Task(question, needed | others, list(needed), expression, quantity * price + fee, {})


def _discount(rng: Random, texts: Texts) -> Task:
    customer, other = rng.sample(texts.customers, 2)
    number, other_number = rng.sample(range(1000, 10_000), 2)
    percents = dict(zip("ABC", rng.sample(range(2, 26), 3), strict=True))
    group, other_group = rng.sample("ABC", 2)
    euros = rng.randint(40, 2500)
    name = texts.entries
    group_entry = name["group"].format
    invoice, account = name["invoice"].format(number), name["customer"].format(customer)
    named = {
        invoice: texts.euros(100 * euros),
        account: group_entry(group),
        name["invoice"].format(other_number): texts.euros(100 * rng.randint(40, 2500)),
        name["customer"].format(other): group_entry(other_group),
    }
    hidden = {group_entry(letter): f"{percent} %" for letter, percent in percents.items()}
    question = texts.questions["discount"].format(customer=customer, number=number)
    rest = 100 - percents[group]
    expression = f"{euros}*(100-{percents[group]})/100"
    return Task(question, named, [invoice, account, group_entry(group)], expression, euros * rest, hidden)


def _balance(rng: Random, texts: Texts) -> Task:
    town, other = rng.sample(texts.towns, 2)

    amounts = {place: [rng.randint(*limits) for limits in BRANCH_LIMITS.values()] for place in (town, other)}
    named = {
        texts.entries[key].format(place): texts.euros(cents)
        for place in (town, other)
        for key, cents in zip(BRANCH_LIMITS, amounts[place], strict=True)
    }
    needed = [texts.entries[key].format(town) for key in BRANCH_LIMITS]
    revenue, wages, rent = amounts[town]
    expression = f"{_number(revenue)}-{_number(wages)}-{_number(rent)}"
    question = texts.questions["balance"].format(town=town)
    return Task(question, named, needed, expression, revenue - wages - rent, {})


def _shares(rng: Random, texts: Texts) -> Task:
    project, other = rng.sample(texts.projects, 2)

    def costs(name: str, partners: int, share: int) -> dict[str, str]:
        return {
            texts.entries["costs"].format(name): texts.euros(partners * share),
            texts.entries["partners"].format(name): texts.partners.format(partners),
        }

    partners, share = rng.randint(2, 9), rng.randint(1050, 99_999)
    needed = costs(project, partners, share)
    others = costs(other, rng.randint(2, 9), rng.randint(1050, 99_999))
    question = texts.questions["shares"].format(project=project)
    return Task(question, needed | others, list(needed), f"{_number(partners * share)}/{partners}", share, {})


KINDS: dict[str, Callable[[Random, Texts], Task]] = {
    "order": _order,
    "discount": _discount,
    "balance": _balance,
    "shares": _shares,
}


def _number(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def names_in(prompt: str) -> list[str]:
    return re.findall(r'"([^"]+)"', prompt)


def random(row: Row, rng: Random) -> Script:
    """Looks up two entries that the prompt names, and hands in any amount."""
    for name in rng.sample(names_in(row.prompt[-1]["content"]), 2):
        yield Call("lookup", {"entry": name})
    yield Call("submit", {"amount": rng.randint(100, 99_999) / 100})
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Looks up what the question speaks of and subtracts the other amounts from the largest, always."""
    prompt = row.prompt[-1]["content"]
    question = prompt.split("\n")[0]
    amounts = []
    for name in names_in(prompt):
        if name.split(" ", 1)[1] in question:
            result = yield Call("lookup", {"entry": name})
            amounts += re.findall(r"(\d+[.,]\d\d) EUR", result.text)
    amounts.sort(key=lambda text: -float(text.replace(",", ".")))
    result = yield Call("calculator", {"expression": "-".join(amounts)})
    yield Call("submit", {"amount": float(result.text)})
    return "Done."


def oracle(row: Row, rng: Random) -> Script:
    for name in row.data["needed"]:
        yield Call("lookup", {"entry": name})
    result = yield Call("calculator", {"expression": row.data["expression"]})
    yield Call("submit", {"amount": float(result.text)})
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Ledger(Environment):
    """Look up facts in a ledger, calculate, and hand in the amount that was asked for."""

    splits = tuple(SIZES)
    max_turns = 12
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        language: Literal["de", "en"]
        kind: str
        facts: dict[str, str]
        needed: list[str]
        expression: str
        cents: int

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.set_state({"read": [], "amount": None})

    @tool
    async def lookup(self, entry: str) -> str:
        """Read one entry of the ledger.

        Args:
            entry: The entry's name, such as "rent Leeds" or "Miete Ulm".
        """
        name = self.entries.get(_key(entry))
        if name is None:
            raise ToolError("The ledger has no entry of that name.")
        self.read.add(name)
        return f"{name}: {self.data.facts[name]}"

    @tool(read_only=True)
    def calculator(self, expression: str) -> str:
        """Calculate with + - * / ^ and brackets. Write numbers without thousands separators.

        Args:
            expression: Such as "(12.50 + 3) * 4".
        """
        try:
            return as_decimal(calculate(expression))
        except BadExpression as error:
            raise ToolError(f"The calculator cannot read that: {error}.") from None

    @tool(ends=True)
    async def submit(self, amount: float) -> str:
        """Hand in the amount in EUR. This ends the task.

        Args:
            amount: A number such as 1234.5.
        """
        self.amount = amount
        return "The amount was handed in."

    def get_state(self) -> Json:
        return {"read": sorted(self.read), "amount": self.amount}

    def set_state(self, state: Json) -> None:
        self.entries: dict[str, str] = {_key(name): name for name in self.data.facts}
        self.read: set[str] = set(state["read"])
        self.amount: float | None = state["amount"]

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        right = self.amount is not None and Decimal(repr(self.amount)) * 100 == self.data.cents
        needed = set(self.data.needed)
        share = len(needed & self.read) / len(needed) if needed else 1.0
        return {"answer": ANSWER * right, "evidence": EVIDENCE * share}


def _key(name: str) -> str:
    return " ".join(normalize("NFC", name[:200]).casefold().split())
