"""Row files of others: from one form to another, held-out rows apart, and split for several servers."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..row_digests import digest, number_of, prompt_digest, row_digest
from ..row_files import Problems, records
from ..row_forms import Form, as_chat, as_gym, given_system, of_columns
from ..row_writers import PARQUET, write_files
from ..types import Json, Row, RowError
from ..wording import counted
from .options import stop

ALL = 1 << 64  # one past the largest of `number_of`


class Target(StrEnum):
    NEMO_GYM = Form.NEMO_GYM.value
    CHAT = Form.CHAT.value
    PARQUET = "parquet"


class By(StrEnum):
    HASH = "hash"
    ROUND_ROBIN = "round-robin"


class SplitBy(StrEnum):
    PROMPT = "prompt"
    ROW = "row"


Source = Annotated[str, typer.Argument(metavar="FILE", help="JSONL, JSON, CSV, parquet, a saved dataset; - for JSONL.")]
Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]


def convert(
    file: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write.")],
    to: Annotated[
        Target, typer.Option(help="The form to write; parquet: chat rows in such a file (extra data).")
    ] = Target.NEMO_GYM,
    prompt_column: Annotated[
        str, typer.Option(metavar="NAME", help="The column that holds the prompt; default: the one that may.")
    ] = "",
    system: Annotated[
        str, typer.Option(metavar="TEXT|@FILE", help="A system message for rows that do not begin with one.")
    ] = "",
    held_out: Annotated[
        float, typer.Option(help="Write this share of the rows to a second file, by their content.", min=0, max=1)
    ] = 0.0,
    split_by: Annotated[
        SplitBy, typer.Option(help="What keeps rows on one side of --held-out: an equal prompt, or being equal.")
    ] = SplitBy.PROMPT,
    force: Force = False,
) -> None:
    """Write rows in another form, with nothing lost; files are written whole or not at all."""
    if (out.suffix == PARQUET) != (to is Target.PARQUET):
        stop(f"{out}: the name of a parquet file ends in {PARQUET}, and --to parquet writes no other")
    targets = [out, _held_out_file(out)] if held_out else [out]
    for target in targets:
        _free(target, force)
    words = _text_of(system)
    share = int(held_out * ALL)

    def rows(problems: Problems) -> Iterator[tuple[int, Json]]:
        for raw in _converted(file, to, prompt_column, words, problems):
            yield int(bool(held_out) and _number(raw, split_by) < share), raw

    _write(targets, rows, f" as {to.value}", sides=bool(held_out))


def shard(
    file: Source,
    shards: Annotated[int, typer.Option(help="How many files.", min=1, max=1000)],
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write to.")],
    by: Annotated[By, typer.Option(help="hash: a row's shard is its own, whatever the order.")] = By.HASH,
    force: Force = False,
) -> None:
    """Split rows for several servers. By hash, equal rows share a shard, and an added row moves no other."""
    targets = [out / f"shard-{number:03}-of-{shards:03}.jsonl" for number in range(shards)]
    for target in targets:
        _free(target, force)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        stop(f"{out} cannot be made a folder: {error.strerror or error}")

    def rows(problems: Problems) -> Iterator[tuple[int, Any]]:
        for number, (_, raw) in enumerate(records(file, problems)):
            yield (number if by is By.ROUND_ROBIN else number_of(digest(raw))) % shards, raw

    _write(targets, rows)


def _held_out_file(out: Path) -> Path:
    """Beside the other: `eval` where that is called `train`, so that `--rows` knows the split by its name."""
    return out.with_name(f"{'eval' if out.stem == 'train' else f'{out.stem}-eval'}{out.suffix}")


def _free(out: Path, force: bool) -> None:
    if str(out) == "-":
        stop("rows are written whole or not at all, and so to a file: give OUT a name")
    if out.exists() and not force:
        stop(f"{out} is there already; --force writes over it")


def _text_of(system: str) -> str:
    """The text, or that of the file behind an @."""
    if not system.startswith("@"):
        return system
    try:
        return Path(system[1:]).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        stop(f"--system {system}: cannot be read: {getattr(error, 'strerror', None) or error}")


def _write(targets: list[Path], rows: Any, form: str = "", sides: bool = False) -> None:
    """Write what `rows` yields; all problems are told at its end, so that nothing takes a file's place."""
    problems = Problems()

    def checked() -> Iterator[tuple[int, Any]]:
        yield from rows(problems)
        problems.raise_any()

    try:
        counts = write_files(targets, _both_sides(checked()) if sides else checked())
    except RowError as error:
        stop(str(error))
    for target, count in zip(targets, counts, strict=True):
        typer.echo(f"{counted(count, 'row')}{form} in {target}", err=True)


def _both_sides(rows: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """The rows; raises `RowError` at their end where all fell to one side."""
    counts = [0, 0]
    for side, raw in rows:
        counts[side] += 1
        yield side, raw
    if not all(counts):
        side = "held out" if counts[1] else "kept"
        raise RowError(
            f"all {sum(counts):,} rows are {side}: they are too few for such a share, or have one prompt "
            f"(--split-by {SplitBy.ROW})"
        )


def _converted(file: str, to: Target, column: str, system: str, problems: Problems) -> Iterator[Json]:
    convert_row = as_gym if to is Target.NEMO_GYM else as_chat
    for place, raw in records(file, problems):
        try:
            read = of_columns(raw, column)
            yield convert_row(given_system(read, system) if system else read)
        except (RowError, RecursionError) as error:
            problems.add(f"{place}: {error}")


def _number(raw: Json, by: SplitBy) -> int:
    """Where a row stands between 0 and 2 to the 64, by what it says and nothing else."""
    gym = as_gym(raw)
    return number_of(row_digest(gym) if by is SplitBy.ROW else prompt_digest(Row.from_json(gym)))
