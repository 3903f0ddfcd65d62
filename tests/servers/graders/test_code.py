"""Programs through the code grader: shapes of rows, shares, tolerance, the longest tests first, whose fault it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import pytest_asyncio
from gymwire.servers.failures import Stage, assign
from gymwire.servers.graders.code import Options, code, grade
from gymwire.servers.graders.code_cases import tests_of as cases_of
from gymwire.servers.graders.code_talk import Settings
from gymwire.servers.sandbox.jobs import Job, Result, SandboxUnavailable, Talk
from gymwire.servers.sandbox.pool import Pool
from gymwire.servers.types import FailureKind, RowError

from tests.servers.sandbox.backends import pool_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
FUNCTIONAL = [{"input": f"{a}\n{b}", "output": str(a + b), "testtype": "functional"} for a, b in ((1, 2), (2, 2))]
STDIN = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}, {"input": "2 2", "output": "4", "testtype": "stdin"}]
CALLED, READING = "def add(a, b): return {}", "a, b = map(int, input().split())\nprint({})"
#: Columns, and the program that a row of that shape asks for around an expression.
SHAPES: dict[str, tuple[dict[str, Any], str]] = {
    "apps, reading": ({"input_output": {"inputs": ["1 2\n", "2 2\n"], "outputs": ["3\n", "4\n"]}}, READING),
    "apps, calling": (
        {"input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2], [2, 2]], "outputs": [3, [4]]})},
        CALLED,
    ),
    "nemo gym": ({"unit_tests": {"inputs": ["1 2\n", "2 2\n"], "outputs": ["3\n", "4\n"]}}, READING),
    "livecodebench, reading": ({"public_test_cases": STDIN[:1], "private_test_cases": STDIN[1:]}, READING),
    "livecodebench, calling": ({"private_test_cases": FUNCTIONAL, "metadata": {"func_name": "add"}}, CALLED),
    "mbpp": ({"test_list": ["assert add(1, 2) == 3", "assert add(2, 2) == 4"]}, CALLED),
    "humaneval": (
        {
            "prompt": 'def add(a, b):\n    """Add."""\n',
            "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == 4\n",
            "entry_point": "add",
        },
        CALLED,
    ),
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with pool_of("bubblewrap") as made:
        yield made


def fence(source: str) -> str:
    return f"So:\n```python\n{source}\n```"


@pytest.mark.parametrize("shape", SHAPES)
async def test_right_programs_pass_and_wrong_ones_do_not(pool: Pool, shape: str) -> None:
    columns, around = SHAPES[shape]
    assert await code(fence(around.format("a + b")), pool, **columns) == 1.0
    for wrong in ("a * b", "3", "1 / 0", "None"):
        assert await code(fence(around.format(wrong)), pool, **columns) == 0.0, wrong
    assert await code("I do not know.", pool, **columns) == 0.0


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "humaneval"])
async def test_a_share_is_given_where_it_is_asked_for(pool: Pool, shape: str) -> None:
    columns, around = SHAPES[shape]
    shares = {"a + b": 1.0, "a * b": 0.5, "a - b": 0.0}  # 2 * 2 is 2 + 2
    for expression, share in shares.items():
        assert await code(fence(around.format(expression)), pool, partial=True, **columns) == share, expression


async def test_a_test_that_hangs_costs_its_own_share_alone(pool: Pool) -> None:
    columns = {"input_output": {"inputs": ["1\n", "22\n", "333\n"], "outputs": ["1", "22", "333"]}}
    hangs = fence("n = input()\nwhile n == '22': pass\nprint(n)")
    share = await code(hangs, pool, partial=True, timeout_s=0.5, **columns)
    assert share == pytest.approx(2 / 3)
    assert await code(hangs, pool, timeout_s=0.5, **columns) == 0.0


@pytest.mark.parametrize(
    ("expected", "printed", "tolerance", "score"),
    [
        ("0.5", "0.5004", 0.01, 1.0),
        ("0.5", "0.5004", 1e-6, 0.0),
        ("1000000", "1000001", 0.01, 0.0),
        ("1 0.5 x", "1 0.5004 x", 0.01, 1.0),
        ("1 0.5 x", "2 0.5004 x", 0.01, 0.0),
    ],
)
async def test_tolerance_is_of_decimals_alone(
    pool: Pool, expected: str, printed: str, tolerance: float, score: float
) -> None:
    columns = {"input_output": {"inputs": [""], "outputs": [expected]}}
    assert await code(fence(f"print({printed!r})"), pool, tolerance=tolerance, **columns) == score


async def test_of_many_tests_the_longest_count(pool: Pool) -> None:
    texts = ["a", "a" * 50, "b" * 20]
    columns = {"input_output": {"inputs": texts, "outputs": texts}}
    fails_short = fence("t = input()\nprint(t if len(t) > 1 else 'no')")
    fails_long = fence("t = input()\nprint(t if len(t) < 50 else 'no')")
    assert [await code(fails_short, pool, max_tests=most, **columns) for most in (1, 2, 3)] == [1.0, 1.0, 0.0]
    assert [await code(fails_long, pool, max_tests=most, **columns) for most in (1, 2, 3)] == [0.0, 0.0, 0.0]


async def test_the_first_wave_with_a_failure_is_the_last(pool: Pool) -> None:
    texts = [str(n) for n in range(200)]
    tests = cases_of({"input_output": {"inputs": texts, "outputs": texts}})
    done = await grade(fence("print('no')"), tests, pool)
    assert 0 < len(done.records) < done.total == 200
    every = await grade(fence("print('no')"), tests, pool, Options(partial=True, settings=Settings(total_s=60.0)))
    assert len(every.records) == 200


@pytest.mark.parametrize(
    "columns",
    [
        {"test_list": ["assert add(1, 2) == 3"], "test_imports": ["import no_such_module"]},
        {"test_list": ["import os\nos._exit(1)\nassert add(1, 2) == 3"]},
        {"test_list": ["assert add(1, 2) == 3"], "test_setup_code": "1 / 0"},
        {"test_list": ["import no_such_module\nassert add(1, 2) == 3"]},
        {"test_list": ["1 / 0\nassert add(1, 2) == 3"]},
        {"input_output": {"inputs": [], "outputs": []}},
    ],
)
async def test_tests_that_break_by_themselves_are_our_failure(pool: Pool, columns: dict[str, Any]) -> None:
    with pytest.raises(RowError):
        await code(fence(CALLED.format("a + b")), pool, **columns)


class Lost:
    """A sandbox whose engine has stopped."""

    async def run(self, job: Job) -> Result:
        raise SandboxUnavailable("the engine has stopped")

    def talk(self, job: Job) -> AbstractAsyncContextManager[Talk]:
        raise SandboxUnavailable("the engine has stopped")


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_lost_sandbox_is_never_a_score(shape: str) -> None:
    columns, around = SHAPES[shape]
    with pytest.raises(SandboxUnavailable) as lost:
        await code(fence(around.format("a + b")), Lost(), **columns)
    assert assign(lost.value, "code_tests", Stage.VERIFY, "verify").kind == FailureKind.PROVIDER_UNAVAILABLE


@pytest.mark.parametrize(
    "program",
    [
        "",
        "def other(a, b):\n    return 3",
        "add = 3",
        "def add(a, b):\n    raise SystemExit",
        "def add(a):\n    return 3",
    ],
)
async def test_a_program_cannot_break_a_test_into_our_failure(pool: Pool, program: str) -> None:
    """A name that it lacks, or has as something else, breaks a test early, and is the program's own doing."""
    assert await code(f"```python\n{program}\n```", pool, test_list=["assert add(1, 2) == 3"]) == 0.0


@pytest.mark.parametrize(
    "expression", ["gcd(a, 0) + b", "deepcopy(a) + b", "a + b if inf else 0", "pow(a + b, 1, 100)"]
)
async def test_a_called_function_finds_what_its_site_has_imported(pool: Pool, expression: str) -> None:
    assert await code(fence(CALLED.format(expression)), pool, **SHAPES["apps, calling"][0]) == 1.0


@pytest.mark.parametrize(
    ("body", "test", "score"),
    [
        ("def turn(x): x.sort()", "x = [3, 1]\nturn(x)\nassert x == [1, 3]", 1.0),
        ("def turn(x): x[0].append(2)", "x = [[1]]\nassert turn(x) is None and x == [[1, 2]]", 1.0),
        ("def turn(y, x): x.update(a=y)", "x = {}\nturn(2, x=x)\nassert x == {'a': 2}", 1.0),
        ("def turn(x): x.clear()", "x = {1, 2}\nturn(x)\nassert not x", 1.0),
        ("class Turn:\n    def turn(self, x): x.sort()", "x = [3, 1]\nTurn().turn(x)\nassert x == [1, 3]", 1.0),
        ("def turn(x): x = sorted(x)", "x = [3, 1]\nturn(x)\nassert x == [1, 3]", 0.0),
        ("def turn(x): return x.clear() or []", "x = [3, 1]\nassert turn(x) == sorted(x)", 0.0),
    ],
)
async def test_a_function_that_returns_nothing_may_change_its_arguments(
    pool: Pool, body: str, test: str, score: float
) -> None:
    """Another one may not: it could empty the list that its answer is compared with."""
    assert await code(f"```python\n{body}\n```", pool, test_list=[test]) == score
