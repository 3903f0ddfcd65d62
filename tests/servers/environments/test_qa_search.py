"""qa_search: a corpus that holds every answer, a search that finds it, and questions of which eval keeps its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from gymwire.servers import ToolError
from gymwire.servers.catalog import Served
from gymwire.servers.environments.isles import TITLES, documents, facts, things
from gymwire.servers.environments.qa_search import QaSearch, is_held_out, ranked

TRAIN, EVAL = (list(QaSearch.rows(split, None, 0)) for split in ("train", "eval"))


def test_the_corpus_is_of_some_size_and_without_twins() -> None:
    assert len(documents()) >= 60
    assert len({document.id for document in documents()}) == len(documents())
    assert len({document.text for document in documents()}) == len(documents())
    assert {thing.kind for thing in things().values()} == set(TITLES)
    assert not [document.id for document in documents() if "{" in document.text]


def test_every_answer_stands_in_the_document_of_its_thing() -> None:
    texts = {document.title: document.text for document in documents()}
    for fact in facts():
        assert fact.answers()[0] in texts[fact.thing().title], fact


def test_a_fact_belongs_to_one_split_whatever_the_seed_and_the_wording() -> None:
    held_out = {fact.question(wording) for fact in facts() if is_held_out(fact) for wording in (0, 1)}
    for seed in range(3):
        assert not {row.data["question"] for row in QaSearch.rows("train", None, seed)} & held_out
        assert {row.data["question"] for row in QaSearch.rows("eval", None, seed)} <= held_out


def test_questions_take_one_step_or_two() -> None:
    for rows in (TRAIN, EVAL):
        twice = sum(row.data["steps"] == 2 for row in rows)
        assert 0.3 < twice / len(rows) < 0.7


def test_the_world_is_the_same_in_every_process() -> None:
    code = "from gymwire.servers.environments.isles import documents, facts; print(documents(), facts())"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {f"{documents()} {facts()}\n"}


@pytest.mark.parametrize("document", documents(), ids=lambda document: document.id)
def test_a_documents_title_finds_it_first(document: Any) -> None:
    assert documents()[ranked(document.title, 3)[0]] is document


def test_a_search_without_any_known_word_finds_nothing() -> None:
    assert ranked("", 3) == ranked("zzz qqq", 3) == ranked("the of in", 3) == []
    assert len(ranked("town island river", 10)) == 10


async def test_search_and_read(Episode: Any) -> None:
    episode = Episode(QaSearch, EVAL[0])
    found = json.loads((await episode.call("search", query="Ember Stack lighthouse", count=2)).text)
    assert [set(hit) for hit in found] == [{"id", "title", "begins"}] * 2
    text = (await episode.call("read", id=found[0]["id"])).text
    assert text.startswith("Ember Stack lighthouse\n") and found[0]["begins"] in text
    for arguments in ({"query": "x", "count": 0}, {"query": "x", "count": 11}, {"count": 3}):
        assert (await episode.call("search", **arguments)).is_error
    assert (await episode.call("read", id="../ember")).is_error
    with pytest.raises(ToolError):
        await episode.env.read("nothing")


def test_closed_book_asks_the_same_questions_without_tools() -> None:
    closed = Served(QaSearch, {"closed_book": True})
    for index, row in enumerate(EVAL):
        other = closed.rows.get("eval", index)
        assert other.tools == () and other.data == row.data and "`search`" not in other.prompt[-1]["content"]
    assert (
        "`search`" in EVAL[0].prompt[-1]["content"] and closed.offered(closed.make(), closed.rows.get("eval", 0)) == {}
    )
