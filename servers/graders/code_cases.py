"""From the columns of a row to tests: the shapes in which public sets of programming tasks come.

- **APPS, TACO** `input_output` (an object or its JSON text), or NeMo Gym's `unit_tests`: `inputs`, `outputs`, and
  `fn_name` where a function is called. An input or output of a stdin test is a text or a list of lines; an expected
  value may be wrapped in a list of one, as those sets do, and either is accepted.
- **LiveCodeBench** `public_test_cases`, `private_test_cases`: lists of `{"input", "output", "testtype"}` (or their JSON
  text; the private ones may be base64 of zlib of a pickled JSON text), and `metadata` with `func_name`.
  A functional test has one JSON value a line.
- **MBPP** `test_list` (and `challenge_test_list`): statements, with `test_setup_code` and `test_imports`.
- **HumanEval** `prompt`, `test` (which defines `check`), `entry_point`.

A row that none of them fits, or that has no test, is refused with a `RowError`: it is our mistake, not the policy's.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..types import RowError
from .code_names import free_names

#: All columns that `tests_of` reads.
COLUMNS = (
    *("input_output", "unit_tests", "public_test_cases", "private_test_cases", "metadata"),
    *("test_list", "challenge_test_list", "test_setup_code", "test_imports", "prompt", "test", "entry_point"),
)
#: More than this in a packed column is no set of tests.
MAX_UNPACKED_BYTES = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputTest:
    """The program reads `stdin` and prints `expected`."""

    stdin: bytes
    expected: str

    @property
    def size(self) -> int:
        return len(self.stdin)


@dataclass(frozen=True, slots=True)
class CallTest:
    """The program's function answers one of `expected` to the arguments."""

    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    size: int


@dataclass(frozen=True, slots=True)
class AssertTest:
    """The statements run without an exception."""

    source: str

    @property
    def size(self) -> int:
        return len(self.source)


Test = InputTest | CallTest | AssertTest


@dataclass(frozen=True, slots=True)
class Tests:
    """All tests of one row, and what they need beside the program.

    function: what a `CallTest` calls.
    given: the row's own code that stands before the program's names (HumanEval's prompt); `setup` stands after them.
    prompt: the beginning of the program, which a completion goes on from.
    names: what the tests use and only the program can define.
    """

    tests: tuple[Test, ...]
    function: str = ""
    given: str = ""
    setup: str = ""
    prompt: str = ""
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = field(default=())

    @property
    def longest_answer(self) -> int:
        """Bytes of the longest expected answer as JSON writes it; it is not longer than a statement that decides."""
        return max(map(_answer_size, self.tests))

    def longest(self, count: int | None) -> Tests:
        """At most `count` of the tests, the longest first: what fails tends to fail there."""
        ordered = sorted(self.tests, key=lambda test: -test.size)
        return replace(self, tests=tuple(ordered[:count]))


def _answer_size(test: Test) -> int:
    if isinstance(test, InputTest):
        return len(test.expected.encode())
    return max(len(json.dumps(expected)) for expected in test.expected) if isinstance(test, CallTest) else test.size


def tests_of(columns: Mapping[str, Any]) -> Tests:
    """The tests of a row's columns, those that are None left out. Raises `RowError` with the column and the fix."""
    has = {name: value for name, value in columns.items() if value is not None}
    if "input_output" in has or "unit_tests" in has:
        found = _apps(has)
    elif "private_test_cases" in has or "public_test_cases" in has:
        found = _live_code_bench(has)
    elif "test_list" in has:
        found = _mbpp(has)
    elif "entry_point" in has and "test" in has:
        found = _human_eval(has)
    else:
        raise RowError(
            "the row has no tests: give it `input_output` (APPS, TACO), `unit_tests` (NeMo Gym), `private_test_cases` "
            "(LiveCodeBench), `test_list` (MBPP), or `test` with `entry_point` (HumanEval)"
        )
    if not found.tests:
        raise RowError("the row's list of tests is empty; a program cannot be scored without one")
    return found


# APPS, TACO, NeMo Gym


def _apps(has: Mapping[str, Any]) -> Tests:
    name = "input_output" if "input_output" in has else "unit_tests"
    raw = _json(has[name], name)
    if not isinstance(raw, Mapping):
        raise RowError(f"`{name}` is an object with `inputs` and `outputs`, got {type(raw).__name__}")
    inputs, outputs = (_list(raw.get(key), f"{name}.{key}") for key in ("inputs", "outputs"))
    if len(inputs) != len(outputs):
        raise RowError(f"`{name}` has {len(inputs)} inputs and {len(outputs)} outputs; each input needs one output")
    function = raw.get("fn_name") or ""
    if not isinstance(function, str):
        raise RowError(f"`{name}.fn_name` is a function's name, got {function!r:.60}")
    pairs = list(enumerate(zip(inputs, outputs, strict=True)))
    if function:
        return Tests(tuple(_apps_call(*pair, f"{name}.inputs[{at}]") for at, pair in pairs), function)
    tests = [
        InputTest(_text(given, f"{name}.inputs[{at}]").encode(), _text(expected, f"{name}.outputs[{at}]"))
        for at, (given, expected) in pairs
    ]
    return Tests(tuple(tests))


def _apps_call(given: Any, expected: Any, place: str) -> CallTest:
    arguments = tuple(_list(_json(given, place), place))
    wrapped = isinstance(expected, list) and len(expected) == 1
    return CallTest(arguments, (expected, expected[0]) if wrapped else (expected,), len(json.dumps(arguments)))


def _text(value: Any, place: str) -> str:
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    if not isinstance(value, str):
        raise RowError(f"`{place}` is a text or a list of lines, got {type(value).__name__}")
    return value


# LiveCodeBench


def _live_code_bench(has: Mapping[str, Any]) -> Tests:
    cases: list[tuple[str, Any]] = []
    for name in ("public_test_cases", "private_test_cases"):
        if has.get(name):
            listed = _list(_unpacked(has[name], name), name)
            cases += [(f"{name}[{at}]", case) for at, case in enumerate(listed)]
    kinds = {_field(case, "testtype", place) for place, case in cases}
    if len(kinds) > 1 or not kinds <= {"stdin", "functional"}:
        raise RowError(f"`testtype` is stdin or functional, the same for all tests of a row; got {sorted(kinds)}")
    if kinds != {"functional"}:
        return Tests(
            tuple(InputTest(_field(case, "input", at).encode(), _field(case, "output", at)) for at, case in cases)
        )
    metadata = _json(has.get("metadata", {}), "metadata")
    function = metadata.get("func_name") if isinstance(metadata, Mapping) else None
    if not isinstance(function, str) or not function:
        raise RowError("functional tests need `metadata.func_name`, the function that they call")
    return Tests(tuple(_functional(case, place) for place, case in cases), function)


def _functional(case: Any, place: str) -> CallTest:
    given = _field(case, "input", place)
    lines = [line for line in given.split("\n") if line.strip()]
    arguments = tuple(_json(line, f"{place}.input") for line in lines)
    return CallTest(arguments, (_json(_field(case, "output", place), f"{place}.output"),), len(given))


def _field(case: Any, name: str, place: str) -> str:
    value = case.get(name) if isinstance(case, Mapping) else None
    if not isinstance(value, str):
        raise RowError(f"`{place}.{name}` is a text, got {value!r:.60}")
    return value


def _unpacked(value: Any, place: str) -> Any:
    """A list, its JSON text, or that text pickled, compressed and in base64."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return _json(value, place)
    try:
        unpacker = zlib.decompressobj()
        content = unpacker.decompress(base64.b64decode(value, validate=True), MAX_UNPACKED_BYTES)
        if not unpacker.eof:
            raise RowError(f"`{place}` is cut off, or unpacks to more than {MAX_UNPACKED_BYTES} bytes")
        return _json(_TextAlone(io.BytesIO(content)).load(), place)
    except (binascii.Error, zlib.error, pickle.UnpicklingError, EOFError, ValueError, IndexError) as error:
        if isinstance(error, RowError):
            raise
        raise RowError(f"`{place}` is neither JSON nor a packed list of tests: {error}") from error


class _TextAlone(pickle.Unpickler):
    """Unpickles texts and other scalars: a pickle that names a class or a function could run anything."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}, and a list of tests needs no such thing")


# MBPP, HumanEval


def _mbpp(has: Mapping[str, Any]) -> Tests:
    sources = [*_sources(has["test_list"], "test_list")]
    if has.get("challenge_test_list"):
        sources += _sources(has["challenge_test_list"], "challenge_test_list")
    setup = has.get("test_setup_code", "")
    if not isinstance(setup, str):
        raise RowError(f"`test_setup_code` is Python source, got {type(setup).__name__}")
    given = "\n".join(_sources(has["test_imports"], "test_imports")) if has.get("test_imports") else ""
    return _asserts(sources, given=given, setup=setup)


def _sources(value: Any, place: str) -> Sequence[str]:
    listed = _list(_json(value, place), place)
    if not all(isinstance(item, str) for item in listed):
        raise RowError(f"`{place}` is a list of Python statements")
    return listed


def _human_eval(has: Mapping[str, Any]) -> Tests:
    prompt, test, entry = has.get("prompt", ""), has["test"], has["entry_point"]
    if not all(isinstance(value, str) for value in (prompt, test, entry)) or not str(entry).isidentifier():
        raise RowError("`prompt` and `test` are Python source and `entry_point` is the name of a function")
    found = _asserts([f"{test}\n\ncheck({entry})\n"], given=_closed(prompt))
    return replace(found, prompt=prompt, names=(entry,))


def _closed(prompt: str) -> str:
    """A prompt as a program of its own: where it ends in a function without a docstring, that does nothing."""
    try:
        compile(prompt, "prompt", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return f"{prompt}\n    pass\n"
    return prompt


def _asserts(sources: Iterable[str], given: str = "", setup: str = "") -> Tests:
    tests = tuple(AssertTest(source) for source in sources)
    modules, names = free_names([given, setup], [test.source for test in tests])
    return Tests(tests, given=given, setup=setup, names=names, modules=modules)


# All shapes


def _json(value: Any, place: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RowError(f"`{place}` is no JSON: {error}") from error


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise RowError(f"`{place}` is a list, got {type(value).__name__}")
    return value
