"""Which part of an answer is the program, and what a row's columns mean; without a sandbox."""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from typing import Any

import pytest
from gymwire.servers.graders.code_cases import CallTest, InputTest
from gymwire.servers.graders.code_cases import tests_of as cases_of
from gymwire.servers.graders.code_extract import program_of
from gymwire.servers.types import RowError


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("```python\na\n```\nthen\n```py\nb\n```", "b\n"),
        ("```\na\n```\n```\nb\n```", "b\n"),
        ("```python\na\n```\n```\noutput\n```", "a\n"),
        ("```python\na\n```\n```text\noutput\n```", "a\n"),
        ("```Python3\na\n```", "a\n"),
        ("~~~python\na\n~~~", "a\n"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''\n"),
        ("```markdown\n```python\na\n```\n```", "a\n"),
        ("1. So:\n   ```python\n   if x:\n       a\n   ```", "if x:\n    a\n"),
        ("1. ```python\n   if x:\n       a\n   ```", "if x:\n    a\n"),
        ("- ```python\n  a\n  b\n  ```", "a\nb\n"),
        ("> So:\n> ```python\n> if x:\n>     a\n> ```\nas I said", "if x:\n    a\n"),
        ("**So:** ```python\na\n```\nThanks", "a\n"),
        ("Not `a` but ```py3\nb\n```\n", "b\n"),
        ("```python\na", "a\n"),
        ("```python\na\n```\n```python\n", None),
        ("```cpp\na\n```", None),
        ("print(1)", "print(1)"),
        ("<think>```python\na\n```</think>print(2)", "print(2)"),
        ("```python\r\na\r\n```", "a\r\n"),
        ("", None),
    ],
)
def test_the_program_of_an_answer(answer: str, program: str | None) -> None:
    assert program_of(answer) == program


def test_a_hostile_answer_is_read_in_no_time() -> None:
    for line in (
        "`" * 200_000,
        "```" + " " * 200_000 + "x",
        "x" * 200_000 + "```",
        "> " * 200_000,
        "- " * 100_000,
        "~~~\n" * 50_000,
    ):
        program_of(line)


CASES = [{"input": "[1]\n2", "output": "3", "testtype": "functional"}]


@pytest.mark.parametrize("pack", [True, False])
def test_live_code_bench_rows_packed_or_not(pack: bool) -> None:
    text = json.dumps(CASES)
    private = base64.b64encode(zlib.compress(pickle.dumps(text))).decode() if pack else text
    made = cases_of({"private_test_cases": private, "metadata": '{"func_name": "f"}'})
    assert made.function == "f" and made.tests == (CallTest(([1], 2), (3,), 5),)


def test_a_pickle_that_names_a_function_is_refused() -> None:
    packed = base64.b64encode(zlib.compress(b"cbuiltins\nprint\n(S'run'\ntR.")).decode()
    with pytest.raises(RowError, match=r"it names builtins\.print"):
        cases_of({"private_test_cases": packed})


def test_apps_rows_as_texts_and_as_lines() -> None:
    made = cases_of({"input_output": json.dumps({"inputs": [["1", "2"], "3\n"], "outputs": [["4"], "5"]})})
    assert made.tests == (InputTest(b"1\n2", "4"), InputTest(b"3\n", "5"))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({}, "no tests"),
        ({"test_list": []}, "empty"),
        ({"input_output": "{"}, "no JSON"),
        ({"input_output": {"inputs": ["1"], "outputs": []}}, "1 inputs and 0 outputs"),
        ({"input_output": {"inputs": [1], "outputs": ["1"]}}, r"inputs\[0\]"),
        ({"private_test_cases": json.dumps(CASES)}, "func_name"),
        ({"private_test_cases": "not packed"}, "private_test_cases"),
        ({"test_list": ["assert f("]}, "no Python"),
        ({"test": "def check(c): pass", "entry_point": "a b"}, "entry_point"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(columns: dict[str, Any], why: str) -> None:
    with pytest.raises(RowError, match=why):
        cases_of(columns)
