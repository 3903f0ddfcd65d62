"""Seconds to grade 1,000 hidden-test cases of trivial programs: of one program, and of a hundred with ten each."""

from __future__ import annotations

import asyncio
import shutil
import time

from gymwire.servers.graders.code import grade
from gymwire.servers.graders.code_cases import tests_of
from gymwire.servers.sandbox.jobs import Sandbox, SandboxUnavailable
from gymwire.servers.sandbox.select import Choice, sandbox_of

from .figures import Figure, at_most
from .fleet import Bench
from .processes import BenchError

CASES, LIMIT_S = 1_000, 5.0
ANSWER = "```python\nn = int(input())\nprint(n * n)\n```"


async def figures(bench: Bench) -> list[Figure]:
    """The best of the rounds, with bubblewrap where it is installed: it needs no image."""
    try:
        backend = "bubblewrap" if shutil.which("bwrap") else ""
        sandbox = sandbox_of(Choice(backend))
        await sandbox.open()
    except SandboxUnavailable as error:
        raise BenchError(str(error)) from error
    try:
        return [await _figure(bench, sandbox, programs) for programs in (1, 100)]
    finally:
        await sandbox.close()


async def _figure(bench: Bench, sandbox: Sandbox, programs: int) -> Figure:
    numbers = range(CASES // programs)
    tests = tests_of(
        {"input_output": {"inputs": [f"{n}\n" for n in numbers], "outputs": [f"{n * n}\n" for n in numbers]}}
    )
    best = float("inf")
    for number in range(bench.size.rounds):
        bench.say(f"1,000 hidden-test cases, {programs} programs, round {number + 1}")
        started = time.perf_counter()
        done = await asyncio.gather(*(grade(ANSWER, tests, sandbox) for _ in range(programs)))
        if not all(graded.solved for graded in done):
            raise BenchError("a right program did not pass")
        best = min(best, time.perf_counter() - started)
    name = f"1,000 hidden-test cases, {programs} program{'s' * (programs > 1)}"
    return Figure("programs", name, "s", {"": best}, {}, (at_most(LIMIT_S, best, "s"),))
