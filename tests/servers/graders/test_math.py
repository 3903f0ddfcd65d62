"""Which math answers are equal, and what the processes behind the algebra survive."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from gymwire.servers.failures import SessionFailure
from gymwire.servers.graders import math_pool
from gymwire.servers.graders.math import is_correct, math
from gymwire.servers.graders.math_pool import Pool, Process, Question, Verdict, WorkerDied
from gymwire.servers.graders.numbers import NotNumeric, TooLarge, read

#: What behind a number changes it, and is no unit.
BEHIND = [
    *(" million", " billion", " thousand", " hundred", " dozen", " percent more", "\\%\\%", " to 6", " squared"),
    *(" plus 1", " minus 1", " not", "mod7", "xy", "ab", "\\text{x}", "\\text{ i}", "\\mathrm{e}", "\\mathrm{i}"),
    *("\\mathrm{e}^2", "\\text{ is wrong, }", " and 6", " or so", " sqrt 2", " pi", "\\text{ times } 2", ";6", " = 4"),
]
EQUAL = [
    ("7", "\\boxed{\u0667}"),
    ("7", "\\boxed{\uff17}"),
    ("1/3", "\\boxed{0.\\overline{3}}"),
    ("1", "\\boxed{0.\\overline{9}}"),
    ("1 1/2", "\\boxed{1.5}"),
    ("1000000", "\\boxed{1 000 000}"),
    ("1000000", "\\boxed{1 million}"),
    ("0.05", "\\boxed{5 percent}"),
    ("5", "\\boxed{2 + 3 = 5}"),
    ("2:3", "\\boxed{2/3}"),
    ("1010_2", "\\boxed{1010_{2}}"),
    ("5", "\\boxed{5 apples}"),
    ("5", "\\boxed{5 km/h}"),
    ("5", "\\boxed{5\\text{ cm}^2}"),
    ("5", "\\boxed{5cm}"),
    ("10", "\\boxed{10 square meters}"),
    ("1234", "1,234"),
    ("1234", "\\boxed{1{,}234}"),
    ("0.5", "1/2"),
    ("\\frac12", "Answer: 0.5"),
    ("1\\frac{1}{2}", "\\boxed{\\frac{3}{2}}"),
    ("50", "50%"),
    ("0.5", "\\boxed{50\\%}"),
    ("50\\%", "\\boxed{\\frac{1}{2}}"),
    ("3", "\\boxed{3.0}"),
    ("2/3", "0.6666667"),
    ("-3", "\u22123"),
    ("18", "She makes $18 every day."),
    ("18", "9 * 2 = 18 dollars\n#### 18"),
    ("She has 9 left.\n#### 9", "**Answer:** $9"),
    ("18", "\\boxed{\\$18}"),
    ("18", "18."),
    ("10", "\\boxed{10 \\text{ apples}}"),
    ("5 \\text{ cm}", "\\boxed{5}"),
    ("5 cm", "\\boxed{5 centimetres}"),
    ("5 \\text{ cm}^2", "\\boxed{5 square centimeters}"),
    ("30 mph", "\\boxed{30\\text{ miles per hour}}"),
    ("3 h", "\\boxed{3 hours}"),
    ("1 foot", "\\boxed{1 ft}"),
    ("5 apples", "\\boxed{5 apple}"),
    ("90^\\circ", "\\boxed{90}"),
    ("1024", "\\boxed{2^{10}}"),
    ("120", "\\boxed{5!}"),
    ("2^{1000000}", "\\boxed{2^{1000000}}"),
    ("x", "\\boxed{X}"),
    ("no solution", "\\boxed{\\text{No solution}}"),
    ("5", "x = 5"),
    ("x = 5", "\\boxed{5}"),
    ("(x-1)(x+1)", "\\boxed{x^2-1}"),
    ("\\frac{\\sqrt{3}}{3}", "\\boxed{\\frac{1}{\\sqrt{3}}}"),
    ("3", "\\boxed{\\log_2 8}"),
    ("\\pi", "3.14159265"),
    ("\\{1, 2\\}", "\\boxed{2, 1}"),
    ("(1, 2)", "\\boxed{(1,2)}"),
    ("x+y=3", "\\boxed{y=3-x}"),
    ("10^{-3}", "0.001"),
    ("\\dfrac{3}{4}", "The answer is \\(\\frac{3}{4}\\)."),
]
DIFFERENT = [
    *(("5", "\\boxed{5" + behind + "}") for behind in BEHIND),
    ("5", "\\boxed{4=5}"),
    ("5", "\\boxed{x=4=5}"),
    ("2ab", "\\boxed{2}"),
    ("2^{200000}", "\\boxed{2^{200000}+1}"),
    ("\\infty", "\\boxed{-\\infty}"),
    ("3:00", "\\boxed{3:30}"),
    ("3:00", "\\boxed{3}"),
    ("12:30 PM", "\\boxed{12:30 AM}"),
    ("1 1/2", "\\boxed{11/2}"),
    ("12", "\\boxed{1 2}"),
    ("1010_2", "\\boxed{1010_3}"),
    ("10", "\\boxed{10_2}"),
    ("(1, 2)", "\\boxed{\\{1, 2\\}}"),
    ("5 \\text{ cm}^2", "\\boxed{5 \\text{ cm}}"),
    ("3", "3.0000001"),
    ("1/3", "0.333"),
    ("0", "0.0000001"),
    ("5 cm", "\\boxed{5 m}"),
    ("5 cm", "\\boxed{5 millimeters}"),
    ("5 m/s", "\\boxed{5 m}"),
    ("5 cm^2", "\\boxed{5 cm^3}"),
    ("5 hours", "\\boxed{5 minutes}"),
    ("(1, 2)", "\\boxed{(2, 1)}"),
    ("[0, 1)", "\\boxed{[0, 1]}"),
    ("\\pi", "3.14"),
    ("x^2", "\\boxed{x^3}"),
    ("5", "five"),
    ("5", ""),
    ("5", "I do not know."),
    ("5", "\\boxed{5 or 6}"),
    ("5", "\\boxed{" + "5" * 2000 + "}"),
    ("12345678", "\\boxed{12345678.5}"),
    ("2", "\\boxed{\\{1, 2\\}}"),
]


@pytest.mark.parametrize(("expected", "completion"), EQUAL)
def test_equal_answers(expected: str, completion: str) -> None:
    assert is_correct(completion, expected)


@pytest.mark.parametrize(("expected", "completion"), DIFFERENT)
def test_different_answers(expected: str, completion: str) -> None:
    assert not is_correct(completion, expected)


def test_one_of_several_and_numbers_as_numbers() -> None:
    assert is_correct("\\boxed{3}", [2, 3]) and is_correct("\\boxed{0.25}", 0.25)
    assert is_correct("\\boxed{1+x}", ["y", "x+1"]) and not is_correct("\\boxed{4}", [2, 3])


def test_a_tolerance_may_be_asked_for() -> None:
    assert is_correct("3.14", "3.14159", tolerance=1e-2) and not is_correct("3.14", "3.14159")
    assert not is_correct("4.001", "4", tolerance=1e-2)


@pytest.mark.parametrize("text", ["9^{9^{9^{9}}}", "99999999999!", "\\binom{10^9}{10^8}", "10^{10^{10}}", "((" * 50])
def test_what_is_too_large_is_not_evaluated(text: str) -> None:
    started = time.monotonic()
    with pytest.raises((TooLarge, NotNumeric)):
        read(text)
    assert time.monotonic() - started < 1.0


@pytest.mark.parametrize("piece", ["5900!*", "2^{60000}+", "1/3^{40000}+", "-", "\\frac{1}{7}+", "(", "{", "2^"])
def test_no_text_costs_more_than_its_budget(piece: str) -> None:
    started = time.monotonic()
    with pytest.raises((TooLarge, NotNumeric)):
        read((piece * 1000)[:1990] + "x")
    assert time.monotonic() - started < 5.0


# ---- the processes


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool(1)
    yield made
    made.close()


ALGEBRA = Question("(x+1)^2", "x^2+2x+1", 1e-6)


def worker_of(pool: Pool) -> Process:
    assert pool.ask(ALGEBRA).result() is Verdict.EQUAL
    [process] = pool._processes
    return process


def child_of(process: Process) -> int:
    pid = process._process.pid
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_worker_that_is_killed_is_replaced(pool: Pool) -> None:
    worker_of(pool)._process.kill()
    assert pool.ask(ALGEBRA).result() is Verdict.EQUAL


def test_a_workers_child_that_is_killed_is_replaced(pool: Pool) -> None:
    process = worker_of(pool)
    before = child_of(process)
    os.kill(before, signal.SIGKILL)
    assert pool.ask(ALGEBRA).result() is Verdict.EQUAL
    assert worker_of(pool) is process and child_of(process) != before


def test_what_uses_too_much_memory_is_the_answers_fault(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_pool, "MEMORY_BYTES", 300 << 20)
    assert pool.ask(ALGEBRA).result() is Verdict.EQUAL
    assert pool.ask(Question("x", "(x+y+z+1)^{4000}", 0.0)).result() is not Verdict.EQUAL
    assert pool.ask(ALGEBRA).result() is Verdict.EQUAL


def test_an_expected_formula_beyond_the_algebra_is_our_failure(pool: Pool) -> None:
    with pytest.raises(WorkerDied, match="the expected formula is beyond the grader"):
        pool.ask(Question("9^{9^{9^{9}}}", "5", 0.0)).result()


def test_a_worker_that_cannot_start_is_our_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(math_pool, "PROGRAM", tmp_path / "nothing.py")
    pool = Pool(1)
    monkeypatch.setattr("gymwire.servers.graders.math.shared", lambda: pool)
    with pytest.raises(SessionFailure, match="the math worker is gone") as failure:
        is_correct("\\boxed{x+1}", "1+x")
    assert failure.value.kind == "verifier_error"
    pool.close()


async def test_a_caller_that_leaves_takes_its_question_back(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gymwire.servers.graders.math.shared", lambda: pool)
    busy = pool.ask(Question("x", "x^{9^{9^{9^{9}}}}", 0.0))
    waiting = [asyncio.ensure_future(_score("1+x")) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert all(task.cancelled() for task in waiting)
    assert await _score("1+x") == 1.0 and busy.done()


async def _score(said: str) -> float:
    score = math(f"\\boxed{{{said}}}", "x+1")
    return score if isinstance(score, float) else await score


def test_nothing_is_left_when_the_process_ends(tmp_path: Path) -> None:
    code = (
        "from gymwire.servers.graders.math import is_correct\n"
        "from gymwire.servers.graders.math_pool import shared\n"
        "assert is_correct('\\\\boxed{x+1}', '1+x')\n"
        "print(*(process._process.pid for process in shared()._processes))\n"
    )

    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0 and ran.stderr == ""
    assert ran.stdout.split() and not any(Path(f"/proc/{pid}").exists() for pid in ran.stdout.split())
