"""`steps.jsonl`: a line for every logged step and every evaluation, in order, whatever trackers are configured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any


class StepLog:
    """Appends lines; `cut_back` forgets what a resumed run will do again."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, line: Mapping[str, Any]) -> None:
        clean = {key: _plain(value) for key, value in line.items()}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(clean, ensure_ascii=False) + "\n")

    def lines(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            with self.path.open(encoding="utf-8") as file:
                yield from (json.loads(line) for line in file if line.strip())

    def cut_back(self, step: int) -> None:
        """Keep the lines up to a step."""
        kept = [line for line in self._readable() if line["step"] <= step]
        self.path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept), encoding="utf-8")

    def _readable(self) -> Iterator[dict[str, Any]]:
        """The lines; one that a dying process left unfinished is no line."""
        for text in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else ():
            try:
                yield json.loads(text)
            except ValueError:
                continue


def _plain(value: Any) -> Any:
    """JSON has no NaN: it becomes null."""
    if isinstance(value, float) and not isfinite(value):
        return None
    return value
