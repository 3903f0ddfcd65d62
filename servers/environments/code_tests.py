"""Programs against hidden tests, in the row shapes of APPS, LiveCodeBench, MBPP and HumanEval.

The final answer is a program or a function in a fenced block; the grader `code` runs it against the row's tests and one
much larger one, which this environment generates, so that a slow way fails too. Before that `try_examples` runs a
program against the examples of the prompt. The reward is 1 where every test passes, else 0; with the setting `partial`
it is the share of tests that pass. Problems of eval are in no row of train.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial as bound
from random import Random
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from ..environment import Environment, tool
from ..graders.code import Options, grade
from ..graders.code_cases import COLUMNS, tests_of
from ..graders.code_run import Graded
from ..graders.code_talk import Settings
from ..policies import Call, Script
from ..rows import draw_rows
from ..sandbox.jobs import Sandbox
from ..types import Row, Transcript
from .code_shapes import READING, SHAPES, as_program, cases_of, examples_of, prompt_of, with_large
from .problems import PROBLEMS, Problem

SIZES = {"train": 384, "eval": 96}
NAMES = list(PROBLEMS)
#: Every fourth problem is held out.
HELD_OUT = frozenset(NAMES[3::4])
ShapeName = Literal[
    "apps_reading", "apps_calling", "livecodebench_reading", "livecodebench_calling", "mbpp", "humaneval"
]


def draw(rng: Random, index: int, *, held_out: bool) -> Row:
    names = [name for name in NAMES if (name in HELD_OUT) == held_out]
    problem = PROBLEMS[names[index % len(names)]]
    shape = list(SHAPES)[(index // len(names) + index) % len(SHAPES)]
    cases = cases_of(problem, rng)
    columns = SHAPES[shape](problem, cases)
    prompt = prompt_of(problem, shape, cases)
    return Row(
        prompt=[{"role": "user", "content": prompt}],
        data={**columns, "problem": problem.name, "shape": shape, "large_seed": rng.randrange(10**6)},
    )


def known(name: str) -> str:
    if name not in PROBLEMS:
        raise ValueError(f"there is no problem {name!r:.60}")
    return name


def answer_to(problem: Problem, shape: str, source: str) -> str:
    """A function of the problem as an answer to a row of that shape."""
    program = as_program(problem, source) if shape in READING else source
    return f"This solves it:\n\n```python\n{program}```"


def read_prompt(row: Row) -> tuple[Problem, bool]:
    """The problem that a prompt is about, and whether it asks for a program that reads."""
    text = row.prompt[-1]["content"]
    named = re.search(r"(?:program, |def |function `)(\w+)", text)
    assert named is not None
    return PROBLEMS[named[1]], "standard input" in text


def random(row: Row, rng: Random) -> Script:
    """Prints or answers a small number, whatever is asked."""
    yield from ()
    problem, reading = read_prompt(row)
    number = rng.randint(0, 3)
    body = f"print({number})" if reading else f"{problem.header}\n    return {number}"
    return f"```python\n{body}\n```"


def rule(row: Row, rng: Random) -> Script:
    """Tries one of the usual ways to go wrong, and mends it every other time."""
    problem, reading = read_prompt(row)
    shape = "apps_reading" if reading else "mbpp"
    wrong = answer_to(problem, shape, problem.wrong[rng.randrange(len(problem.wrong))])
    yield Call("try_examples", {"answer": wrong})
    return answer_to(problem, shape, problem.source) if rng.randrange(2) else wrong


def oracle(row: Row, rng: Random) -> Script:
    """Knows the reference."""
    yield from ()
    problem = PROBLEMS[row.data["problem"]]
    return answer_to(problem, row.data["shape"], problem.source)


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class CodeTests(Environment):
    """Write a program that passes hidden tests."""

    splits = tuple(SIZES)
    max_turns = 6
    tool_timeout_s = 60.0
    policies = POLICIES

    class Data(BaseModel):
        problem: Annotated[str, AfterValidator(known)]
        shape: ShapeName
        large_seed: int = Field(ge=0)

    def __init__(self, sandbox: Sandbox, partial: bool = False, timeout_s: float = 4.0) -> None:
        """partial: the reward is the share of tests that pass. timeout_s: seconds that one test may take."""
        if not 0 < timeout_s <= 30:
            raise ValueError(f"timeout_s must be above 0 and at most 30, got {timeout_s}")
        self.sandbox = sandbox
        self.options = Options(partial, None, Settings(timeout_s, total_s=max(20.0, timeout_s)))

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(bound(draw, held_out=split == "eval"), SIZES, split, count, seed)

    def reset(self, row: Row) -> None:
        own = tests_of({name: row.data[name] for name in COLUMNS if name in row.data})
        problem = PROBLEMS[self.data.problem]
        self.examples = examples_of(own, problem, self.data.shape)
        self.tests = with_large(own, problem, self.data.shape, self.data.large_seed)

    @tool
    async def try_examples(self, answer: str) -> str:
        """Run a solution against the examples of the task, as often as you like.

        Args:
            answer: The solution, as you would answer it at the end.
        """
        options = Options(True, None, self.options.settings)
        return told(await grade(answer, self.examples, self.sandbox, options))

    async def verify(self, transcript: Transcript) -> dict[str, float]:
        graded = await grade(transcript.answer, self.tests, self.sandbox, self.options)
        return {"tests": graded.passed / graded.total if self.options.partial else float(graded.solved)}


def told(graded: Graded) -> str:
    """What became of the examples, without what was expected."""
    if not graded.records:
        return "There is no program in this: put it in one fenced block of Python."
    said = {record.test: f"{record.status}{f': {record.detail}' if record.detail else ''}" for record in graded.records}
    return "\n".join(f"example {test + 1}: {text}" for test, text in said.items())
