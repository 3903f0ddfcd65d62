"""QA search: answer questions about an invented archipelago from a small local corpus.

`search` ranks documents by BM25, `read` shows one; half of the questions need two documents. With the setting
`closed_book` there are no tools: the same questions then show what a policy knows without reading, which is what it can
guess. The reward is that of the grader `qa_match`: one half for an exact match, one half for the overlap of words.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from ..environment import DefinitionError, Environment, ToolError, tool
from ..graders.text import qa_match
from ..policies import Call, Script
from ..types import Json, Row, RowError, Transcript
from .isles import COLOURS, ISLANDS, MATERIALS, MONTHS, ROCKS, TOWNS, WEEKDAYS, Fact, documents, facts

if TYPE_CHECKING:
    from bm25s import BM25

SIZES = {"train": 512, "eval": 64}
#: Of four facts, one is asked for in eval alone.
HELD_OUT_SHARE = 4
HITS, MAX_HITS, PREVIEW = 3, 10, 90
ASK = "Answer this question about the Harrow Isles in as few words as possible. End with a line such as\nAnswer: Monday"
WITH_TOOLS = "`search` finds documents, `read` shows one of them whole."
_WORD = re.compile(r"[a-z0-9]+")
_NO_KEYWORDS = frozenset(
    {"the", "of", "in", "is", "a", "at", "on", "which", "what", "does", "when", "was", "how", "many", "one"}
    | {"to", "and", "it", "has", "where", "by", "that", "for"}
)


def words(text: str) -> list[str]:
    """What is indexed and looked up: words in lower case, without those that stand everywhere."""
    return [word for word in _WORD.findall(text.lower()) if word not in _NO_KEYWORDS]


@cache
def index() -> BM25:
    """The index of the corpus. Raises `DefinitionError` where the library is not installed."""
    try:
        from bm25s import BM25
    except ModuleNotFoundError:
        raise DefinitionError("qa_search needs bm25s: pip install 'gymwire[search]'") from None
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it tells of every index, at a level of its own
    made = BM25()
    made.index([words(f"{document.title} {document.text}") for document in documents()], show_progress=False)
    return made


def ranked(query: str, count: int) -> list[int]:
    """Positions of the documents that fit a query, the best first; of equal ones the earlier."""
    known = index().vocab_dict
    asked = [word for word in words(query) if word in known]
    if not asked:
        return []
    scores = [round(float(score), 5) for score in index().get_scores(asked)]
    order = sorted(range(len(scores)), key=lambda position: (-scores[position], position))
    return [position for position in order[:count] if scores[position] > 0]


def is_held_out(fact: Fact) -> bool:
    """Whether a fact belongs to eval alone, whatever the seed and the wording."""
    return sha256(f"{fact.subject}/{fact.via}/{fact.field}".encode()).digest()[0] % HELD_OUT_SHARE == 0


def _questions(split: str, rng: Random) -> list[tuple[Fact, int]]:
    """All facts of a split in any order, each in one of its wordings; then all of them in the other one."""
    known = [fact for fact in facts() if is_held_out(fact) == (split == "eval")]
    first = [(fact, rng.randrange(2)) for fact in rng.sample(known, len(known))]
    return first + [(fact, 1 - wording) for fact, wording in first]


def row_of(fact: Fact, wording: int, closed_book: bool) -> Row:
    question = fact.question(wording)
    prompt = f"{ASK}\n\n{question}" if closed_book else f"{ASK}\n{WITH_TOOLS}\n\n{question}"
    row = Row.of(prompt, question=question, answers=fact.answers(), steps=2 if fact.via else 1)
    return Row(row.prompt, row.data, tools=() if closed_book else None)


def random(row: Row, rng: Random) -> Script:
    """Searches for one word of the question, and answers with a word of what it finds."""
    question = row.prompt[-1]["content"].rpartition("\n")[2]
    found = yield Call("search", {"query": rng.choice(question.strip("?").split())})
    return f"Answer: {rng.choice(found.text.split())}"


def rule(row: Row, rng: Random) -> Script:
    """Searches for the question, reads the first hit, and takes from it what looks like an answer."""
    question = row.prompt[-1]["content"].rpartition("\n")[2]
    found = yield Call("search", {"query": question})
    hit = re.search(r'"id":\s*"([^"]+)"', found.text)
    if hit is None:
        return "Answer: nothing"
    text = (yield Call("read", {"id": hit[1]})).text
    return f"Answer: {_likely(question, text)}"


_SIGNS = (
    *(("day", WEEKDAYS), ("month", MONTHS), ("colour", COLOURS), ("rock", ROCKS), ("stone", ROCKS)),
    *(("material", MATERIALS), ("built of", MATERIALS), ("island", ISLANDS), ("town", TOWNS), ("where", TOWNS)),
)


def _likely(question: str, text: str) -> str:
    """Of a text, what the question may ask for: a year, a figure, or one of several names."""
    asks = question.lower()
    years = re.findall(r"\b1[0-9]{3}\b", text)
    if ("year" in asks or asks.startswith("when")) and years:
        return years[0]
    figures = [figure for figure in re.findall(r"\b[0-9]+\b", text) if figure not in years] or ["nothing"]
    if "how" in asks:
        return figures[0]
    for sign, names in _SIGNS:
        said = [name for name in names if name in text and name not in question]
        if sign in asks and said:
            return said[0]
    return text.rstrip(".").rpartition(" ")[2]


def oracle(row: Row, rng: Random) -> Script:
    """Searches like everybody, and knows the answer."""
    yield Call("search", {"query": row.data["question"]})
    return f"Answer: {row.data['answers'][0]}"


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class QaSearch(Environment):
    """Answer questions from a small corpus: search it, read in it, answer in a few words."""

    splits = tuple(SIZES)
    max_turns = 8
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        question: str
        answers: Annotated[list[str], Field(min_length=1)]
        steps: int

    def __init__(self, closed_book: bool = False) -> None:
        """closed_book: whether the questions are asked without any tool."""

    @classmethod
    def setup(cls, closed_book: bool = False, **settings: Any) -> None:
        if not closed_book:
            index()

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int, closed_book: bool = False) -> Iterator[Row]:
        questions = _questions(split, Random(f"{split}:{seed}"))
        wanted = SIZES[split] if count is None else count
        if wanted > len(questions):
            raise RowError(f"split {split} has {len(questions)} questions; ask for no more")
        for fact, wording in questions[:wanted]:
            yield row_of(fact, wording, closed_book)

    @tool(read_only=True)
    async def search(self, query: str, count: int = HITS) -> list[Json]:
        """Find documents by their words; the best come first, each with its beginning.

        Args:
            query: Some words that the document should have.
            count: How many documents to show, at most 10.
        """
        if not 1 <= count <= MAX_HITS:
            raise ToolError(f"count is from 1 to {MAX_HITS}.")
        found = [documents()[position] for position in ranked(query, count)]
        return [{"id": item.id, "title": item.title, "begins": item.text[:PREVIEW]} for item in found]

    @tool(read_only=True)
    async def read(self, id: str) -> str:
        """Show a document whole.

        Args:
            id: The document's id, as `search` shows it.
        """
        for document in documents():
            if document.id == id:
                return f"{document.title}\n{document.text}"
        raise ToolError("There is no document with that id.")

    def get_state(self) -> None:
        """There is none: no call changes anything."""

    def set_state(self, state: None) -> None:
        pass

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        return qa_match(transcript.answer, self.data.answers)
