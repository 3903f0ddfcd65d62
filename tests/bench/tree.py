"""The memory of a process and all that it started, read from /proc (Linux only) a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

EVERY_S = 0.2
KB_PER_GB = 1e6 / 1.024


class Peak:
    """Highest resident memory seen. Pages that processes share count in each of them, so the sum is no less than true.

    `largest_gb` is the largest process by the kernel's own high-water mark, which no short peak escapes.
    """

    def __init__(self) -> None:
        self.sum_gb = self.largest_gb = 0.0

    async def watch(self, pid: int) -> None:
        """Look again and again until cancelled."""
        while True:
            self.look(pid)
            await asyncio.sleep(EVERY_S)

    def look(self, pid: int) -> None:
        sizes = [size for one in _tree(pid) if (size := _memory(one))]
        self.largest_gb = max([self.largest_gb, *(high for _, high in sizes)])
        self.sum_gb = max(self.sum_gb, self.largest_gb, sum(now for now, _ in sizes))


def _tree(pid: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for child, parent in _parents():
        children.setdefault(parent, []).append(child)
    found = [pid]
    for one in found:
        found += children.get(one, ())
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        yield int(folder.name), int(fields[1])


def _memory(pid: int) -> tuple[float, float] | None:
    """GB resident now, and at most so far; None for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    kb = {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in lines) if key in _FIELDS}
    return (kb["VmRSS"] / KB_PER_GB, kb["VmHWM"] / KB_PER_GB) if len(kb) == 2 else None


_FIELDS = ("VmRSS", "VmHWM")
