"""Files of an export: texts from templates, and the folder written whole, or file by file over an earlier one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

_PLACE = re.compile(r"@@(\w+)@@")


class ExportError(Exception):
    """The folder cannot be written. One clear sentence."""


def filled(template: str, values: Mapping[str, object]) -> str:
    """A template's text with its `@@name@@` places filled. A name without a value is a `KeyError`."""
    text = (files("gymwire.adapters.exports") / "templates" / template).read_text(encoding="utf-8")
    return _PLACE.sub(lambda place: str(values[place[1]]), text)


def write_folder(out: Path, made: Mapping[str, str], *, force: bool) -> None:
    """Write the files, by path inside `out`. A new folder appears whole or not at all; `force` replaces the files of
    these names in one that exists, one after the other, and leaves others alone. Raises `ExportError`."""
    try:
        if out.is_dir():
            if any(out.iterdir()) and not force:
                raise ExportError(f"{out} exists and is not empty; choose another --out, or overwrite with --force")
            _write(out, made)
        elif out.exists() or out.is_symlink():
            raise ExportError(f"{out} is no folder; choose another --out")
        else:
            _write_new(out, made)
    except OSError as error:
        raise ExportError(f"{out} cannot be written: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise ExportError(f"{out} cannot be written: a path or a name in it is no UTF-8") from error


def _write_new(out: Path, made: Mapping[str, str]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        _write(part, made)
        part.replace(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write(folder: Path, made: Mapping[str, str]) -> None:
    for path, text in made.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8", newline="\n")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
