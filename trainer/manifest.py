"""`manifest.json`: what a run was made of, and which rows each of its steps consumed.

It is written when the run begins, with every checkpoint and at the end. What steps did comes from the step log, so
that a resumed run's manifest equals that of one that was never interrupted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import stack
from .config import Config, ConfigError, as_json
from .place import Place
from .rows import RowBook

NAME = "manifest.json"


class Manifest:
    """The run's pins, and its outcome as far as it is known."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.content = path, content

    @classmethod
    def begin(cls, folder: Path, config: Config, place: Place, rows: RowBook, eval_rows: RowBook) -> Manifest:
        """A new run's."""
        content = {
            "state": "running",
            "started": _now(),
            "config": as_json(config),
            "versions": stack.versions(),
            "environment": place.identity.to_json(),
            "rows": rows.names,
            "eval_rows": eval_rows.names,
            "resumed": [],
        }
        return cls(folder / NAME, content)

    @classmethod
    def resume(cls, folder: Path, config: Config, place: Place, rows: RowBook, step: int) -> Manifest:
        """The manifest of a run that goes on. Raises `ConfigError` where it would be another run."""
        path = folder / NAME
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{path} cannot be read: {error}; begin a new run in another log.dir") from None
        before, now = content["environment"], place.identity.to_json()
        if before["name"] != now["name"] or before["tools_hash"] != now["tools_hash"]:
            raise ConfigError(
                f"the run in {folder} learned from {before['name']} with tools {before['tools_hash']}, and this is "
                f"{now['name']} with tools {now['tools_hash']}; begin a new run in another log.dir"
            )
        if content["rows"] != rows.names:
            raise ConfigError(f"the rows of the run in {folder} have changed; begin a new run in another log.dir")
        once = {"step": step, "at": _now(), "config": as_json(config), "versions": stack.versions(), "environment": now}
        content["resumed"].append(once)
        content["state"] = "running"
        return cls(path, content)

    def write(self, steps: Iterable[Mapping[str, Any]] = (), **more: Any) -> None:
        """Bring it up to date, whole or not at all."""
        lines = list(steps)
        self.content |= more
        self.content["consumed"] = {str(line["step"]): line["rows"] for line in lines if line.get("rows")}
        self.content["grad_norms"] = {str(line["step"]): line["grad_norm"] for line in lines if "grad_norm" in line}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.content, indent=1, ensure_ascii=False), encoding="utf-8")
        os.replace(part, self.path)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
