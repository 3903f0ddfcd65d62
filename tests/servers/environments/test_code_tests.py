"""Every reference passes its tests and every wrong solution fails them, in the sandbox."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from random import Random

import pytest
from gymwire.servers.environments.code_shapes import SHAPES, cases_of, with_large
from gymwire.servers.environments.code_tests import HELD_OUT, CodeTests, answer_to
from gymwire.servers.environments.math_python import MathPython, is_exactly
from gymwire.servers.environments.problems import PROBLEMS, Problem
from gymwire.servers.graders.code import Options, grade
from gymwire.servers.graders.code_cases import tests_of as cases_in
from gymwire.servers.graders.code_talk import Settings
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.backends import pool_of

OPTIONS = Options(settings=Settings(timeout_s=8.0, total_s=40.0))


async def verdicts(problem: Problem, shape: str, pool: Pool) -> list[bool]:
    """Whether the reference and each wrong solution pass."""
    own = cases_in(SHAPES[shape](problem, cases_of(problem, Random(problem.name))))
    reference = grade(answer_to(problem, shape, problem.source), with_large(own, problem, shape, 1), pool, OPTIONS)
    wrong = [grade(answer_to(problem, shape, source), own, pool, OPTIONS) for source in problem.wrong]
    return [done.solved for done in await asyncio.gather(reference, *wrong)]


@pytest.mark.timeout(400)
@pytest.mark.slow
async def test_references_pass_and_wrong_solutions_fail() -> None:
    assert len(PROBLEMS) >= 60
    async with pool_of("bubblewrap") as pool:
        for at, problem in enumerate(PROBLEMS.values()):
            assert len(set(problem.wrong) - {problem.source}) >= 3, problem.name
            reference, *wrong = await verdicts(problem, list(SHAPES)[at % len(SHAPES)], pool)
            assert reference and not any(wrong), (problem.name, reference, wrong)


def test_problems_of_eval_are_in_no_row_of_train() -> None:
    assert {row.data["problem"] for row in CodeTests.rows("eval", None, 3)} == HELD_OUT
    assert not {row.data["problem"] for row in CodeTests.rows("train", None, 3)} & HELD_OUT


async def test_what_a_program_of_the_policy_does_is_a_result() -> None:
    async with pool_of("bubblewrap") as pool:
        made = MathPython(pool, timeout_s=1.0)
        assert await made.python("print(1, 'x')") == "1 x\n"
        assert "ZeroDivisionError" in await made.python("1 / 0")
        assert "more than 1 s" in await made.python("while True: pass")
        assert await made.python("") == "[the program printed nothing]"


@pytest.mark.parametrize(("text", "right"), [("3/7", True), (" 6/14 ", True), ("0.428571", False), ("3/8", False)])
def test_answers_are_exact(text: str, right: bool) -> None:
    assert is_exactly(text, Fraction(3, 7)) == right
