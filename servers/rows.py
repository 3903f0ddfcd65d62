"""Rows: read from a file (`row_files`), drawn by an environment's generator, written back, chosen by index or seed.

Files and generated splits are held in memory whole.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

from .environment import Environment
from .failures import told
from .row_files import Problems, kind_of, records
from .row_reader import RowReader
from .settings import accepted
from .types import PARAMS_KEY, Row, RowError, Tool

MAX_GENERATED_ROWS = 1_000_000
#: The only split of an environment that names none, and of a rows file that is not named after a split.
DEFAULT_SPLIT = "train"
SPLIT_NAMES = frozenset(("train", "eval", "validation", "test"))
#: Of eight tasks drawn, one is an eval task; `draw_rows` decides which by the task's own hash.
EVAL_SHARE = 8
MAX_REDRAWS = 10_000


class RowsBroken(RowError):
    """A split that cannot be had at all: the environment's own fault, and not that of whoever asks for a row."""


# Reading


def read_rows(path: str | os.PathLike[str], reader: RowReader | None = None) -> list[Row]:
    """The rows of a file in any form that `row_files` reads. Raises `RowError` with the file and the line of each
    row that cannot be read, up to a bound."""
    reader, problems, rows = reader or RowReader(), Problems(), []
    for place, raw in records(path, problems):
        try:
            rows.append(reader.read(raw))
        except (ValueError, RecursionError) as error:  # a RowError is a ValueError
            problems.add(f"{place}: {error if isinstance(error, RowError) else f'cannot be read: {error}'}")
        if problems.count >= problems.limit:
            break
    problems.raise_any()
    return rows


# Writing


def row_line(row: Row, tools: Iterable[Tool]) -> bytes:
    """The row as one line of a rows file, with `tools` where the row names none of its own.

    Equal rows give equal bytes: compact, keys in the order prompt, tools, parameters, task data, framework.
    """
    raw = row.to_json()
    if row.tools is None:
        offered = [tool.as_responses() for tool in tools]
        raw[PARAMS_KEY] = {"input": list(row.prompt), "tools": offered, **row.params}
    return json_line(raw)


def json_line(raw: Any) -> bytes:
    """A value as one line of a rows file. Raises `RowError` where JSON cannot say it."""
    return _dump(raw) + b"\n"


def _dump(raw: Any) -> bytes:
    try:
        text = json.dumps(raw, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8, but it has a JSON escape
        return json.dumps(raw, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RowError(f"a row cannot be written as JSON: {error}") from error


def generated_lines(
    environment: type[Environment],
    split: str,
    count: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[bytes]:
    """A split as its environment generates it, in the lines of a rows file."""
    tools = [spec.tool for spec in environment.tool_specs.values()]
    for row in generated_rows(environment, split, count, seed, settings):
        yield row_line(row, tools)


def write_rows(path: str | os.PathLike[str], lines: Iterable[bytes]) -> int:
    """Write a rows file whole or not at all; answers how many rows it has."""
    written = 0
    with written_whole([Path(path)]) as (part,), part.open("wb") as file:
        for line in lines:
            file.write(line)
            written += 1
    return written


@contextmanager
def written_whole(targets: Sequence[Path]) -> Iterator[list[Path]]:
    """Files to write in the targets' places: they become the targets in the end, all of them, or are gone."""
    for target in targets:
        if not target.name:
            raise RowError(f"{str(target)!r} names no file to write")
        if target.exists() and not (target.is_file() or target.is_dir()):
            raise RowError(f"{target} is no regular file, and a device or a pipe cannot be written whole")
    parts = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    try:
        yield parts
        for part, target in zip(parts, targets, strict=True):
            part.replace(target)
    except OSError as error:
        raise RowError(f"{targets[0]}: cannot be written: {error.strerror or error}") from error
    finally:
        for part in parts:
            part.unlink(missing_ok=True)


# Generating


def generated_rows(
    environment: type[Environment],
    split: str,
    count: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Row]:
    """What `rows` yields, at most `count`; raises `RowError` for an unknown split or a standard size without end."""
    _known_split(split, _splits_of(environment))
    if count is not None and count < 0:
        raise RowError(f"a count of rows cannot be negative, got {count}")
    rows = _drawn(environment, split, count, seed, accepted(environment.rows, settings or {}))
    if count is not None:
        yield from islice(rows, count)
        return
    for position, row in enumerate(rows):
        if position == MAX_GENERATED_ROWS:
            raise RowError(
                f"{environment.name}: `rows` yields more than {MAX_GENERATED_ROWS:,} rows for split "
                f"{split!r} when count is None; give the split a standard size"
            )
        yield row


def _drawn(
    environment: type[Environment], split: str, count: int | None, seed: int, settings: Mapping[str, Any]
) -> Iterator[Row]:
    """What the author's `rows` yields; what it raises instead, as a `RowError`."""
    try:
        for row in environment.rows(split, count, seed, **settings):
            if not isinstance(row, Row):
                raise RowError(f"{environment.name}: `rows` yields Row objects, not {type(row).__name__}")
            yield row
    except RowError:
        raise
    except (Exception, SystemExit) as error:  # the boundary of an author's `rows`
        raise RowError(f"{environment.name}: `rows` failed for split {split!r}: {told(error)}") from error


def draw_rows(
    draw: Callable[[Random, int], Row], sizes: Mapping[str, int], split: str, count: int | None, seed: int
) -> Iterator[Row]:
    """Different rows of split train or eval from `draw(rng, index)`, which makes one at random.

    `sizes` are the splits' standard sizes, for count None. The splits share no task, whatever their seeds:
    a task's own hash says where it belongs. Rows of a smaller count are the first rows of a larger one.
    A `draw` that keeps to randrange, randint, random, choice, sample, shuffle and to + - * / gives the same
    rows on every Python and every machine.
    """
    _known_split(split, tuple(sizes))
    rng = Random(f"{split}:{seed}")
    seen: set[bytes] = set()
    for index in range(sizes[split] if count is None else count):
        yield _draw_new(draw, rng, index, split == "eval", seen)


def _draw_new(draw: Callable[[Random, int], Row], rng: Random, index: int, for_eval: bool, seen: set[bytes]) -> Row:
    for _ in range(MAX_REDRAWS):
        row = draw(rng, index)
        digest = sha256(row_line(row, ())).digest()
        if (digest[0] % EVAL_SHARE == 0) == for_eval and digest not in seen:
            seen.add(digest)
            return row
    raise RowError(f"no more than {index} different rows were found; ask for fewer")


# Choosing


class RowSource:
    """The rows that a server offers: its environment's own, or those of a file.

    A file is one split, named after the file where that is a split's name (`eval.jsonl`), else "train".
    """

    def __init__(
        self,
        environment_class: type[Environment],
        rows_file: str | os.PathLike[str] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._environment, self._settings = environment_class, settings or {}
        self._file = None if rows_file is None else Path(rows_file)
        self.summary = ""  # of the file, once it is read
        self._loaded: dict[str, tuple[Row, ...]] = {}
        self._lock = Lock()
        own = _splits_of(environment_class)
        self.splits: tuple[str, ...] = own if self._file is None else (_split_of_file(self._file, own),)

    @cached_property
    def reader(self) -> RowReader:
        """What reads the environment's rows files."""
        make = self._environment.row_reader
        return make(**accepted(make, self._settings))

    @property
    def needs_sandbox(self) -> bool:
        """Whether the file's rows need one, or the settings for whatever rows there are. Raises `RowError`."""
        if self._file is not None:
            self.count(self.splits[0])
        return self.reader.needs_sandbox

    def count(self, split: str) -> int:
        return len(self._rows(split))

    def get(self, split: str, index: int) -> Row:
        """One row; raises `RowError` that names the splits or indices there are."""
        rows = self._rows(split)
        if not 0 <= index < len(rows):
            raise RowError(f"no row {_short(index)} in split {split!r}: it has rows 0 to {len(rows) - 1}")
        return rows[index]

    def choose(self, seed: int | None, split: str | None = None) -> Row:
        """A row by seed, the same one for equal seeds; None draws anew. Default: from the first split."""
        rows = self._rows(self.splits[0] if split is None else split)
        return rows[secrets.randbelow(len(rows)) if seed is None else stable_index(seed, len(rows))]

    def _rows(self, split: str) -> tuple[Row, ...]:
        _known_split(split, self.splits)
        if split not in self._loaded:
            with self._lock:
                if split not in self._loaded:
                    self._loaded[split] = self._load_checked(split)
        return self._loaded[split]

    def _load_checked(self, split: str) -> tuple[Row, ...]:
        try:
            return self._load(split)
        except RowError as error:
            raise RowsBroken(str(error)) from error

    def _load(self, split: str) -> tuple[Row, ...]:
        if self._file is None:
            rows = tuple(generated_rows(self._environment, split, settings=self._settings))
            place = f"{self._environment.name}: split {split!r}"
        else:
            rows, place = tuple(read_rows(self._file, self.reader)), str(self._file)
            self.summary = self.reader.summary()
        if not rows:
            raise RowError(f"{place} has no rows")
        return rows


def stable_index(seed: int, count: int) -> int:
    """An index below `count`, the same on every machine and in every process."""
    return int.from_bytes(sha256(f"{seed:x}".encode()).digest()[:8], "big") % count


def _splits_of(environment: type[Environment]) -> tuple[str, ...]:
    return tuple(environment.splits) or (DEFAULT_SPLIT,)


def _split_of_file(path: Path, own: Sequence[str]) -> str:
    kind, packing = kind_of(path)
    name = path.name.removesuffix(packing).removesuffix(kind)
    return name if name in SPLIT_NAMES or name in own else DEFAULT_SPLIT


def _known_split(split: str, splits: Sequence[str]) -> None:
    if split not in splits:
        raise RowError(f"no split {split!r:.60}; there are: {', '.join(splits)}")


def _short(index: int) -> str:
    return str(index) if abs(index) < 10**12 else "(very large)"
