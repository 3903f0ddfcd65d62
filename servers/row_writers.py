"""Row files written whole or not at all, one or several at once: JSONL, and parquet by a name's end.

A parquet file's column is one of its own type where that comes back exactly. Else it is JSON text, and the schema's
metadata names it, so that `row_files` reads the rows as they were: one that lacks the column has an empty cell.
Parquet is held in memory whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Protocol

from .row_files import JSON_COLUMNS, needed
from .rows import json_line, written_whole
from .types import Json, RowError

PARQUET = ".parquet"


class Writer(Protocol):
    """Takes rows, and is closed where all of them were taken."""

    def write(self, raw: Json) -> None: ...

    def close(self) -> None: ...


def write_files(targets: Sequence[Path], rows: Iterable[tuple[int, Json]]) -> list[int]:
    """Write each row to the target whose index stands before it; answers how many each has.

    All files are written or none. Raises `RowError`, and what `rows` raises.
    """
    with written_whole(targets) as parts:
        return _write(targets, parts, rows)


def _write(targets: Sequence[Path], parts: Sequence[Path], rows: Iterable[tuple[int, Json]]) -> list[int]:
    counts = [0] * len(targets)
    with ExitStack() as opened:
        files = [opened.enter_context(part.open("wb")) for part in parts]
        writers = [_writer(target, file) for target, file in zip(targets, files, strict=True)]
        for index, raw in rows:
            writers[index].write(raw)
            counts[index] += 1
        for writer in writers:
            writer.close()
    return counts


def _writer(target: Path, file: IO[bytes]) -> Writer:
    return _Parquet(target, file) if target.suffix == PARQUET else _Lines(file)


class _Lines:
    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, raw: Json) -> None:
        self._file.write(json_line(raw))

    def close(self) -> None:
        """The file is closed by whoever opened it."""


class _Parquet:
    def __init__(self, target: Path, file: IO[bytes]) -> None:
        self._arrow, self._parquet = needed("pyarrow", target), needed("pyarrow.parquet", target)
        self._file, self._rows = file, list[Json]()

    def write(self, raw: Json) -> None:
        json_line(raw)  # raises `RowError` where JSON cannot say it
        for name in raw:
            if any("\ud800" <= char <= "\udfff" for char in name):
                raise RowError(f"a parquet file's column cannot be called {name!r:.60}: it is no UTF-8")
        self._rows.append(raw)

    def close(self) -> None:
        names = list(dict.fromkeys(name for raw in self._rows for name in raw))
        columns, encoded = {}, []
        for name in names:
            columns[name] = self._typed(name)
            if columns[name] is None:
                encoded.append(name)
                columns[name] = self._arrow.array([self._text(raw, name) for raw in self._rows], self._arrow.string())
        table = self._arrow.table(columns).replace_schema_metadata({JSON_COLUMNS: json.dumps(encoded)})
        self._parquet.write_table(table, self._file)

    def _typed(self, name: str) -> Any:
        """The column in Arrow's own type, or None where that would not come back as it is."""
        if not all(name in raw for raw in self._rows):
            return None
        values = [raw[name] for raw in self._rows]
        try:
            column = self._arrow.array(values)
        except (self._arrow.ArrowException, OverflowError, TypeError, ValueError):
            return None
        return column if _same(column.to_pylist(), values) and not _is_odd(column.type) else None

    @staticmethod
    def _text(raw: Json, name: str) -> str | None:
        return json_line(raw[name]).decode().rstrip("\n") if name in raw else None


def _is_odd(kind: Any) -> bool:
    """A type that says nothing but absence or emptiness: parquet has none such, or other readers stumble over it."""
    return "null" in str(kind) or "struct<>" in str(kind)


def _same(first: Any, second: Any) -> bool:
    return json.dumps(first) == json.dumps(second)  # the order of keys is what a schema reads in
