"""The program that decides symbolically whether two formulas are equal; `math_pool` starts and feeds it.

It imports the standard library and math-verify alone. The process that is started loads the algebra once and forks a
child; requests go to the child, a line of JSON each, one at a time. The child's CPU time per request is limited by a
kernel timer whose signal nothing in Python can hold up, its memory by `RLIMIT_AS`; a child that ends is replaced by
another fork within milliseconds.

Request: [expected, given, tolerance]. Answer: one of
  ["equal"], ["different"]
  ["exhausted", stage]   the CPU or memory limit, or a nesting that is too deep, while `stage` was read or compared
  ["unreadable", stage]  no formula
  ["died", stage]        the child ended in another way
where stage is "expected", "given" or "compare".
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
from typing import Any

#: Loads the parser's tables before the first fork, so that every child has them.
WARM_UP = (
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"(x+1)^2", r"x^2+2x+1"),
    (r"[1,2)\cup(3,\infty)", r"x \ge 3"),
    (r"\{1,2,\pi\}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"(1, -2)", r"2\sin(x)+\log_2 8 - |x| + e^{i\pi}"),
    (r"x+y=3", r"y = 3 - x"),
)
#: Digits to which two irrational constants are compared.
DIGITS = 50
WALL_LIMIT_IN_CPU_LIMITS = 8
RECYCLE_AFTER = 2_000


class Child:
    """A forked process that answers until a limit ends it."""

    def __init__(self, cpu_s: float, memory_bytes: int) -> None:
        self.cpu_s, self.answered, self.over = cpu_s, 0, False
        ask_out, ask_in = os.pipe()
        answer_out, answer_in = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ask_in)
            os.close(answer_out)
            _become_child(ask_out, answer_in, cpu_s, memory_bytes)
        os.close(ask_out)
        os.close(answer_in)
        self.ask_in, self.answer_out = ask_in, answer_out

    def ask(self, line: bytes) -> list[Any]:
        """The answer; "died" or "exhausted" where there is none, and then this child is over."""
        self.answered += 1
        try:
            os.write(self.ask_in, line)
        except BrokenPipeError:
            return self._ended(b"")
        heard = b""
        while not heard.endswith(b"\n"):
            ready, _, _ = select.select([self.answer_out], [], [], self.cpu_s * WALL_LIMIT_IN_CPU_LIMITS)
            piece = os.read(self.answer_out, 65536) if ready else b""
            if not piece:
                return self._ended(heard)
            heard += piece
        return json.loads(heard[heard.index(b"[") :])

    def _ended(self, heard: bytes) -> list[Any]:
        stage = ("expected", "given", "compare")[min(len(heard), 2)]
        status = self.end()
        out_of_time = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        return ["exhausted" if out_of_time else "died", stage]

    def end(self) -> int:
        """Kill it if it still runs, and reap it; its wait status."""
        self.over = True
        done, status = os.waitpid(self.pid, os.WNOHANG)
        if not done:
            os.kill(self.pid, signal.SIGKILL)
            _, status = os.waitpid(self.pid, 0)
        os.close(self.ask_in)
        os.close(self.answer_out)
        return status


def _become_child(asked: int, answers: int, cpu_s: float, memory_bytes: int) -> None:
    """Answer until the other end closes; never returns."""
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with os.fdopen(asked, "rb") as requests:
            for line in requests:
                signal.setitimer(signal.ITIMER_PROF, cpu_s)
                answer = json.dumps(_answer(*json.loads(line), mark=lambda: os.write(answers, b".")))
                signal.setitimer(signal.ITIMER_PROF, 0)
                os.write(answers, answer.encode() + b"\n")
        status = 0
    finally:
        os._exit(status)


def _answer(expected: str, given: str, tolerance: float, mark: Any) -> list[Any]:
    """Decide one request. `mark` tells the stages, for whoever finds this process dead."""
    stage = "expected"
    try:
        wanted = parsed(expected)
        if not wanted:
            return ["unreadable", stage]
        mark()
        stage = "given"
        said = parsed(given)
        if not said:
            return ["unreadable", stage]
        mark()
        stage = "compare"
        return ["equal" if same(wanted, said, tolerance) else "different"]
    except (MemoryError, RecursionError, OverflowError):
        return ["exhausted", stage]
    except Exception:  # the boundary of the algebra: what it cannot read or compare raises many things
        return ["unreadable", stage]


def parsed(formula: str) -> list[Any]:
    """What math-verify reads in one box: the expression and its text."""
    from math_verify import LatexExtractionConfig, parse

    box = LatexExtractionConfig(boxed_match_priority=0)
    return parse("\\boxed{" + formula + "}", extraction_config=[box], parsing_timeout=0, raise_on_error=True)


def same(wanted: list[Any], said: list[Any], tolerance: float) -> bool:
    """math-verify's verdict, but constants are compared exactly: it rounds 1/2^99 and 1/2^98 to the same 0."""
    from math_verify import verify

    first, second = wanted[0], said[0]
    if _is_constant(first) and _is_constant(second):
        return _same_constant(first, second, tolerance)
    return verify(wanted, said, timeout_seconds=None, raise_on_error=True)


def _is_constant(value: Any) -> bool:
    from sympy import Expr

    return isinstance(value, Expr) and not value.free_symbols and value.is_number


def _same_constant(first: Any, second: Any, tolerance: float) -> bool:
    from sympy import Float, N

    if first.is_integer and second.is_integer:
        exact = first.doit(), second.doit()  # each by itself: a question about equal formulas does the same work
        if all(value.is_Integer for value in exact):
            return exact[0] == exact[1]
    a, b = N(first, DIGITS), N(second, DIGITS)
    if a == b:
        return True
    if first.is_infinite or second.is_infinite:
        return False
    scale = max(abs(a), abs(b))
    if scale == 0 or abs(a - b) <= scale * Float(10) ** (10 - DIGITS):
        return True
    rounded = bool(first.atoms(Float) or second.atoms(Float))
    whole = first.is_integer or second.is_integer
    return rounded and not whole and abs(a - b) <= scale * tolerance


def _warm() -> None:
    import logging

    logging.disable(logging.CRITICAL)
    for wanted, said in WARM_UP:
        _answer(wanted, said, 0.0, mark=lambda: None)


def main() -> None:
    """Answer the lines of standard input until it ends. Arguments: CPU seconds a request, bytes of memory."""
    cpu_s, memory_bytes = float(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm()
    child = Child(cpu_s, memory_bytes)
    for line in sys.stdin.buffer:
        answer = child.ask(line)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()
        worn = answer[0] == "exhausted" or child.answered >= RECYCLE_AFTER
        if worn and not child.over:
            child.end()
        if child.over:
            child = Child(cpu_s, memory_bytes)
    child.end()


if __name__ == "__main__":
    main()
