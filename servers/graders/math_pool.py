"""Processes that compare formulas symbolically (`math_worker`), behind a call that works from any thread or loop.

One thread a process feeds it, so nothing here is bound to an event loop, and no signal is used: the limits are the
kernel's, in the process. A process forked from this one gets a pool of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

#: CPU seconds and memory that one comparison may use.
CPU_LIMIT_S = 2.0
MEMORY_BYTES = 1 << 30
#: Wall seconds after which the whole process counts as hung: the worker's own limit is 8 times the CPU limit.
HUNG_AFTER_S = 12 * CPU_LIMIT_S
STARTED_WITHIN_S = 60.0
PROCESSES = max(1, min(4, os.cpu_count() or 1))
PROGRAM = Path(__file__).with_name("math_worker.py")


class Verdict(StrEnum):
    EQUAL = "equal"
    DIFFERENT = "different"
    EXHAUSTED = "exhausted"  # the given formula took more than its limit
    UNREADABLE = "unreadable"  # the given formula is none


class WorkerDied(Exception):
    """Our side could not decide: the process ended or hung, or the expected formula is beyond it."""


@dataclass(frozen=True, slots=True)
class Question:
    expected: str
    given: str
    tolerance: float

    def line(self) -> bytes:
        return json.dumps([self.expected, self.given, self.tolerance]).encode() + b"\n"

    def control(self) -> Question:
        """The expected formula against itself: where that fails too, the policy's answer is not the cause."""
        return Question(self.expected, self.expected, self.tolerance)


class Process:
    """One `math_worker`. Not for two threads at once."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(PROGRAM), str(CPU_LIMIT_S), str(MEMORY_BYTES)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        self._first = True

    def ask(self, question: Question) -> list[str]:
        """The worker's answer. Raises `WorkerDied`."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(question.line())
            limit_s = HUNG_AFTER_S + (STARTED_WITHIN_S if self._first else 0.0)
            answer = json.loads(self._line(monotonic() + limit_s))
        except (OSError, ValueError) as error:
            raise WorkerDied(f"the math worker is gone ({type(error).__name__})") from error
        self._first = False
        return answer

    def _line(self, deadline: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        heard = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(stdout, selectors.EVENT_READ)
            while not heard.endswith(b"\n"):
                if not waiting.select(deadline - monotonic()):
                    raise OSError("no answer")
                piece = stdout.read(65536)
                if not piece:
                    raise OSError("ended")
                heard += piece
        return heard

    def end(self) -> None:
        """Stop it; its child ends when its pipe does, or at its CPU limit."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


class Pool:
    """`PROCESSES` workers, started when first asked; questions are answered in their order."""

    def __init__(self, size: int = PROCESSES) -> None:
        self._size = size
        self._jobs: SimpleQueue[tuple[Question, Future[Verdict]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._processes: deque[Process] = deque()
        self._threads: list[threading.Thread] = []

    def ask(self, question: Question) -> Future[Verdict]:
        """The verdict, or `WorkerDied`. Cancelling it before its turn takes the question back."""
        future: Future[Verdict] = Future()
        with self._lock:
            if len(self._threads) < self._size:
                thread = threading.Thread(target=self._work, name="gymwire-math", daemon=True)
                self._threads.append(thread)
                thread.start()
        self._jobs.put((question, future))
        return future

    def close(self) -> None:
        """End all processes and threads."""
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        while self._processes:
            self._processes.popleft().end()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            question, future = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(self._decide(question))
            except BaseException as error:
                future.set_exception(error)

    def _decide(self, question: Question) -> Verdict:
        said, stage = self._asked(question)
        if said in (Verdict.EQUAL, Verdict.DIFFERENT):
            return Verdict(said)
        if said == "died":
            raise WorkerDied(f"the math worker died twice while it read the {stage} formula")
        if stage == "expected" or self._control_fails(question):
            raise WorkerDied(f"the expected formula is beyond the grader: {question.expected[:100]}")
        return Verdict(said)

    def _control_fails(self, question: Question) -> bool:
        return question != question.control() and self._asked(question.control())[0] != Verdict.EQUAL

    def _asked(self, question: Question) -> tuple[str, str]:
        """What a worker says, and at which stage; a worker that died is replaced, and asked once more."""
        for attempt in (1, 2):
            process = self._take()
            try:
                said = process.ask(question)
            except WorkerDied:
                process.end()
                if attempt == 2:
                    raise
                continue
            self._processes.append(process)
            if said[0] != "died" or attempt == 2:
                return said[0], said[1] if len(said) > 1 else ""
        raise AssertionError("unreachable")

    def _take(self) -> Process:
        try:
            return self._processes.popleft()
        except IndexError:
            return Process()


_POOLS: dict[int, Pool] = {}  # by process: after a fork there is another one


def shared() -> Pool:
    """The pool of this process."""
    return _POOLS.get(os.getpid()) or _POOLS.setdefault(os.getpid(), Pool())


@atexit.register
def _close_shared() -> None:
    pool = _POOLS.get(os.getpid())
    if pool is not None:
        pool.close()
