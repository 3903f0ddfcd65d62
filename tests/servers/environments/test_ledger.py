from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from gymwire.servers import Row
from gymwire.servers.environments.arithmetic import BadExpression, as_decimal, calculate
from gymwire.servers.environments.ledger import Ledger, names_in

ROW = Row.of(
    'Was kostet es? Einträge: "Menge Kaffee", "Preis Kaffee".',
    language="de",
    kind="order",
    facts={"Menge Kaffee": "4 Stück", "Preis Kaffee": "3,10 EUR", "Löhne Köln": "9,00 EUR"},
    needed=["Menge Kaffee", "Preis Kaffee"],
    expression="4*3.10",
    cents=1240,
)


async def test_the_verdict_is_strict_and_evidence_counts_apart(Episode: Any) -> None:
    episode = Episode(Ledger, ROW)
    assert await episode.parts() == {"answer": 0.0, "evidence": 0.0}
    await episode.call("lookup", entry="Menge Kaffee")
    await episode.call("lookup", entry="Löhne Köln")
    assert await episode.parts() == {"answer": 0.0, "evidence": 0.1}
    await episode.call("lookup", entry="Preis Kaffee")
    assert (await episode.call("submit", amount=12.4)).done
    assert await episode.reward() == 1.0


@pytest.mark.parametrize("raw", ["12.40", "12.4", "1240e-2", "0.124E2"])
async def test_the_right_amount_in_any_spelling_of_a_number(Episode: Any, raw: str) -> None:
    episode = Episode(Ledger, ROW)
    await episode.send("submit", f'{{"amount": {raw}}}')
    assert (await episode.parts())["answer"] == 0.8


@pytest.mark.parametrize("raw", ["12", "12.41", "12.4000001", "-12.4", "1240", "1e308", "1e999", "NaN", "Infinity"])
async def test_any_other_amount_is_wrong(Episode: Any, raw: str) -> None:
    episode = Episode(Ledger, ROW)
    await episode.send("submit", f'{{"amount": {raw}}}')
    assert (await episode.parts())["answer"] == 0.0


@pytest.mark.parametrize("raw", ['"12.40"', "null", "true", "[12.4]", "12,4"])
async def test_an_amount_is_a_number(Episode: Any, raw: str) -> None:
    episode = Episode(Ledger, ROW)
    assert (await episode.send("submit", f'{{"amount": {raw}}}')).is_error
    assert episode.env.amount is None


@pytest.mark.parametrize("name", ["menge  KAFFEE", " Menge Kaffee ", "Löhne Köln", "Löhne Köln", "LÖHNE KÖLN"])
async def test_an_entry_is_found_whatever_its_case_spaces_and_unicode_form(Episode: Any, name: str) -> None:
    assert not (await Episode(Ledger, ROW).call("lookup", entry=name)).is_error


@pytest.mark.parametrize("name", ["", "*", "Kaffee", "facts", "__dict__", "Menge", "x" * 100_000, "\x00"])
async def test_an_unknown_entry_is_answered_without_a_hint(Episode: Any, name: str) -> None:
    result = await Episode(Ledger, ROW).call("lookup", entry=name)
    assert result.is_error
    assert result.text == "The ledger has no entry of that name."


def test_no_fact_and_no_answer_is_in_what_the_policy_sees() -> None:
    for split in Ledger.splits:
        for row in Ledger.rows(split, 64, 0):
            tools = [spec.tool.as_responses() for spec in Ledger.tool_specs.values()]
            seen = json.dumps([row.create_params(), tools], ensure_ascii=False)
            values = [value for value in row.data["facts"].values() if value]
            cents = row.data["cents"]
            values += [f"{cents // 100}{mark}{cents % 100:02}" for mark in ".,"] + [row.data["expression"]]
            assert not [value for value in values if value in seen]


def test_one_needed_entry_of_a_discount_is_named_by_another_fact_alone() -> None:
    rows = [row for row in Ledger.rows("train", 64, 0) if row.data["kind"] == "discount"]
    for row in rows:
        hidden = set(row.data["needed"]) - set(names_in(row.prompt[-1]["content"]))
        assert len(hidden) == 1
        assert hidden <= set(row.data["facts"].values())


async def test_errors_of_the_calculator_show_nothing_of_the_ledger(Episode: Any) -> None:
    for expression in ["Menge Kaffee * 2", "self.data", "1/0", "(" * 60, ""]:
        result = await Episode(Ledger, ROW).call("calculator", expression=expression)
        assert result.is_error
        assert not [value for value in ROW.data["facts"].values() if value in result.text]


@pytest.mark.parametrize("split", Ledger.splits)
def test_half_of_the_rows_are_german_and_the_kinds_are_even(split: str) -> None:
    rows = list(Ledger.rows(split, None, 0))
    counted = Counter((row.data["language"], row.data["kind"]) for row in rows)
    assert len(counted) == 8
    assert set(counted.values()) == {len(rows) // 8}


def test_the_answer_is_what_the_facts_give() -> None:
    for row in Ledger.rows("train", None, 0):
        assert calculate(row.data["expression"]) * 100 == row.data["cents"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1+2*3", "7"),
        ("(1,5 + 2) * 2", "7"),
        ("-2^2", "-4"),
        ("2^3^2", "512"),
        ("2**-1", "0.5"),
        ("8-3-2", "3"),
        ("12/4/3", "1"),
        ("0.1+0.2", "0.3"),
        ("10/3", "about 3.333333"),
        ("-1/3", "about -0.333333"),
        ("2 × 3 − 1", "5"),  # noqa: RUF001
        ("1-1", "0"),
        ("--1", "1"),
    ],
)
def test_arithmetic(expression: str, value: str) -> None:
    assert as_decimal(calculate(expression)) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1 2",
        "1+",
        ")",
        "(1",
        "1/0",
        "0^-1",
        "2^0.5",
        "2^21",
        "9^20^20",
        "*".join(["9^20"] * 30),
        "(" * 190 + "1",
        "-" * 190 + "1",
        "1" * 201,
        "1e5",
        "0x10",
        "1_000",
        "1.2.3",
        "abs(1)",
        "__import__('os')",
        "\u0661+1",
        "\ud800",
        "1;1",
        "1\x00",
    ],
)
def test_what_is_no_arithmetic_or_too_much_of_it_is_refused(expression: str) -> None:
    with pytest.raises(BadExpression) as caught:
        calculate(expression)
    assert str(caught.value).encode()
    assert len(str(caught.value)) < 120
