"""Graded: bring your own rows. `gymwire serve graded --rows FILE [--set grader=math] [--tools file.py:function]`

FILE has one JSON object a line (or is JSON, CSV or parquet, see `servers/row_files.py`): a NeMo Gym row, or a prompt
column and what the graders ask for. A row's `verifier` says how it is graded, else the setting `grader` does;
`servers/graders` has the graders. Without --rows it serves small tasks of its own, which show the forms that
`verifier` may have.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator, Sequence
from random import Random
from typing import Any

from ..environment import Environment
from ..graders.configured import router_of
from ..policies import Script
from ..rows import draw_rows
from ..sandbox.jobs import Sandbox
from ..types import Json, Row, Transcript
from .graded_rows import GradedReader

SIZES = {"train": 128, "eval": 64}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "pink")
LETTERS = "ABCD"


def draw(rng: Random, index: int) -> Row:
    return rng.choice((_sum, _choice, _days, _shout))(rng)


def _sum(rng: Random) -> Row:
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    prompt = f"What is {a} + {b}? End with a line such as\nAnswer: 7"
    return Row.of(prompt, expected_answer=str(a + b), verifier="exact")


def _choice(rng: Random) -> Row:
    colours = rng.sample(COLOURS, len(LETTERS))
    right = rng.randrange(len(LETTERS))
    options = [{letter: colour} for letter, colour in zip(LETTERS, colours, strict=True)]
    listed = "\n".join(f"{letter}: {colour}" for letter, colour in zip(LETTERS, colours, strict=True))
    prompt = (
        f"The lamp is {colours[right]}. Which letter stands for its colour? Answer with \\boxed{{LETTER}}.\n{listed}"
    )
    return Row.of(prompt, options=options, expected_answer=LETTERS[right], verifier="boxed_choice")


def _days(rng: Random) -> Row:
    start, step = rng.randrange(7), rng.randint(2, 30)
    day = DAYS[(start + step) % 7]
    prompt = f"Today is {DAYS[start]}. Which day is it in {step} days? Answer with the day alone."
    return Row.of(prompt, answer=[day, f"a {day}"], verifier={"name": "qa_match", "em": 1.0, "f1": 0.0})


def _shout(rng: Random) -> Row:
    words = rng.sample(COLOURS, 3)
    prompt = f"Name the second of these colours, in capitals: {', '.join(words)}."
    capitals = {"name": "regex", "pattern": "^[A-Z]+$", "full": True, "weight": 0.25, "as": "capitals"}
    right = {"name": "exact", "ignore_case": True, "weight": 0.75}
    return Row.of(prompt, answer=words[1], verifier=[right, capitals])


def random(row: Row, rng: Random) -> Script:
    """Says a number, a letter, a day or a colour."""
    yield from ()
    guesses = (f"Answer: {rng.randint(22, 198)}", f"\\boxed{{{rng.choice(LETTERS)}}}", *DAYS[:2], *COLOURS[:2])
    return rng.choice(guesses)


def rule(row: Row, rng: Random) -> Script:
    """Adds, and guesses the rest."""
    yield from ()
    text = row.prompt[-1]["content"]
    numbers = re.findall(r"[0-9]+", text)
    if "+" in text:
        return f"Answer: {int(numbers[0]) + int(numbers[1])}"
    if "boxed" in text:
        return f"I guess \\boxed{{{rng.choice(LETTERS)}}}."
    return rng.choice(DAYS) if numbers else text.split(", ")[-2]


def oracle(row: Row, rng: Random) -> Script:
    """Knows the expected answer."""
    yield from ()
    expected = row.data.get("expected_answer", row.data.get("answer"))
    if row.data["verifier"] == "boxed_choice":
        return f"\\boxed{{{expected}}}"
    return expected[0] if isinstance(expected, list) else expected.upper()


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Graded(Environment):
    """Rows of your own, graded by the grader that you name."""

    splits = tuple(SIZES)
    replayable = True
    policies = POLICIES

    def __init__(
        self,
        grader: Any = None,
        graders: str | Sequence[str] = (),
        prompt: str = "",
        answer: str = "",
        system: str = "",
        judge_url: str = "",
        judge_model: str = "",
        judge_options: Json | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """grader: what grades rows that name none: a name, `file.py:function`, or a list as in a row's `verifier`.
        graders: functions of yours, as `file.py:function`, that rows may name.
        prompt, answer: the columns that hold the prompt and the expected answer, where they have unusual names.
        system: a system message before every prompt of a prompt column.
        judge_url, judge_model, judge_options: the endpoint of `judge` and `equivalence`; its key: GYMWIRE_JUDGE_KEY.
        sandbox: opened by the server where rows are graded by `code`.
        """
        self.router = router_of(grader, graders, answer, judge_url, judge_model, judge_options, sandbox)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    @classmethod
    def row_reader(
        cls,
        grader: Any = None,
        graders: str | Sequence[str] = (),
        prompt: str = "",
        answer: str = "",
        system: str = "",
        judge_url: str = "",
        judge_model: str = "",
        judge_options: Json | None = None,
    ) -> GradedReader:
        pending = object()  # a sandbox is opened once the rows are known to need it
        router = router_of(grader, graders, answer, judge_url, judge_model, judge_options, pending)
        return GradedReader(router, cls.tool_specs, prompt, system)

    def reset(self, row: Row) -> None:
        self.plan = self.router.plan(row)

    def get_state(self) -> None:
        """There is none: the plan follows from the row."""

    def set_state(self, state: None) -> None:
        self.reset(self.row)

    def verify(self, transcript: Transcript) -> dict[str, float] | Coroutine[Any, Any, dict[str, float]]:
        return self.plan.grade(transcript)
