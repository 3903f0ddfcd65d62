"""Programs that solve nothing pass nothing: through the code grader, in every shape of rows, on each backend."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from gymwire.servers.graders.code import Options, grade
from gymwire.servers.graders.code_cases import tests_of as cases_of
from gymwire.servers.graders.code_run import Graded
from gymwire.servers.graders.code_talk import Settings
from gymwire.servers.sandbox.pool import Pool

from tests.servers.sandbox.backends import BACKENDS, pool_of
from tests.servers.sandbox.forgeries import conversation, processes, values
from tests.servers.sandbox.forgeries.shapes import HONEST, ROWS, Forgery
from tests.servers.sandbox.programs import program

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow]
FORGERIES = (*conversation.FORGERIES, *values.FORGERIES, *processes.FORGERIES)
#: Short, for programs that hang on purpose.
OPTIONS = Options(settings=Settings(timeout_s=0.7, total_s=3.0))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=BACKENDS)
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """Two places: tests that are statements need both at once."""
    async with pool_of(request.param) as made:
        yield made


async def graded(program: str, shape: str, pool: Pool) -> Graded:
    return await grade(f"```python\n{program}```", cases_of(ROWS[shape]), pool, OPTIONS)


@pytest.mark.parametrize("shape", ROWS)
async def test_a_program_that_solves_the_task_passes(pool: Pool, shape: str) -> None:
    done = await graded(HONEST[shape], shape, pool)
    assert done.solved, done.first_failure


@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda forgery: forgery.name)
async def test_a_forgery_scores_nothing_and_breaks_nothing(pool: Pool, forgery: Forgery) -> None:
    """A failed session would be an escape as well: whatever the program does is a score."""
    for shape in forgery.shapes:
        done = await graded(forgery.program, shape, pool)
        assert not done.solved and done.total, shape
    for _ in range(pool.slots):  # in each place, also for the next program to look for
        after = await graded(HONEST["call"], "call", pool)
        assert after.solved, after.first_failure


#: Uses up what one user of the host may have in pipes; containers share their user.
HOARD = """
import os, time
for _ in range(12):
    if os.fork() == 0: break
kept = []
try:
    while True: kept.append(os.pipe())
except OSError:
    print(end="hoarded", flush=True)
time.sleep(60)
"""


async def test_a_program_that_hoards_pipes_costs_an_honest_one_nothing(pool: Pool) -> None:
    """Its input is longer than the pipes that are left hold."""
    row = {"input_output": {"inputs": ["x" * 40_000], "outputs": ["40000"]}}
    async with pool.talk(program(HOARD)) as hoarder:
        assert (await hoarder.receive()).startswith(b"hoarded")
        done = await grade("```python\nprint(len(input()))\n```", cases_of(row), pool, OPTIONS)
    assert done.solved, done.first_failure


async def test_there_are_many() -> None:
    assert len(FORGERIES) == len({forgery.name for forgery in FORGERIES}) >= 60
