"""A run's folder: `results.jsonl` (a line an episode), `manifest.json`, `summary.json`, `report.html`.

Lines are written as episodes end, so a run that is stopped in any way keeps what it finished; a line that a dying
process left unfinished is dropped when the run goes on. One process writes at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from os.path import samestat
from pathlib import Path
from typing import Any, BinaryIO

from ...servers.types import Json
from ..lines import line_of, numbered
from ..session import WrongRequest

RESULTS, MANIFEST, SUMMARY = "results.jsonl", "manifest.json", "summary.json"
Key = tuple[int, int]


class StorageFull(Exception):
    """A result could not be written; one sentence."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a summary needs of an episode: its line without the messages."""

    row: int
    repeat: int
    name: str = ""
    hash: str = ""
    group: str | None = None
    reward: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    ending: str = "failed"
    cut_by: str = ""
    failure: Mapping[str, Any] | None = None
    turns: int = 0
    calls: int = 0
    tool_errors: int = 0
    calls_as_text: bool = False
    refused: bool = False
    tokens: Mapping[str, int | None] = field(default_factory=dict)
    seconds: float = 0.0
    model_s: float = 0.0

    @property
    def key(self) -> Key:
        return self.row, self.repeat

    @property
    def failed(self) -> bool:
        return self.reward is None

    @classmethod
    def of(cls, line: Mapping[str, Any]) -> Result:
        """Read a line. Raises `ValueError` or `KeyError` for what is none."""
        if type(line.get("row")) is not int or type(line.get("repeat")) is not int:
            raise ValueError("a result has a row and a repeat")
        reward = line["reward"]
        if reward is not None and (type(reward) not in (int, float) or not isfinite(reward)):
            raise ValueError("a reward is a finite number")
        return cls(**{key: value for key, value in line.items() if key in cls.__dataclass_fields__})


def read_results(path: Path) -> dict[Key, Result]:
    """A file's results by row and repeat; of one that stands twice the last. Raises `WrongRequest`."""
    found: dict[Key, Result] = {}
    try:
        for number, line in numbered(path):
            try:
                result = Result.of(dict(line))
            except (LookupError, TypeError, ValueError, OverflowError):
                raise WrongRequest(f"{path}:{number} is no line of an evaluation's results") from None
            found[result.key] = result
    except OSError as error:
        raise WrongRequest(f"{path} cannot be read: {error.strerror or error}") from None
    return found


def lines_of(path: Path) -> Iterator[Json]:
    """The whole lines, messages included."""
    return (line for _, line in numbered(path)) if path.exists() else iter(())


class Folder:
    """Where a run writes. `open` first, `close` last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO | None = None

    @property
    def results(self) -> Path:
        return self.path / RESULTS

    def open(self) -> None:
        """Make the folder, and be its only writer. Raises `WrongRequest`."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._file = self.results.open("ab")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not samestat(os.fstat(self._file.fileno()), self.results.stat()):
                raise BlockingIOError("the file was replaced by who held it")
        except BlockingIOError:
            self.close()
            raise WrongRequest(f"another evaluation writes into {self.path} now; give this one another --out") from None
        except OSError as error:
            raise WrongRequest(f"{self.path} cannot be written: {error.strerror or error}") from None

    def manifest(self) -> Json | None:
        """What began here before. Raises `WrongRequest`."""
        try:
            found = json.loads((self.path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise WrongRequest(f"{self.path / MANIFEST} cannot be read: {error}; give another folder") from None
        if not isinstance(found, dict) or not isinstance(found.get("settings"), dict):
            raise WrongRequest(f"{self.path / MANIFEST} names no settings of a run; give another folder")
        return found

    def keep(self, drop_failed: bool) -> dict[Key, Result]:
        """The results that stand; unfinished lines and, if asked, failed episodes go. Raises `StorageFull`."""
        kept = read_results(self.results)
        if drop_failed:
            kept = {key: result for key, result in kept.items() if not result.failed}
        part = self.results.with_suffix(".part")
        try:
            with part.open("wb") as file:
                written: set[Key] = set()
                for line in lines_of(self.results):
                    key = (line["row"], line["repeat"])
                    if key in kept and key not in written and line["reward"] == kept[key].reward:
                        written.add(key)
                        file.write(line_of(line))
            self._replace(part)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._full(error) from None
        return kept

    def _replace(self, part: Path) -> None:
        """Put a new file in place of the results, and hold that one."""
        fresh = part.open("ab")
        fcntl.flock(fresh, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.replace(part, self.results)
        self.close()
        self._file = fresh

    def add(self, line: Json) -> None:
        """Write an episode. Raises `StorageFull`."""
        assert self._file is not None
        try:
            self._file.write(line_of(line))
            self._file.flush()
        except OSError as error:
            raise self._full(error) from None

    def write(self, name: str, text: str) -> None:
        """Write a file, whole or not at all. Raises `StorageFull`."""
        path = self.path / name
        part = path.with_suffix(".part")
        try:
            part.write_text(text, encoding="utf-8", errors="backslashreplace")
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._full(error) from None

    def write_json(self, name: str, value: Json) -> None:
        self.write(name, json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    def _full(self, error: OSError) -> StorageFull:
        return StorageFull(f"{self.path} cannot be written: {error.strerror or error}")

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:  # what could not be flushed was said when it was written
                return
