"""Row files of others: from one form to another, and split for several servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import typer

from ..row_files import Problems, records
from ..row_forms import Form, as_chat, as_gym
from ..rows import json_line, write_rows
from ..types import RowError
from .options import stop


class Target(StrEnum):
    NEMO_GYM = Form.NEMO_GYM.value
    CHAT = Form.CHAT.value


class By(StrEnum):
    HASH = "hash"
    ROUND_ROBIN = "round-robin"


Source = Annotated[str, typer.Argument(metavar="FILE", help="JSONL, JSON, CSV, parquet, a saved dataset; - for JSONL.")]
Force = Annotated[bool, typer.Option("--force", help="Write over files that are there.")]


def convert(
    file: Source,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSONL file to write.")],
    to: Annotated[Target, typer.Option(help="The form to write.")] = Target.NEMO_GYM,
    force: Force = False,
) -> None:
    """Write rows in another form, with nothing lost; a file is written whole or not at all."""
    _free(out, force)
    written = _whole(lambda problems: write_rows(out, _converted(file, to, problems)))
    typer.echo(f"{written} rows as {to.value} in {out}", err=True)


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
    counts = _whole(lambda problems: _write_shards(file, targets, by, problems))
    for target, count in zip(targets, counts, strict=True):
        typer.echo(f"{count} rows in {target}", err=True)


def _free(out: Path, force: bool) -> None:
    if out.exists() and not force:
        stop(f"{out} is there already; --force writes over it")


def _whole(write: Any) -> Any:
    try:
        return write(Problems())
    except (RowError, OSError) as error:
        stop(str(error))


def _converted(file: str, to: Target, problems: Problems) -> Iterator[bytes]:
    """The lines; raises all problems at the end, so that nothing takes its place."""
    convert_row = as_gym if to is Target.NEMO_GYM else as_chat
    for place, raw in records(file, problems):
        try:
            yield json_line(convert_row(raw))
        except RowError as error:
            problems.add(f"{place}: {error}")
    problems.raise_any()


def _write_shards(file: str, targets: list[Path], by: By, problems: Problems) -> list[int]:
    targets[0].parent.mkdir(parents=True, exist_ok=True)
    parts = [target.with_name(f".{target.name}.part") for target in targets]
    counts = [0] * len(targets)
    try:
        with ExitStack() as opened:
            files = [opened.enter_context(part.open("wb")) for part in parts]
            for number, (_, raw) in enumerate(records(file, problems)):
                index = (number if by is By.ROUND_ROBIN else content_number(raw)) % len(targets)
                files[index].write(json_line(raw))
                counts[index] += 1
        problems.raise_any()
        for part, target in zip(parts, targets, strict=True):
            part.replace(target)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return counts


def content_number(raw: Any) -> int:
    """A number of 64 bits from what a row says: the same wherever it stands and in whatever order its keys are."""
    return int.from_bytes(sha256(json.dumps(raw, sort_keys=True).encode()).digest()[:8], "big")
