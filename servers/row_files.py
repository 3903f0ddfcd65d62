"""Files that rows come in, read one record at a time: JSONL, JSON, CSV (each also .gz or .zst), parquet, and folders
that the Hugging Face library `datasets` saved.

Text is UTF-8. A JSONL file is split at line feeds alone (U+2028 may stand inside a string) and never held whole; nor
is parquet. JSON is. What cannot be kept exactly (NaN, a number that overflows) is refused with the file and the line.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, time
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import IO, Any

from .types import Json, RowError

STDIN = "-"
MAX_PROBLEMS = 20
#: A parquet file's columns that hold JSON text, in its schema's metadata (`row_writers`).
JSON_COLUMNS = b"gymwire.json_columns"
BATCH_ROWS = 256
#: Characters in a CSV file's cell: whole programs stand there. One more than this is a quote that was not closed.
MAX_CELL = 1 << 26
INSTALL = "pip install 'gymwire[data]'"


@dataclass(slots=True)
class Problems:
    """What is wrong with records, each with its place: the first ones, and how many there are."""

    limit: int = MAX_PROBLEMS
    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, said: object) -> None:
        self.count += 1
        if len(self.shown) < self.limit:
            self.shown.append(str(said))

    def text(self) -> str:
        more = self.count - len(self.shown)
        return "\n".join([*self.shown, *([f"and {more:,} more"] if more else [])])

    def raise_any(self) -> None:
        """Raise them as one `RowError`, if there are any."""
        if self.count:
            raise RowError(self.text())


#: Where a record stands (`file:line`, `file:row 3`) and what it says.
Record = tuple[str, Any]


def records(path: str | os.PathLike[str], problems: Problems) -> Iterator[Record]:
    """The records of a file, or of standard input (`-`: JSONL). A record that cannot be read is added to `problems`
    and left out. Raises `RowError` where the file as a whole cannot be read."""
    if str(path) == STDIN:
        yield from _lines(sys.stdin.buffer, "standard input", problems)
        return
    place = Path(path)
    try:
        yield from _of_path(place, problems)
    except (OSError, EOFError, zlib.error) as error:
        raise RowError(f"{place}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _of_path(place: Path, problems: Problems) -> Iterator[Record]:
    if place.is_dir():
        yield from _saved_dataset(place, problems)
        return
    kind, packing = kind_of(place)
    if kind == ".parquet":
        yield from _parquet(place, problems)
        return
    read: Callable[[IO[bytes], str, Problems], Iterator[Record]]
    read = {".json": _json, ".csv": _csv, ".tsv": _csv}.get(kind, _lines)
    with _opened(place, packing) as file:
        yield from read(file, str(place), problems)


def kind_of(place: Path) -> tuple[str, str]:
    """The suffix that tells a file's form, and the one that tells how it is packed, each with its dot or empty."""
    suffixes = [suffix.lower() for suffix in place.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in (".gz", ".zst") else ""
    return (suffixes[-1] if suffixes else ""), packing


@contextmanager
def _opened(place: Path, packing: str) -> Iterator[IO[bytes]]:
    with place.open("rb") as file:
        if packing == ".gz":
            with gzip.open(file) as unpacked:
                yield unpacked  # pyright: ignore[reportReturnType]  # it reads as any binary file does
        elif packing == ".zst":
            zstandard = needed("zstandard", place)
            try:
                yield io.BufferedReader(_Chunks(_frames(file, zstandard)))
            except zstandard.ZstdError as error:
                raise RowError(f"{place}: cannot be read: {error}") from error
        else:
            yield file


def _frames(file: IO[bytes], zstandard: Any) -> Iterator[bytes]:
    """What the frames hold. Raises `EOFError` for one that is not whole: a stream reader takes it for the end."""
    frame = None
    while data := file.read(io.DEFAULT_BUFFER_SIZE):
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(data)
            data, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
    if frame is not None:
        raise EOFError("compressed file ended in the middle of a frame")


class _Chunks(io.RawIOBase):
    """Pieces of a file as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def needed(module: str, place: Path) -> Any:
    """A library of the extra `data`. Raises `RowError` that names the extra."""
    try:
        return __import__(module, fromlist=["_"])
    except ImportError:
        raise RowError(f"{place}: reading or writing it needs {module.partition('.')[0]}: {INSTALL}") from None


# JSONL


def _lines(file: IO[bytes], place: str, problems: Problems) -> Iterator[Record]:
    for number, line in enumerate(file, start=1):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.strip():
            continue
        at = f"{place}:{number}"
        try:
            yield at, parsed(line.rstrip(b"\r\n"))
        except RowError as error:
            problems.add(f"{at}: {error}")


def parsed(text: bytes, hint: str = "; one row a line") -> Any:
    """A JSON value, with nothing lost. Raises `RowError` without a place but for the column."""
    try:
        return json.loads(
            text.decode(),
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            object_pairs_hook=_unique,
        )
    except RowError:
        raise
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise RowError(f"not JSON at {line}column {error.colno}: {error.msg}{hint}") from error
    except (ValueError, RecursionError) as error:
        raise RowError(f"cannot be read: {error}") from error


def _refuse_constant(name: str) -> Any:
    raise RowError(f"{name} is no JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    known = dict(pairs)
    if len(known) == len(pairs):
        return known
    twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    raise RowError(f"an object has the key {twice!r:.60} twice")


def _finite_float(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise RowError(f"the number {text:.40} is too large")
    return value


# JSON, CSV


def _json(file: IO[bytes], place: str, problems: Problems) -> Iterator[Record]:
    """A list of records, or an object: of columns, or of records under the one key that holds a list of them."""
    text = file.read().removeprefix(b"\xef\xbb\xbf")
    try:
        value = parsed(text, "")
    except RowError as error:
        raise RowError(f"{place}: {error}") from error
    for number, record in enumerate(_listed(value, place), start=1):
        yield f"{place}:row {number}", record


def _listed(value: Any, place: str) -> list[Any]:
    if isinstance(value, list):
        return value
    lists = {key: item for key, item in value.items() if isinstance(item, list)} if isinstance(value, dict) else {}
    if len(lists) == 1 and all(isinstance(item, dict) for item in next(iter(lists.values()))):
        return next(iter(lists.values()))
    if lists and len(lists) == len(value):
        sizes = {len(column) for column in lists.values()}
        if len(sizes) == 1:
            return [dict(zip(lists, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]
        said = ", ".join(f"`{key}` has {len(column)}" for key, column in lists.items())
        raise RowError(f"{place}: an object of columns has columns of one length; {said}")
    raise RowError(f"{place}: a .json file is a list of rows, or an object of columns or with one list of rows")


def _csv(file: IO[bytes], place: str, problems: Problems) -> Iterator[Record]:
    """Every cell is text. A line with more or fewer cells than the first is a problem."""
    dialect = "excel-tab" if ".tsv" in Path(place).suffixes else "excel"
    csv.field_size_limit(MAX_CELL)
    with io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text:
        reader = csv.reader(text, dialect, strict=True)
        try:
            yield from _cells(reader, place, problems)
        except csv.Error as error:
            raise RowError(f"{place}:{reader.line_num}: cannot be read: {error}") from error


def _cells(reader: Any, place: str, problems: Problems) -> Iterator[Record]:
    names = [name.strip() for name in next(reader, [])]
    _refuse_twins(names, f"{place}:1")
    if not _is_text(names):
        raise RowError(f"{place}:1: not UTF-8")
    for cells in reader:
        at = f"{place}:{reader.line_num}"
        if not _is_text(cells):
            problems.add(f"{at}: not UTF-8")
        elif len(cells) == len(names):
            yield at, dict(zip(names, cells, strict=True))
        elif cells:
            problems.add(f"{at}: {len(cells)} cells under {len(names)} column names")


def _is_text(cells: Sequence[str]) -> bool:
    """Whether none holds a byte that is no UTF-8, which reading has escaped."""
    return not any("\udc80" <= char <= "\udcff" for cell in cells if not cell.isascii() for char in cell)


def _refuse_twins(names: Sequence[str], place: str) -> None:
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise RowError(f"{place}: two columns are called {twice!r:.60}")


# Parquet, datasets


def _parquet(place: Path, problems: Problems) -> Iterator[Record]:
    parquet, pyarrow = needed("pyarrow.parquet", place), needed("pyarrow", place)
    try:
        with parquet.ParquetFile(place) as file:
            _refuse_twins(file.schema_arrow.names, str(place))
            encoded = _encoded_columns(file.schema_arrow.metadata or {}, place)
            found = chain.from_iterable(map(_of_batch, file.iter_batches(batch_size=BATCH_ROWS)))
            yield from _of_table(found, encoded, str(place), problems)
    except pyarrow.ArrowException as error:
        raise RowError(f"{place}: no parquet file that can be read: {error}") from error


def _encoded_columns(metadata: Mapping[bytes, bytes], place: Path) -> list[str]:
    """The columns that hold JSON text. Raises `RowError` where what should name them does not."""
    try:
        names = parsed(metadata.get(JSON_COLUMNS, b"[]"), "")
    except RowError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RowError(f"{place}: its metadata `{JSON_COLUMNS.decode()}` is no list of columns")
    return names


#: A record, or what asks for it: a cell that Python has no value for is found out there.
Fetch = Callable[[], Json]


def _of_batch(batch: Any) -> Iterable[Fetch]:
    try:
        return [partial(dict, record) for record in batch.to_pylist()]
    except Exception:  # the boundary of pyarrow's conversions: whose fault it is, is asked row by row
        return [partial(_one_row, batch, number) for number in range(batch.num_rows)]


def _one_row(batch: Any, number: int) -> Json:
    return batch.slice(number, 1).to_pylist()[0]


def _of_table(found: Iterable[Fetch], encoded: list[str], place: str, problems: Problems) -> Iterator[Record]:
    for number, fetch in enumerate(found, start=1):
        at = f"{place}:row {number}"
        try:
            yield at, _decoded(_fetched(fetch), encoded)
        except RowError as error:
            problems.add(f"{at}: {error}")


def _fetched(fetch: Fetch) -> Json:
    try:
        return fetch()
    except Exception as error:  # the boundary of a library's conversions: dates without a year, text that is none
        raise RowError(f"a cell cannot be read: {type(error).__name__}: {error}") from error


def _decoded(record: Mapping[str, Any], encoded: list[str]) -> Json:
    """The record with its JSON columns read; an empty cell of those is a column that the row does not have."""
    known: Json = {}
    for name, value in record.items():
        if name not in encoded:
            known[name] = _plain(value, name)
        elif isinstance(value, str):
            known[name] = parsed(value.encode(), "")
        elif value is not None:
            raise RowError(f"column `{name}`: the metadata calls it JSON, and it is {value!r:.40}")
    return known


def _plain(value: Any, name: str) -> Any:
    """A cell as JSON has it. Raises `RowError` where JSON has no such value."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item, name) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, date | time):  # a datetime is a date
        return value.isoformat()
    raise RowError(f"column `{name}`: JSON has no value for {value!r:.40}")


def _saved_dataset(place: Path, problems: Problems) -> Iterator[Record]:
    datasets = needed("datasets", place)
    try:
        found = datasets.load_from_disk(str(place))
    except (FileNotFoundError, ValueError) as error:
        raise RowError(f"{place}: cannot be read as a folder that `save_to_disk` wrote: {error}") from error
    if isinstance(found, Mapping):
        names = ", ".join(str(place / name) for name in found)
        raise RowError(f"{place}: it holds several splits; name one: {names}")
    fetches = (partial(found.__getitem__, number) for number in range(len(found)))
    yield from _of_table(fetches, [], str(place), problems)
