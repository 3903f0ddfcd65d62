"""Word problems with a `python` tool in the sandbox. `submit_answer` ends the task and is graded by exact rationals.

A program of the policy's that fails, loops or uses too much memory is a result that says so; a sandbox that cannot run
it is a failed session. The reward is 1 for the exact answer (`3/7`, `0.25`, `12`), else 0. Nothing is rounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from random import Random
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from ..environment import Environment, ToolError, tool
from ..graders.formulas import MAX_FORMULA_CHARACTERS, expected_of
from ..graders.numbers import NotNumeric, TooLarge, read
from ..policies import Call, Script
from ..rows import draw_rows
from ..sandbox.jobs import PYTHON, Job, JobRefused, Limits, Result, Sandbox, Verdict
from ..types import Row, Transcript
from .word_problems import FAMILIES

SIZES = {"train": 2048, "eval": 256}
OUTPUT_BYTES = 8_192
PROMPT = (
    "{text}\n\nYou may run Python programs with the tool python: it answers what a program prints. "
    "Submit the exact answer with submit_answer, as a whole number, a decimal or a fraction such as 3/7."
)
#: How a program's end is told where its output does not say it.
ENDS = {
    Verdict.TIMEOUT: "[the program was stopped: it ran for more than {limits.wall_s:g} s]",
    Verdict.CRASHED: "[the program crashed]",
    Verdict.OUT_OF_MEMORY: "[the program was stopped: it used more than {limits.memory_mb} MB of memory]",
    Verdict.OUTPUT_LIMIT: "[the program was stopped: it printed too much; this is the end of it]",
}


def draw(rng: Random, index: int) -> Row:
    family = list(FAMILIES)[index % len(FAMILIES)]
    problem = FAMILIES[family](rng)
    return Row.of(
        PROMPT.format(text=problem.text),
        family=family,
        answer=str(problem.answer),
        program=problem.program,
    )


def known(family: str) -> str:
    if family not in FAMILIES:
        raise ValueError(f"there is no family {family!r:.60}")
    return family


def random(row: Row, rng: Random) -> Script:
    """Submits one of the numbers of the text."""
    numbers = re.findall(r"[0-9]+", row.prompt[-1]["content"].partition("\n")[0])
    yield Call("submit_answer", {"answer": rng.choice(numbers)})
    return "Done."


def rule(row: Row, rng: Random) -> Script:
    """Knows the way in half of the families, and tries a number of the text in the others."""
    text = row.prompt[-1]["content"].partition("\n")[0]
    numbers = [int(word) for word in re.findall(r"[0-9]+", text)]
    for mark, program in KNOWN_WAYS.items():
        if mark in text:
            result = yield Call("python", {"code": f"n = {numbers}\n{program}"})
            yield Call("submit_answer", {"answer": result.text.strip()})
            return "Done."
    yield Call("submit_answer", {"answer": str(rng.choice(numbers))})
    return "Done."


_FRACTION = "from fractions import Fraction as F\n"
#: Words by which the rule knows a family, and a program for the numbers `n` of its text.
KNOWN_WAYS = {
    "paints a fence": _FRACTION + "print(1 / (F(1, n[0]) + F(1, n[1])))",
    "mean speed": _FRACTION + "print(F(2 * n[0] * n[1], n[0] + n[1]))",
    "solution are mixed": _FRACTION + "print(F(n[0] * n[1] + n[2] * n[3], n[0] + n[2]))",
    "factors": "print(pow(n[0], n[1], 10 ** n[2]))",
    "whole numbers from": "print(sum(x % n[2] == 0 or x % n[3] == 0 for x in range(1, n[1] + 1)))",
    "A coat costs": _FRACTION + "print(n[0] * (1 - F(n[1], 100)) * (1 - F(n[2], 100)))",
    "of interest a year": _FRACTION + "print(n[0] * (1 + F(n[1], 100)) ** n[2])",
}


def oracle(row: Row, rng: Random) -> Script:
    """Runs a program that finds the answer, and submits what it prints."""
    result = yield Call("python", {"code": row.data["program"]})
    yield Call("submit_answer", {"answer": result.text.strip()})
    return "Done."


POLICIES = {"random": random, "rule": rule, "oracle": oracle}


class MathPython(Environment):
    """Solve a word problem, with programs."""

    splits = tuple(SIZES)
    max_turns = 8
    tool_timeout_s = 60.0
    policies = POLICIES

    class Data(BaseModel):
        family: Annotated[str, AfterValidator(known)]
        answer: str = Field(pattern=r"^-?[0-9]+(/[0-9]+)?$")
        program: str = ""

    def __init__(self, sandbox: Sandbox, timeout_s: float = 5.0) -> None:
        """timeout_s: seconds that one program may run."""
        if not 0 < timeout_s <= 30:
            raise ValueError(f"timeout_s must be above 0 and at most 30, got {timeout_s}")
        self.sandbox = sandbox
        self.limits = Limits(wall_s=timeout_s, cpu_s=timeout_s, memory_mb=256, output_bytes=OUTPUT_BYTES)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        return draw_rows(draw, SIZES, split, count, seed)

    async def reset(self, row: Row) -> None:
        self.right = False

    @tool
    async def python(self, code: str) -> str:
        """Run a Python program and answer what it prints. Each program starts anew: print what you want to see.

        Args:
            code: The program. The standard library is there; no network, no files that stay.
        """
        job = Job([PYTHON, "main.py"], {"main.py": code.encode("utf-8", "replace")}, limits=self.limits)
        try:
            return shown(await self.sandbox.run(job), self.limits)
        except JobRefused as refused:  # a program of megabytes
            raise ToolError(f"The program cannot be run: {refused}.") from None

    @tool(ends=True)
    async def submit_answer(self, answer: str) -> str:
        """Submit the answer. This ends the task.

        Args:
            answer: A whole number, a decimal or a fraction, exactly.
        """
        self.right = is_exactly(answer, Fraction(self.data.answer))
        return "Submitted."

    async def verify(self, transcript: Transcript) -> float:
        return float(self.right)


def is_exactly(text: str, expected: Fraction) -> bool:
    r"""Whether a text is this number, without any rounding; `$7$`, `7.` and `\boxed{7}` are 7, too."""
    if len(text) > MAX_FORMULA_CHARACTERS:
        return False
    try:
        given = read(expected_of(text).text)
    except (NotNumeric, TooLarge):
        return False
    return given.value == expected and not given.is_percent


def shown(result: Result, limits: Limits) -> str:
    """What a program printed, its errors, and how it ended where they do not say it."""
    text = (result.stdout + result.stderr).decode("utf-8", "replace")
    if result.verdict in ENDS:
        text = f"{text.rstrip()}\n{ENDS[result.verdict].format(limits=limits)}".lstrip()
    return text or "[the program printed nothing]"
