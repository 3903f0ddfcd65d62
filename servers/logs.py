"""How a server writes its log: lines of text, or one JSON object a line, with the session that a line is about.

Every logger of the process goes the same way, uvicorn's and other libraries' included. A line names a session by its
id and its episode by the caller's name of it; never by the handle, which would let a reader act as its client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum

import orjson

from .context import CURRENT
from .types import Json

#: Attribute of a record that is about a failure: `(About, Failure)`, given as `extra`.
SUBJECT = "gymwire"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def configure(form: LogFormat, trace_ids: Callable[[], Mapping[str, str]] | None = None) -> None:
    """Send every log to standard error in this form. `trace_ids` names the trace that is running."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json(trace_ids) if form is LogFormat.JSON else _Text())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it tells of every start, twice an environment


def subject_of(record: logging.LogRecord) -> dict[str, str]:
    """What a record is about, by name; empty outside every session. Where it is formatted is where it was made."""
    about, tool = CURRENT.get() or (None, "")
    about, failure = getattr(record, SUBJECT, (about, None))
    if about is None:
        return {}
    named = {
        "session_id": about.session_id,
        "episode_id": about.episode_id,
        "environment": about.environment,
        "wire": about.wire,
        "tool": tool if failure is None else failure.tool,
    }
    if failure is not None:
        named |= {"failure_kind": failure.kind, "failure_stage": failure.stage}
    return {key: value for key, value in named.items() if value}


class _Text(logging.Formatter):
    """A failure's own line says all of it; a line of an environment's code is marked at its end."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        line = super().formatMessage(record)
        if hasattr(record, SUBJECT):
            return line
        named = " ".join(f"{key}={value}" for key, value in subject_of(record).items())
        return f"{line} [{named}]" if named else line


class _Json(logging.Formatter):
    def __init__(self, trace_ids: Callable[[], Mapping[str, str]] | None) -> None:
        super().__init__()
        self._trace_ids = trace_ids

    def format(self, record: logging.LogRecord) -> str:
        line: Json = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **subject_of(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if self._trace_ids is not None:
            line |= self._trace_ids()
        return _dumped(line)


def _dumped(line: Json) -> str:
    try:
        return orjson.dumps(line).decode()
    except TypeError:  # a lone surrogate, which is no UTF-8
        return orjson.dumps({key: str(value).encode(errors="replace").decode() for key, value in line.items()}).decode()
