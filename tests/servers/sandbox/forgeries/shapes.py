"""One small task in every shape that the code grader reads, and what a forgery is: a program that solves nothing.

The task: twice a number. The expected values stand in the rows below and must be of no use to any program.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

NUMBERS = (3, 10, 41, 700, 12_345, 8_080)
CHECK = "def check(candidate):\n" + "".join(f"    assert candidate({n}) == {2 * n}\n" for n in NUMBERS)
HONEST_FUNCTION = "def double(n):\n    return 2 * n  # twice, of course\n"
#: What a judge asks of an object of the program's: tests whose words could mean something else to it.
LOOSE = "def check(candidate):\n    assert 6 in candidate(3)\n    assert candidate(4)\n    assert 20 in candidate(10)\n"
#: A function's answer is its next argument.
TWICE = "def check(candidate):\n    assert candidate([candidate([3])]) == [[12]]\n"

ROWS: dict[str, dict[str, Any]] = {
    "stdin": {"input_output": {"inputs": [f"{n}\n" for n in NUMBERS], "outputs": [f"{2 * n}\n" for n in NUMBERS]}},
    "call": {
        "input_output": {"fn_name": "double", "inputs": [[n] for n in NUMBERS], "outputs": [2 * n for n in NUMBERS]}
    },
    "lists": {
        "input_output": {
            "fn_name": "double",
            "inputs": [[[n]] for n in NUMBERS],
            "outputs": [[2 * n, {"n": n}, 0.5] for n in NUMBERS],
        }
    },
    "functional": {
        "private_test_cases": [{"input": f"{n}", "output": f"{2 * n}", "testtype": "functional"} for n in NUMBERS],
        "metadata": json.dumps({"func_name": "double"}),
    },
    "asserts": {"test_list": [f"assert double({n}) == {2 * n}" for n in NUMBERS]},
    "check": {"prompt": "def double(n):\n", "test": CHECK, "entry_point": "double"},
    "loose": {"prompt": "def double(n):\n", "test": LOOSE, "entry_point": "double"},
    "twice": {"prompt": "def double(n):\n", "test": TWICE, "entry_point": "double"},
}
HONEST = {
    "stdin": "print(2 * int(input()))\n",
    "call": HONEST_FUNCTION,
    "lists": "def double(n):\n    return [2 * n[0], {'n': n[0]}, 0.5]\n",
    "functional": "class Solution:\n    def double(self, n):\n        return 2 * n\n",
    "asserts": HONEST_FUNCTION,
    "check": HONEST_FUNCTION,
    "loose": "def double(n):\n    return [2 * n]\n",
    "twice": "def double(n):\n    return [2 * n[0]] if isinstance(n[0], int) else [[2 * n[0][0]]]\n",
}
#: The shapes in which a program's function is called.
CALLED = ("call", "lists", "functional", "asserts", "check")


@dataclass(frozen=True, slots=True)
class Forgery:
    """A program that tries to pass the tests of rows of these shapes without doing the task."""

    name: str
    shapes: tuple[str, ...]
    program: str


#: For programs: everything that can be written to, and every value in reach of this process.
REACH = '''
import gc, os, sys

def writers():
    """File objects of the frames above, of the garbage collector's, and every descriptor."""
    found, frame = [], sys._getframe()
    while frame:
        found += [value for value in frame.f_locals.values() if hasattr(value, "write")]
        frame = frame.f_back
    return found + [value for value in gc.get_objects() if hasattr(type(value), "write") and hasattr(value, "fileno")]

def say(line):
    for writer in writers():
        try:
            writer.write(line)
            writer.flush()
        except Exception:
            pass
    for fd in range(256):
        try:
            os.set_blocking(fd, False)
            os.write(fd, line)
        except OSError:
            pass
'''
