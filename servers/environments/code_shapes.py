"""A problem as a row of one of the public shapes: its prompt, its columns, and larger tests that no row carries.

Every test comes from a random source, so equal seeds give equal rows; what is expected comes from the reference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

from ..graders.code_cases import AssertTest, CallTest, InputTest, Test, Tests
from ..types import Json
from .problems import Problem
from .problems.catalog import Arguments

#: The sizes of a row's random tests.
SIZES = (1, 2, 3, 5, 8, 13)
SHOWN = 2

Cases = Sequence[tuple[Arguments, Any]]


def solved(problem: Problem, arguments: Arguments) -> Any:
    """What the reference answers; the arguments stay as they are."""
    return problem.function(*deepcopy(arguments))


def cases_of(problem: Problem, rng: Random) -> Cases:
    """A row's tests: the problem's edges, then random ones from small to larger."""
    drawn = [*problem.edges, *(problem.draw(rng, size) for size in SIZES)]
    return [(arguments, solved(problem, arguments)) for arguments in drawn]


def examples_of(tests: Tests, problem: Problem, shape: str) -> Tests:
    """The examples that every prompt shows, as tests."""
    shown = [(given, solved(problem, given)) for given in problem.edges[:SHOWN]]
    return replace(tests, tests=tuple(_TESTS[shape](problem, *case) for case in shown))


def with_large(tests: Tests, problem: Problem, shape: str, seed: int) -> Tests:
    """The tests, and one as large as the problem is meant for."""
    return replace(tests, tests=(*tests.tests, large_test(problem, shape, seed)))


@lru_cache(64)
def large_test(problem: Problem, shape: str, seed: int) -> Test:
    arguments = problem.draw(Random(f"{problem.name}:{seed}"), problem.large)
    return _TESTS[shape](problem, arguments, solved(problem, arguments))


# Texts


def as_input(problem: Problem, arguments: Arguments) -> str:
    """The arguments as the lines that a program reads."""
    written = zip(problem.parameters.values(), arguments, strict=True)
    return "".join(_WRITERS[kind](value) for kind, value in written)


def as_output(kind: str, value: Any) -> str:
    if kind == "bool":
        return "YES\n" if value else "NO\n"
    if kind == "list[list[int]]":
        return "".join(" ".join(map(str, row)) + "\n" for row in value)
    return " ".join(map(str, value)) + "\n" if kind == "list[int]" else f"{value}\n"


_WRITERS: dict[str, Callable[[Any], str]] = {
    "int": lambda value: f"{value}\n",
    "str": lambda value: f"{value}\n",
    "list[int]": lambda value: f"{len(value)}\n{' '.join(map(str, value))}\n",
    "list[str]": lambda value: f"{len(value)}\n" + "".join(f"{item}\n" for item in value),
    "list[list[int]]": lambda value: f"{len(value)}\n" + "".join(" ".join(map(str, row)) + "\n" for row in value),
}
_READERS = {
    "int": "int(next(lines))",
    "str": "next(lines)",
    "list[int]": "[int(word) for _ in [next(lines)] for word in next(lines).split()]",
    "list[str]": "[next(lines) for _ in range(int(next(lines)))]",
    "list[list[int]]": "[[int(word) for word in next(lines).split()] for _ in range(int(next(lines)))]",
}
_PRINTERS = {
    "bool": 'print("YES" if answer else "NO")',
    "list[int]": "print(*answer)",
    "list[list[int]]": "for row in answer:\n    print(*row)",
}
_INPUTS = {
    "int": "a line with the number",
    "str": "a line with the text",
    "list[int]": "a line with the count of its numbers, then a line with the numbers",
    "list[str]": "a line with the count of its texts, then a line for each",
    "list[list[int]]": "a line with the count of its rows, then a line with the numbers of each row",
}
_OUTPUTS = {
    "int": "the number",
    "float": "the number",
    "str": "the text",
    "bool": "YES or NO",
    "list[int]": "the numbers on one line",
    "list[list[int]]": "the numbers of each row on a line of its own",
}


def as_program(problem: Problem, source: str) -> str:
    """A function of this problem as a program that reads and prints."""
    given = ", ".join(_READERS[kind] for kind in problem.parameters.values())
    printed = _PRINTERS.get(problem.returns, "print(answer)")
    lines = 'lines = iter(sys.stdin.read().split("\\n"))'
    return f"import sys\n\n\n{source}\n\n{lines}\nanswer = {problem.name}({given})\n{printed}\n"


def _as_call(problem: Problem, arguments: Arguments) -> str:
    return f"{problem.name}({', '.join(map(repr, arguments))})"


def _as_assert(problem: Problem, arguments: Arguments, expected: Any) -> str:
    if problem.returns == "float":
        return f"assert abs({_as_call(problem, arguments)} - {expected!r}) <= 1e-6 * max(1.0, abs({expected!r}))"
    return f"assert {_as_call(problem, arguments)} == {expected!r}"


# Prompts


def prompt_of(problem: Problem, shape: str, cases: Cases) -> str:
    shown = cases[:SHOWN]
    if shape in READING:
        return _reading_prompt(problem, shown)
    examples = "\n".join(f"{_as_call(problem, given)} -> {expected!r}" for given, expected in shown)
    answer = "Answer with the function in one fenced block of Python."
    if shape == "humaneval":
        return f"Complete this function. {answer}\n\n```python\n{stub_of(problem, shown)}```"
    return f"Write the Python function `{problem.header[4:-1]}`.\n\n{problem.task}\n\n{examples}\n\n{answer}"


def _reading_prompt(problem: Problem, shown: Cases) -> str:
    given = "\n".join(f"- {name}: {_INPUTS[kind]}" for name, kind in problem.parameters.items())
    examples = "\n\n".join(
        f"Input:\n{as_input(problem, arguments)}Output:\n{as_output(problem.returns, expected)}".rstrip()
        for arguments, expected in shown
    )
    return (
        f"Write a Python program, {problem.name}.py, that reads standard input and prints to standard output.\n\n"
        f"{problem.task}\n\nThe input has, in this order:\n{given}\n\nPrint {_OUTPUTS[problem.returns]}.\n\n"
        f"{examples}\n\nAnswer with the program in one fenced block of Python."
    )


def stub_of(problem: Problem, shown: Cases) -> str:
    """A function's head and docstring, in HumanEval's manner."""
    examples = "".join(f"    >>> {_as_call(problem, given)}\n    {expected!r}\n" for given, expected in shown)
    return f'{problem.header}\n    """{problem.task}\n\n{examples}    """\n'


# Columns


def _apps_reading(problem: Problem, cases: Cases) -> Json:
    inputs = [as_input(problem, given) for given, _ in cases]
    outputs = [as_output(problem.returns, expected) for _, expected in cases]
    return {"input_output": json.dumps({"inputs": inputs, "outputs": outputs})}


def _apps_calling(problem: Problem, cases: Cases) -> Json:
    inputs, outputs = [list(given) for given, _ in cases], [expected for _, expected in cases]
    return {"input_output": json.dumps({"fn_name": problem.name, "inputs": inputs, "outputs": outputs})}


def _live(problem: Problem, cases: Cases, case: Callable[[Arguments, Any], Json], metadata: Json) -> Json:
    listed = [case(given, expected) for given, expected in cases]
    return {
        "public_test_cases": json.dumps(listed[:SHOWN]),
        "private_test_cases": json.dumps(listed[SHOWN:]),
        "metadata": json.dumps(metadata),
    }


def _live_reading(problem: Problem, cases: Cases) -> Json:
    def case(given: Arguments, expected: Any) -> Json:
        texts = {"input": as_input(problem, given), "output": as_output(problem.returns, expected)}
        return {**texts, "testtype": "stdin"}

    return _live(problem, cases, case, {})


def _live_calling(problem: Problem, cases: Cases) -> Json:
    def case(given: Arguments, expected: Any) -> Json:
        texts = {"input": "\n".join(map(json.dumps, given)), "output": json.dumps(expected)}
        return {**texts, "testtype": "functional"}

    return _live(problem, cases, case, {"func_name": problem.name})


def _mbpp(problem: Problem, cases: Cases) -> Json:
    return {"test_list": [_as_assert(problem, *case) for case in cases]}


def _human_eval(problem: Problem, cases: Cases) -> Json:
    lines = [_as_assert(problem, *case).replace(f"{problem.name}(", "candidate(", 1) for case in cases]
    body = "".join(f"    {line}\n" for line in lines)
    return {
        "prompt": stub_of(problem, cases[:SHOWN]),
        "test": f"def check(candidate):\n{body}",
        "entry_point": problem.name,
    }


#: The forms of a row by name, and which of them are programs that read and print.
SHAPES: dict[str, Callable[[Problem, Cases], Json]] = {
    "apps_reading": _apps_reading,
    "apps_calling": _apps_calling,
    "livecodebench_reading": _live_reading,
    "livecodebench_calling": _live_calling,
    "mbpp": _mbpp,
    "humaneval": _human_eval,
}
READING = frozenset({"apps_reading", "livecodebench_reading"})


def _input_test(problem: Problem, given: Arguments, expected: Any) -> Test:
    return InputTest(as_input(problem, given).encode(), as_output(problem.returns, expected))


def _call_test(problem: Problem, given: Arguments, expected: Any) -> Test:
    return CallTest(given, (expected,), len(json.dumps(given)))


def _assert_test(problem: Problem, given: Arguments, expected: Any) -> Test:
    return AssertTest(_as_assert(problem, given, expected))


_TESTS: dict[str, Callable[[Problem, Arguments, Any], Test]] = {
    "apps_reading": _input_test,
    "apps_calling": _call_test,
    "livecodebench_reading": _input_test,
    "livecodebench_calling": _call_test,
    "mbpp": _assert_test,
    "humaneval": _assert_test,
}
