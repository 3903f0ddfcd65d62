"""Who counts what the pools of this process do: nobody, until the process's figures take the place.

The sandbox itself needs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: In place of a verdict, for a job whose caller left.
ABANDONED = "abandoned"
#: Why a slot is replaced: it broke, or it has served for long.
LOST, RECYCLED = "lost", "recycled"


class Watcher:
    """Is told what happens; counts nothing."""

    def watch(self, pool: Any) -> None:
        """A `pool.Pool` was made."""

    def waited(self, seconds: float) -> None:
        """A job has got its slot."""

    def ended(self, verdict: str, started: float) -> None:
        """A job has left its slot; `started` is of `time.perf_counter`."""

    def replaced_slot(self, why: str) -> None:
        """A slot makes room for a new one."""

    @contextmanager
    def counting_unavailable(self) -> Iterator[None]:
        """Around what may raise `SandboxUnavailable`."""
        yield


watcher = Watcher()
