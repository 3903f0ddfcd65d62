r"""Math answers: equal as numbers, exactly, or as formulas, by math-verify in a process of its own.

What counts as the answer: the last `\boxed{...}` (nothing, where it is not complete), else what follows the last
"Answer:" or "####", else the whole text if it is one formula, else the last number that stands alone (`formulas`).
Rationals are compared exactly (`numbers`); decimals that are no whole numbers within a relative `tolerance`, since they
may be rounded. Everything else goes to a worker with limits on CPU time and memory (`math_pool`).

An answer that runs into those limits scores 0: the policy wrote it. A worker that dies, and an expected answer that
cannot be handled, are ours and raise.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from ..environment import DefinitionError
from ..failures import SessionFailure
from ..types import FailureKind, RowError
from . import forms, numbers
from .formulas import MAX_FORMULA_CHARACTERS, Formula, answer_of, expected_of
from .math_pool import Question, Verdict, WorkerDied, shared
from .numbers import NotNumeric, Number, TooLarge
from .registry import grader
from .units import same_unit

TOLERANCE = 1e-6
Expected = str | int | float | Sequence[str | int | float]


def check_row(expected_answer: Expected, tolerance: float = TOLERANCE) -> None:
    """Whether an answer could be compared with this row's. Raises `RowError`."""
    if find_spec("math_verify") is None:
        raise DefinitionError("math-verify is not installed: pip install 'gymwire[math]'")
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 <= tolerance < 1:
        raise RowError(f"`tolerance` is a share from 0 to below 1, got {tolerance!r:.60}")
    for formula in _wanted(expected_answer):
        if not formula.text:
            raise RowError(f"the expected answer is empty: {expected_answer!r:.60}")
        if len(formula.text) > MAX_FORMULA_CHARACTERS:
            raise RowError(f"the expected answer is longer than {MAX_FORMULA_CHARACTERS} characters")


@grader(check=check_row)
def math(completion: str, expected_answer: Expected, tolerance: float = TOLERANCE) -> float | Awaitable[float]:
    """1 where the final answer equals the expected one (one of them, where it is a list), else 0.

    Numbers are decided at once; an awaitable is answered where the algebra is needed. Raises `SessionFailure`.
    """
    given = answer_of(completion)
    verdict = _compare(given, _wanted(expected_answer), tolerance)
    return float(verdict) if isinstance(verdict, bool) else _awaited(verdict)


def is_correct(completion: str, expected_answer: Expected, tolerance: float = TOLERANCE) -> bool:
    """The same decision, waited for here: from a thread, a script, or another process. Raises `SessionFailure`."""
    verdict = _compare(answer_of(completion), _wanted(expected_answer), tolerance)
    if isinstance(verdict, bool):
        return verdict
    try:
        return any(shared().ask(question).result() is Verdict.EQUAL for question in verdict)
    except WorkerDied as error:
        raise _failure(error) from error


async def _awaited(questions: Sequence[Question]) -> float:
    try:
        for question in questions:
            if await asyncio.wrap_future(shared().ask(question)) is Verdict.EQUAL:
                return 1.0
    except WorkerDied as error:
        raise _failure(error) from error
    return 0.0


def _failure(error: WorkerDied) -> SessionFailure:
    return SessionFailure(str(error), FailureKind.VERIFIER_ERROR)


def _wanted(expected_answer: Expected) -> list[Formula]:
    several = expected_answer if isinstance(expected_answer, list | tuple) else [expected_answer]
    if not several:
        raise RowError("the list of expected answers is empty")
    for value in several:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise RowError(f"an expected answer is a text or a number, got {value!r:.60}")
    return [expected_of(str(value)) for value in several]


def _compare(given: Formula | None, wanted: Sequence[Formula], tolerance: float) -> bool | list[Question]:
    """Whether one of them is equal, or the questions for the algebra that decide it."""
    if given is None or not given.text or len(given.text) > MAX_FORMULA_CHARACTERS:
        return False
    read = _read(given.text)
    open_questions: list[Question] = []
    for expected in wanted:
        decided = _decided(expected, given, read, tolerance)
        if decided:
            return True
        if decided is None:
            open_questions.append(Question(expected.text, given.text, tolerance))
    return open_questions or False


def _decided(expected: Formula, given: Formula, read: _Read, tolerance: float) -> bool | None:
    """What can be said without algebra; None where it is needed."""
    if expected.unit and given.unit and not same_unit(expected.unit, given.unit):
        return False
    if _plain(expected.text) == _plain(given.text):
        return True
    if (told := forms.decided(expected.text, given.text)) is not None:
        return told
    wanted = _read(expected.text)
    if wanted.number is not None and read.number is not None:
        return numbers.equal(wanted.number, read.number, tolerance)
    if read.too_large and not wanted.too_large:
        return False
    return None


@dataclass(frozen=True, slots=True)
class _Read:
    number: Number | None = None
    too_large: bool = False


def _read(text: str) -> _Read:
    try:
        return _Read(numbers.read(text))
    except NotNumeric:
        return _Read()
    except TooLarge:
        return _Read(too_large=True)


#: White space, but for that between two digits: `1 2` is not 12.
_BESIDE_NO_DIGITS = re.compile(r"(?<![0-9])\s+|\s+(?![0-9])")


def _plain(text: str) -> str:
    return _BESIDE_NO_DIGITS.sub("", text.strip()).casefold()
