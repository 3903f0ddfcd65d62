"""C10, C16, X15: programs that would not end, printed too much, or printed what a chat template takes for turns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from gymwire.servers.environments.math_python import MathPython
from gymwire.servers.graders.judge import judge
from gymwire.servers.sandbox.pool import Pool
from gymwire.servers.types import Row

from tests.servers.graders.judging import Judge, fenced, honest, serving
from tests.servers.sandbox.backends import pool_of
from tests.servers.sandbox.programs import HELLO, executed, program

pytestmark = pytest.mark.asyncio(loop_scope="module")
BACKEND = "docker" if os.environ.get("REQUIRE_DOCKER") == "1" else "bubblewrap"
#: What runs beside the job, zombies too; 1 is the slot's worker.
OTHERS = "import os\nprint([n for n in os.listdir('/proc') if n.isdigit() and int(n) not in (1, os.getpid())])"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[Pool]:
    async with pool_of(BACKEND) as made:
        yield made


def sleepers() -> list[str]:
    """Processes of this machine, those of containers included, that run the cases' `sleep`."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if line.read_bytes().startswith(b"sleep\x0086311"):
                found.append(line.parent.name)
        except OSError:  # it has ended meanwhile
            continue
    return found


async def test_nothing_of_a_program_outlives_its_time(cases: dict[str, Any], pool: Pool) -> None:
    given = cases["C10"]["input"]
    for source, verdict in zip(given["programs"], given["verdicts"], strict=True):
        for job in (program(source, wall_s=given["timeout_s"]), executed(program(source, wall_s=given["timeout_s"]))):
            started = time.monotonic()
            result = await pool.run(job)
            assert time.monotonic() - started < given["timeout_s"] + 1.0, source
            assert verdict in (None, result.verdict), (source, result)
            assert sleepers() == [], source
            for _ in range(pool.slots):
                assert (await pool.run(program(OTHERS))).stdout == b"[]\n", source


async def test_the_cases_sleepers_are_seen_while_they_run(cases: dict[str, Any], pool: Pool) -> None:
    given = cases["C10"]["input"]
    running = asyncio.ensure_future(pool.run(program(given["programs"][0], wall_s=given["timeout_s"])))
    async with asyncio.timeout(5.0):
        while not sleepers():
            assert not running.done()
            await asyncio.sleep(0.02)
    await running


def peak_mb() -> float:
    """The most memory that this process has had since `reset_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def test_a_flood_is_cut_near_its_cap_and_the_result_says_so(cases: dict[str, Any], pool: Pool) -> None:
    given = cases["X15"]["input"]
    reset_peak()
    before = peak_mb()
    result = await pool.run(program(given["program"], output_bytes=given["cap_bytes"]))
    assert peak_mb() - before < given["memory_mb"]
    assert (result.verdict, result.truncated, len(result.stdout)) == ("output_limit", True, given["cap_bytes"])
    numbers = [int(line.split()[0]) for line in result.stdout.splitlines()[1:-1]]
    assert numbers == list(range(numbers[0], numbers[-1] + 1)) and numbers[0] > 0, "the end is kept, without a gap"
    assert (await pool.run(HELLO)).stdout == b"hello\n"


async def test_a_policy_is_told_that_it_sees_the_end(cases: dict[str, Any], pool: Pool) -> None:
    shown = await MathPython(pool).python(cases["X15"]["input"]["program"])
    assert shown.endswith("[the program was stopped: it printed too much; this is the end of it]")
    assert len(shown) < 10_000


async def test_a_judge_sees_no_turns_in_an_answer(cases: dict[str, Any]) -> None:
    text = cases["C16"]["input"]["text"]
    async with serving(Judge(honest("reward 1", "10", "0"))) as asked:
        assert await judge(text, Row.of("Do it."), asked.endpoint()) == 1.0
    for message in asked.asked[0]["messages"]:
        assert "<|" not in message["content"] and "|>" not in message["content"]
    assert fenced(asked.asked[0]["messages"]).replace(" ", "") == text.replace(" ", "")


async def test_what_a_program_prints_is_passed_on_as_it_is(cases: dict[str, Any], pool: Pool) -> None:
    text = cases["C16"]["input"]["text"]
    assert await MathPython(pool).python(f"print({text!r})") == f"{text}\n"
