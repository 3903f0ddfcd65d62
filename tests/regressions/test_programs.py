"""C06, C07, C09: programs that were scored wrongly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from gymwire.servers.graders.code import Options, grade
from gymwire.servers.graders.code_cases import tests_of as cases_of
from gymwire.servers.graders.code_compare import same_output, same_value
from gymwire.servers.graders.code_run import Graded
from gymwire.servers.graders.code_talk import Settings
from gymwire.servers.graders.inside.plain import encode
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.backends import pool_of

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPTIONS = Options(settings=Settings(timeout_s=2.0))
ADD = {
    "apps": {"input_output": {"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]}},
    "mbpp": {"test_list": ["assert add(1, 2) == 3", "assert math.isclose(add(0.1, 0.2), 0.3)"]},
    "mbpp, by map": {"test_list": ["assert all(map(lambda pair: add(*pair) == 3, [(1, 2), (2, 1)]))"]},
    "humaneval": {
        "prompt": 'def add(a, b):\n    """Add."""\n',
        "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n",
        "entry_point": "add",
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with pool_of("bubblewrap") as made:
        yield made


async def graded(program: str, columns: dict[str, Any], pool: Pool) -> Graded:
    return await grade(f"```python\n{program}\n```", cases_of(columns), pool, OPTIONS)


async def test_decimals_are_near_enough_and_integers_are_equal_or_not(cases: dict[str, Any]) -> None:
    for case in cases["C06"]["input"]:
        if "stdout" in case:
            passes = same_output(case["stdout"].encode(), case["expected"])
        else:
            passes = same_value(encode(case["returns"]), case["expected"])
        assert passes == case["passes"], case


async def test_programs_have_real_streams(cases: dict[str, Any], pool: Pool) -> None:
    for case in cases["C07"]["input"]:
        columns = {"input_output": {"inputs": [case["stdin"]], "outputs": [case["expected"]]}}
        (record,) = (await graded(case["program"], columns, pool)).records
        assert record.status == case["status"], (case, record)


@pytest.mark.parametrize("shape", ADD)
async def test_a_program_that_solves_nothing_passes_in_no_shape(cases: dict[str, Any], pool: Pool, shape: str) -> None:
    assert (await graded("def add(a, b): return a + b", ADD[shape], pool)).solved
    for case in cases["C09"]["input"]:
        done = await graded(case["program"], ADD[shape], pool)
        assert not done.solved, (case, done)
