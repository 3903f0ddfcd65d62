"""How a line of a rows file becomes a row: NeMo Gym's form, unless an environment reads others as well."""

from __future__ import annotations

from typing import Any

from .types import Row


class RowReader:
    """Reads one file, line by line; an environment's own is a subclass (`Environment.row_reader`)."""

    #: Whether a row that was read, or the settings, need a sandbox that the environment can do without otherwise.
    needs_sandbox = False

    def read(self, raw: Any) -> Row:
        """A row from a line's JSON value. Raises `RowError`; the place is added to what it says."""
        return Row.from_json(raw)

    def summary(self) -> str:
        """What was taken from the file, in one line for the server's log; empty where nothing is to be said."""
        return ""
