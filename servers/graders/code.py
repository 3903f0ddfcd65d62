"""Programs against hidden tests: rows of APPS, TACO, LiveCodeBench, MBPP and HumanEval, and NeMo Gym's forms of them.

`code_extract` says which part of an answer is the program, `code_cases` what a row's columns mean, `code_compare` when
an output or a value is the expected one, `code_run` in what order tests run. What a program may try is of no use to it:

- Programs run in the sandbox, and what is expected of them is never there: outputs and values are compared in this
  process. A program can walk frames, read files, exit as it likes, forge every byte that its job says: all that it can
  say is an output or a value, and those are what is compared.
- A function's answer crosses as a plain built-in value; an object with an `__eq__` of its own cannot cross.
- Tests that are statements run in a second job, which the program is not in; it answers them with plain values.
- A test has passed when this process has a record of it, and in no other way.

What a program does, time limits included, is a score. A sandbox that cannot run it is a failed session
(`provider_unavailable`), and so are tests that break by themselves; a row without usable tests is refused when it is
read or seeded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from ..sandbox.jobs import Sandbox
from ..types import RowError
from .code_cases import COLUMNS, Tests, tests_of
from .code_compare import TOLERANCE
from .code_extract import program_of
from .code_run import Graded, Grading
from .code_talk import JOB_OUTPUT_BYTES, Settings
from .registry import grader

#: Characters of a program; a longer one is not run.
MAX_PROGRAM = 500_000
MIN_ANSWER_BYTES = 65_536


def check_row(
    input_output: Any = None,
    unit_tests: Any = None,
    public_test_cases: Any = None,
    private_test_cases: Any = None,
    metadata: Any = None,
    test_list: Any = None,
    challenge_test_list: Any = None,
    test_setup_code: Any = None,
    test_imports: Any = None,
    prompt: Any = None,
    test: Any = None,
    entry_point: Any = None,
    max_tests: int | None = None,
    timeout_s: float | None = None,
    total_s: float | None = None,
    memory_mb: int | None = None,
    tolerance: float | None = None,
) -> None:
    """Whether the row has tests that can be run. Raises `RowError` with the column and the fix."""
    given = dict(locals())
    for name, most in _NUMBERS.items():
        value = given[name]
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < most
        ):
            raise RowError(f"`{name}` is a number above 0 and below {most:g}, got {value!r:.60}")
    tests_of({name: given[name] for name in COLUMNS})


#: Options and what they are below.
_NUMBERS = {"max_tests": 1e6, "timeout_s": 200.0, "total_s": 300.0, "memory_mb": 1025, "tolerance": 1.0}


@grader(check=check_row)
async def code(
    completion: str,
    sandbox: Sandbox,
    input_output: Any = None,
    unit_tests: Any = None,
    public_test_cases: Any = None,
    private_test_cases: Any = None,
    metadata: Any = None,
    test_list: Any = None,
    challenge_test_list: Any = None,
    test_setup_code: Any = None,
    test_imports: Any = None,
    prompt: Any = None,
    test: Any = None,
    entry_point: Any = None,
    partial: bool = False,
    max_tests: int | None = None,
    timeout_s: float = 6.0,
    total_s: float = 30.0,
    memory_mb: int = 256,
    tolerance: float = TOLERANCE,
) -> float:
    """1 where the answer's program passes every test, else 0; with `partial` the share of the tests that it passes.

    max_tests: of the row's tests the longest so many. timeout_s: of one test; total_s: of all together, running time
    alone (below the time limit of `verify`). memory_mb: of a job. tolerance: of decimals.
    """
    columns = {name: value for name, value in locals().items() if name in COLUMNS}
    options = Options(partial, max_tests, Settings(timeout_s, total_s, memory_mb), tolerance)
    graded = await grade(completion, tests_of(columns), sandbox, options)
    return graded.passed / graded.total if partial else float(graded.solved)


@dataclass(frozen=True, slots=True)
class Options:
    """How programs are graded; the parameters of `code`."""

    partial: bool = False
    max_tests: int | None = None
    settings: Settings = field(default_factory=Settings)
    tolerance: float = TOLERANCE


async def grade(completion: str, tests: Tests, sandbox: Sandbox, options: Options | None = None) -> Graded:
    """An answer's records. Raises `SandboxUnavailable` where it cannot be run, `RowError` where its tests cannot."""
    options = options or Options()
    chosen = tests.longest(options.max_tests)
    program = program_of(completion)
    if program is None or len(program) > MAX_PROGRAM:
        return Graded(len(chosen.tests))
    settings = replace(options.settings, output_bytes=answer_bytes(chosen))
    grading = Grading(sandbox, chosen, settings, options.tolerance, every_test=options.partial)
    return await grading.run(whole_program(program, chosen))


def answer_bytes(tests: Tests) -> int:
    """What a program may answer to one test: several times what is expected, in steps that tell it nothing of that."""
    most = MIN_ANSWER_BYTES
    while most < 8 * tests.longest_answer and most < JOB_OUTPUT_BYTES:
        most *= 4
    return most


def whole_program(program: str, tests: Tests) -> str:
    """What is run: HumanEval's answers are whole functions, or go on where the prompt ends."""
    if not tests.prompt:
        return program
    names = "|".join(map(re.escape, tests.names))
    if re.search(rf"^(?:async\s+)?def\s+(?:{names})\b|^(?:{names})\s*=", program, re.MULTILINE):
        return f"{tests.given}\n\n{program}"
    first = next((line for line in program.split("\n") if line.strip()), "")
    if first[:1] not in (" ", "\t"):
        program = "\n".join(f"    {line}" for line in program.split("\n"))
    return tests.prompt + program
