"""Runs a program against tests in the sandbox. Every test that passed has a record that this process made.

Tests run the longest first, in waves: a few jobs at a time, each with several tests one after another. The first wave
with a failure is the last one, unless every test is wanted. A test without a record has not passed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from math import ceil

from ..sandbox.jobs import Sandbox
from .code_asserts import asserting
from .code_cases import AssertTest, CallTest, Test, Tests
from .code_compare import TOLERANCE
from .code_jobs import TestJob, calling, printing
from .code_talk import JOB_OUTPUT_BYTES, PolicyFault, Settings, Status

#: Jobs of one program at a time.
JOBS = 2
TESTS_A_JOB = 24
Batch = Sequence[tuple[int, Test]]


@dataclass(frozen=True, slots=True)
class Record:
    """What became of one test: its place in the list of those that were chosen."""

    test: int
    status: Status
    detail: str = ""

    @property
    def passed(self) -> bool:
        return self.status is Status.PASSED


@dataclass
class Graded:
    """A program's records. `total` is the number of tests that it had to pass."""

    total: int
    records: list[Record] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return sum(record.passed for record in self.records)

    @property
    def solved(self) -> bool:
        return self.passed == self.total > 0

    @property
    def first_failure(self) -> Record | None:
        return next((record for record in self.records if not record.passed), None)


@dataclass
class _Clock:
    """The running time that a program has left for all its tests."""

    left_s: float


@dataclass(frozen=True)
class Grading:
    """One program against its tests. `run` raises `SandboxUnavailable`, and nothing else that is not a bug."""

    sandbox: Sandbox
    tests: Tests
    settings: Settings = field(default_factory=Settings)
    tolerance: float = TOLERANCE
    every_test: bool = False

    async def run(self, program: str) -> Graded:
        """The records of the tests that ran; the first failing wave is the last unless `every_test`."""
        chosen = list(enumerate(self.tests.tests))
        graded, clock = Graded(len(chosen)), _Clock(self.settings.total_s)
        for wave in waves(chosen, JOB_OUTPUT_BYTES // self.settings.output_bytes):
            graded.records += await self._wave(program, wave, clock)
            if not self.every_test and graded.first_failure:
                break
        graded.records.sort(key=lambda record: record.test)
        return graded

    async def _wave(self, program: str, wave: Sequence[Batch], clock: _Clock) -> list[Record]:
        tasks = [asyncio.ensure_future(self._batch(program, batch, clock)) for batch in wave]
        try:
            return [record for records in await asyncio.gather(*tasks) for record in records]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _batch(self, program: str, batch: Batch, clock: _Clock) -> list[Record]:
        """A batch's records; with `every_test`, what a spent job left over goes on in a new one."""
        records: list[Record] = []
        while len(records) < len(batch):
            async with self._open(program) as job:
                for number, test in batch[len(records) :]:
                    record, spent = await _one(job, number, test, clock)
                    records.append(record)
                    if not record.passed and not self.every_test:
                        return records
                    if spent:
                        break
        return records

    def _open(self, program: str) -> AbstractAsyncContextManager[TestJob]:
        test = self.tests.tests[0]
        if isinstance(test, AssertTest):
            return asserting(self.sandbox, program, self.tests, self.settings)
        if isinstance(test, CallTest):
            return calling(self.sandbox, program, self.tests.function, self.settings, self.tolerance)
        return printing(self.sandbox, program, self.settings, self.tolerance)


async def _one(job: TestJob, number: int, test: Test, clock: _Clock) -> tuple[Record, bool]:
    """A test's record, and whether its job can take no other."""
    if clock.left_s <= 0:
        return Record(number, Status.TIMEOUT, "the time for all tests was used up before this one"), False
    started = time.monotonic()
    try:
        await job.take(test)
    except PolicyFault as fault:
        return Record(number, fault.status, fault.detail), fault.spent
    finally:
        clock.left_s -= time.monotonic() - started
    return Record(number, Status.PASSED), False


def waves(chosen: Batch, most: int = TESTS_A_JOB) -> list[list[Batch]]:
    """Batches that run at the same time, dealt so that each begins with long tests; at most `most` tests in each."""
    found: list[list[Batch]] = []
    wave_tests = JOBS * max(1, min(most, TESTS_A_JOB))
    for start in range(0, len(chosen), wave_tests):
        tests = chosen[start : start + wave_tests]
        jobs = min(JOBS, ceil(len(tests) / min(most, 4)))
        found.append([tests[at::jobs] for at in range(jobs)])
    return found
