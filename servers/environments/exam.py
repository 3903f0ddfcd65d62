r"""Exam: multiple choice, one right option of four, answered with its letter in `\boxed{}`.

Options stand in their natural order (numbers from small to large, words by the alphabet), or shuffled with the setting
`shuffle`; the questions are the same ones then, so the two runs tell whether a policy prefers a place. The reward is 1
for the right letter in the last box, else 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated

from pydantic import BaseModel, Field

from ..environment import Environment
from ..graders.choice import boxed_choice
from ..policies import Script
from ..rows import draw_rows
from ..types import Row, Transcript

SIZES = {"train": 512, "eval": 128}
LETTERS = "ABCD"
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORDS = (
    "anchor basket candle donkey engine feather garden hammer island jacket kettle ladder magnet needle orchard pepper"
)
WORDS = _WORDS.split()
PRIMES = (11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)
COMPOSITES = (15, 21, 25, 27, 33, 35, 39, 45, 49, 51, 55, 57, 63, 65, 69, 75, 77, 81, 85, 87, 91, 93, 95, 99)
UNITS = (("metres", "centimetres", 100), ("hours", "minutes", 60), ("kilograms", "grams", 1000), ("weeks", "days", 7))
ROMAN = ((50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its right option, and options that are not right."""

    topic: str
    text: str
    right: str
    wrong: Sequence[str]


def _near(rng: Random, right: int, steps: Sequence[int]) -> list[str]:
    """Three other whole numbers near the right one."""
    return [str(right + step) for step in rng.sample([step for step in steps if right + step > 0], 3)]


def arithmetic(rng: Random) -> Question:
    a, b, c = rng.randint(12, 49), rng.randint(3, 9), rng.randint(5, 60)
    right = a * b + c
    return Question(
        "arithmetic", f"What is {a} * {b} + {c}?", str(right), _near(rng, right, (-20, -10, -9, -1, 1, 9, 10))
    )


def calendar(rng: Random) -> Question:
    day, step = rng.randrange(7), rng.randint(8, 60)
    right = (day + step) % 7
    wrong = rng.sample([name for index, name in enumerate(DAYS) if index != right], 3)
    return Question("calendar", f"Today is {DAYS[day]}. Which day is it in {step} days?", DAYS[right], wrong)


def sequences(rng: Random) -> Question:
    start, step, growth = rng.randint(1, 9), rng.randint(2, 7), rng.randint(1, 4)
    terms = [start]
    for index in range(5):
        terms.append(terms[-1] + step + growth * index)
    shown = ", ".join(map(str, terms[:-1]))
    wrong = _near(rng, terms[-1], (-growth, growth, -step, step + growth, 5 * growth, 11))
    return Question("sequences", f"Which number comes next: {shown}?", str(terms[-1]), sorted(set(wrong)))


def units(rng: Random) -> Question:
    large, small, factor = rng.choice(UNITS)
    many, more = rng.randint(2, 19), rng.randint(1, factor - 1)
    right = many * factor + more
    text = f"How many {small} are {many} {large} and {more} {small}?"
    return Question("units", text, str(right), [str(right + factor), str(many * factor), str(right + 2 * factor)])


def alphabet(rng: Random) -> Question:
    words = rng.sample(WORDS, 4)
    place = rng.randrange(4)
    ordered = sorted(words)
    ordinal = ("first", "second", "third", "last")[place]
    text = f"Sort these words by the alphabet: {', '.join(words)}. Which one is the {ordinal}?"
    return Question("alphabet", text, ordered[place], [word for word in ordered if word != ordered[place]])


def primes(rng: Random) -> Question:
    right, wrong = rng.choice(PRIMES), rng.sample(COMPOSITES, 3)
    return Question("primes", "Which of these numbers is prime?", str(right), [str(number) for number in wrong])


def areas(rng: Random) -> Question:
    a, b = rng.randint(4, 30), rng.randint(4, 30)
    text = f"A rectangle is {a} cm long and {b} cm wide. What is its area in square centimetres?"
    return Question("areas", text, str(a * b), [str(a * b + a), str(2 * (a + b) + a * b), str(a * b + b + a)])


def numerals(rng: Random) -> Question:
    right = rng.randint(12, 69)
    wrong = _near(rng, right, (-10, -5, -2, -1, 1, 2, 5, 10))
    return Question("numerals", f"Which number is {roman(right)} in Roman numerals?", str(right), wrong)


def roman(number: int) -> str:
    written = ""
    for value, sign in ROMAN:
        written += sign * (number // value)
        number %= value
    return written


TOPICS: tuple[Callable[[Random], Question], ...] = (
    *(arithmetic, calendar, sequences, units),
    *(alphabet, primes, areas, numerals),
)


def draw(rng: Random, index: int) -> Row:
    """A question whose options stand in their natural order."""
    while True:
        question = rng.choice(TOPICS)(rng)
        options = sorted({question.right, *question.wrong}, key=lambda text: (len(text) if text.isdigit() else 0, text))
        if len(options) == len(LETTERS):
            return row_of(question.topic, question.text, options, options.index(question.right))


def row_of(topic: str, question: str, options: Sequence[str], right: int) -> Row:
    listed = "\n".join(f"{letter}: {text}" for letter, text in zip(LETTERS, options, strict=True))
    prompt = f"{question} Think, then give the letter of the right option in \\boxed{{}}.\n{listed}"
    data = {"topic": topic, "question": question, "options": list(options), "expected_answer": LETTERS[right]}
    return Row.of(prompt, **data)


def shuffled(row: Row) -> Row:
    """The same question with its options in another order, the same one every time."""
    data = row.data
    order = Random(data["question"] + "".join(data["options"])).sample(range(4), 4)
    right = order.index(LETTERS.index(data["expected_answer"]))
    return row_of(data["topic"], data["question"], [data["options"][index] for index in order], right)


def random(row: Row, rng: Random) -> Script:
    """Chooses any letter."""
    yield from ()
    return f"\\boxed{{{rng.choice(LETTERS)}}}"


def rule(row: Row, rng: Random) -> Script:
    """Knows arithmetic, units, areas, primes and the calendar; takes C for the rest."""
    yield from ()
    question, _, listed = row.prompt[-1]["content"].partition("\n")
    options = dict(line.split(": ") for line in listed.split("\n"))
    found = _reckoned(question)
    if "prime" in question:
        found = next(text for text in options.values() if int(text) in PRIMES)
    letter = next((letter for letter, text in options.items() if text == found), "C")
    return f"It is {options[letter]}: \\boxed{{{letter}}}"


def _reckoned(question: str) -> str:
    numbers = [int(text) for text in re.findall(r"[0-9]+", question)]
    if " * " in question:
        return str(numbers[0] * numbers[1] + numbers[2])
    if "rectangle" in question:
        return str(numbers[0] * numbers[1])
    if "How many" in question:
        factor = next(factor for large, _, factor in UNITS if f" {large} and " in question)
        return str(numbers[0] * factor + numbers[1])
    if "Today is" in question:
        return DAYS[(DAYS.index(question.split()[2].strip(".")) + numbers[0]) % 7]
    return ""


def oracle(row: Row, rng: Random) -> Script:
    """Knows the letter."""
    yield from ()
    return f"\\boxed{{{row.data['expected_answer']}}}"


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class Exam(Environment):
    """Multiple choice: give the letter of the right option."""

    splits = tuple(SIZES)
    max_turns = 1
    replayable = True
    policies = POLICIES

    class Data(BaseModel):
        topic: str
        question: str
        options: Annotated[list[str], Field(min_length=4, max_length=4)]
        expected_answer: Annotated[str, Field(pattern="^[A-D]$")]

    def __init__(self, shuffle: bool = False) -> None:
        """shuffle: whether rows have their options in another order than the natural one."""

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int, shuffle: bool = False) -> Iterator[Row]:
        for row in draw_rows(draw, SIZES, split, count, seed):
            yield shuffled(row) if shuffle else row

    def get_state(self) -> None:
        """There is none: no call changes anything."""

    def set_state(self, state: None) -> None:
        pass

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        return {"correct": float(boxed_choice(transcript.answer, self.data.expected_answer, self.data.options))}
