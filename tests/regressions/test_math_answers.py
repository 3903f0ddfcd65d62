"""C01, C02, C04, C05: math answers that were scored wrongly, or not at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from gymwire.servers.graders.math import is_correct, math
from gymwire.servers.graders.math_pool import CPU_LIMIT_S, shared
from gymwire.servers.types import Row

from tests.wires import world

#: For several answers at a time: they share the processors with other tests.
SLACK_S = 10.0
#: The limit counts processor time; where others used the processors, the same answer is timed again.
TRIES = 3


@pytest.mark.parametrize("case", ["C01", "C02"])
def test_different_answers_are_never_equal_and_equal_ones_are(cases: dict[str, Any], case: str) -> None:
    for pair in cases[case]["input"]:
        assert not is_correct(pair["answer"], pair["gold"]), pair
        gold = pair["gold"] if pair["gold"].startswith("\\boxed") else "\\boxed{" + pair["gold"] + "}"
        assert is_correct(gold, pair["gold"]), pair


def test_the_last_box_counts(cases: dict[str, Any]) -> None:
    for pair in cases["C04"]["input"]:
        assert is_correct(pair["answer"], pair["gold"]) is pair["want"], pair


async def test_math_is_right_from_every_calling_context(cases: dict[str, Any]) -> None:
    pairs = [tuple(cases["C05"]["input"][kind]) for kind in ("right", "algebra")]
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.extend(is_correct(answer, gold) for gold, answer in pairs))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == [True, True]
    for gold, answer in pairs:
        assert is_correct(answer, gold)  # on the loop's own thread
        score = math(answer, gold)
        assert (score if isinstance(score, float) else await score) == 1.0
    code = f"from gymwire.servers.graders.math import is_correct\nprint([is_correct(a, g) for g, a in {pairs!r}])"
    other = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert (other.stdout.strip(), other.stderr) == ("[True, True]", "")


#: Three kinds of trouble that the algebra cannot get out of: a tower, a factorial, an expansion.
SOME_HOSTILE = (1, 3, 9)


def is_refused_in_time(answer: str, gold: str, limit_s: float) -> bool:
    for _ in range(TRIES):
        started = time.monotonic()
        if is_correct(answer, gold):
            return False
        if in_time(started, limit_s):
            return True
    return False


def in_time(started: float, limit_s: float) -> bool:
    took_s = time.monotonic() - started
    return took_s < limit_s or took_s < limit_s * slowness()


def slowness() -> float:
    """How much longer than its processor time a busy program takes just now: 1 where others leave it a processor."""
    started, used = time.monotonic(), time.process_time()
    while time.process_time() - used < 0.2:
        pass
    return max(1.0, (time.monotonic() - started) / 0.2)


async def test_hostile_answers_end_within_their_limit_and_the_worker_goes_on(cases: dict[str, Any]) -> None:
    gold, right = cases["C05"]["input"]["algebra"]
    assert is_correct(right, gold)
    hostile = [cases["C05"]["input"]["hostile"][index] for index in SOME_HOSTILE]
    assert await asyncio.to_thread(is_refused_in_time, hostile[0], gold, cases["C05"]["input"]["limit_s"])
    started = time.monotonic()
    waiting = [math(answer, gold) for answer in hostile]
    scores = await asyncio.gather(*(score for score in waiting if not isinstance(score, float)))
    assert scores == [0.0, 0.0, 0.0]
    assert in_time(started, len(hostile) * CPU_LIMIT_S + SLACK_S)
    assert is_correct(right, gold)


async def test_hostile_answers_end_within_their_limit_from_another_process(cases: dict[str, Any]) -> None:
    gold, right = cases["C05"]["input"]["algebra"]
    hostile = cases["C05"]["input"]["hostile"][SOME_HOSTILE[0]]
    code = (
        "import time\nfrom gymwire.servers.graders.math import is_correct\n"
        f"assert is_correct({right!r}, {gold!r})\n"
        f"started = time.monotonic()\nassert not is_correct({hostile!r}, {gold!r})\n"
        f"assert time.monotonic() - started < {(CPU_LIMIT_S + SLACK_S) * slowness()}\n"
        f"assert is_correct({right!r}, {gold!r})\n"
    )
    ran = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("gold", ["1", "(x+1)^2"])
def test_every_hostile_answer_ends_within_its_limit(cases: dict[str, Any], gold: str) -> None:
    for answer in cases["C05"]["input"]["hostile"]:
        assert is_refused_in_time(answer, gold, cases["C05"]["input"]["limit_s"]), answer
    assert is_correct(gold, gold) and is_correct(*cases["C05"]["input"]["algebra"][::-1])


def test_a_forked_process_has_workers_of_its_own(cases: dict[str, Any]) -> None:
    gold, right = cases["C05"]["input"]["algebra"]
    pool = shared()
    code = (
        "import os, sys\n"
        "from gymwire.servers.graders.math import is_correct\n"
        f"assert is_correct({right!r}, {gold!r})\n"
        "pid = os.fork()\n"
        f"good = is_correct({right!r}, {gold!r})\n"
        "if pid == 0:\n    sys.exit(0 if good else 3)\n"
        "assert good and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert shared() is pool


@pytest.mark.parametrize("case", ["C01", "C02", "C04"])
async def test_the_same_verdicts_on_every_wire(worlds: str, cases: dict[str, Any], wire: str, case: str) -> None:
    async with world("graded", wire, worlds) as connection:
        for pair in cases[case]["input"]:
            row = Row.of("Solve it.", expected_answer=pair["gold"], verifier="math")
            async with connection.session(row=row) as session:
                outcome = await session.verify([{"role": "assistant", "content": pair["answer"]}])
                assert outcome.components == {"math": float(pair.get("want", False))}, pair
