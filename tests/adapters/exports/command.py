"""`gymwire export` as its tests call it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from threading import Lock
from typing import Any

import yaml
from gymwire.servers.cli import build
from gymwire.servers.types import Json
from typer.testing import CliRunner, Result

from tests.test_cli import PLAIN

#: A runner takes the whole process's standard output: one at a time.
_output = Lock()


def gymwire_export(target: str, url: str, out: Path, *options: str) -> Result:
    arguments = ["export", target, url, "--out", str(out), *options]
    with _output:
        return CliRunner(env=PLAIN).invoke(build("export"), arguments, prog_name="gymwire")


def exported(target: str, url: str, out: Path, *options: str) -> Path:
    """The folder that was written."""
    done = gymwire_export(target, url, out, *options)
    assert done.exit_code == 0, done.output
    return out


def refused(target: str, url: str, out: Path, *options: str) -> str:
    """The one sentence that it ends with."""
    done = gymwire_export(target, url, out, *options)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    return done.stderr


def toml(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())


def yaml_of(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def rows_of(file: Path) -> list[Json]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def keys_of(value: Any, at: str = "") -> set[str]:
    """The dotted names of all leaves; of a list's items the names that any of them has."""
    if isinstance(value, dict):
        return {key for name, inner in value.items() for key in keys_of(inner, f"{at}.{name}" if at else name)}
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return {key for item in value for key in keys_of(item, at)}
    return {at}
