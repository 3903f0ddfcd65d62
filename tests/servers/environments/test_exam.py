"""exam: its questions have one right option, wherever that stands."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from gymwire.servers import Transcript
from gymwire.servers.catalog import Served
from gymwire.servers.environments.exam import DAYS, LETTERS, PRIMES, Exam, roman

ROWS = list(Exam.rows("train", None, 0))
SHUFFLED = list(Exam.rows("train", None, 0, shuffle=True))


def right(row: Any) -> str:
    return row.data["options"][LETTERS.index(row.data["expected_answer"])]


def test_every_topic_is_asked_and_options_differ() -> None:
    assert len(Counter(row.data["topic"] for row in ROWS)) == 8
    assert all(len(set(row.data["options"])) == 4 for row in ROWS)


def test_the_right_option_is_right() -> None:
    """Reckoned anew where the question is enough for it."""
    for row in ROWS:
        words = row.data["question"].strip("?").replace(".", "").split()
        if row.data["topic"] == "arithmetic":
            assert int(right(row)) == eval(" ".join(words[2:]))
        if row.data["topic"] == "calendar":
            assert right(row) == DAYS[(DAYS.index(words[2]) + int(words[-2])) % 7]
        if row.data["topic"] == "primes":
            assert [int(option) in PRIMES for option in row.data["options"]].count(True) == 1
            assert int(right(row)) in PRIMES
        if row.data["topic"] == "numerals":
            assert roman(int(right(row))) == words[3]
        if row.data["topic"] == "areas":
            assert int(right(row)) == int(words[3]) * int(words[7])


def test_shuffled_questions_are_the_same_ones_in_another_order() -> None:
    for plain, mixed in zip(ROWS, SHUFFLED, strict=True):
        assert plain.data["question"] == mixed.data["question"] and right(plain) == right(mixed)
        assert sorted(plain.data["options"]) == sorted(mixed.data["options"])
        listed = [f"{letter}: {text}" for letter, text in zip(LETTERS, mixed.data["options"], strict=True)]
        assert mixed.prompt[-1]["content"].split("\n")[1:] == listed
    moved = sum(plain.data["options"] != mixed.data["options"] for plain, mixed in zip(ROWS, SHUFFLED, strict=True))
    assert moved > 450
    places = Counter(row.data["expected_answer"] for row in SHUFFLED)
    assert max(places.values()) < 1.3 * min(places.values())


def test_a_server_shuffles_by_its_setting() -> None:
    assert Served(Exam, {"shuffle": True}).rows.get("train", 0) == SHUFFLED[0]
    assert Served(Exam).rows.get("train", 0) == ROWS[0]


@pytest.mark.parametrize(("said", "reward"), [("\\boxed{%s}", 1.0), ("%s", 0.0), ("\\boxed{%s}\\boxed{", 0.0)])
async def test_only_a_boxed_letter_scores(Episode: Any, said: str, reward: float) -> None:
    episode = Episode(Exam, ROWS[0])
    answer = said % ROWS[0].data["expected_answer"]
    parts = await episode.env.verify(Transcript([{"role": "assistant", "content": answer}]))
    assert parts == {"correct": reward}
