"""What a seed asks for: the request, the row it means, and whether two of one name ask for the same."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import orjson

from .answers import Code, Refused
from .catalog import Served
from .failures import one_line
from .session import MAX_ID_CHARACTERS
from .store import CallerKey
from .types import Json, Row, RowError


@dataclass(frozen=True, slots=True)
class SeedRequest:
    """What a client asked for: a whole row, or `split` and `index` (default the first row), or a choice by `seed`,
    in the split that is named, else in the first."""

    row: Row | None = None
    split: str | None = None
    index: int | None = None
    seed: int | None = None
    caller_id: str | None = None
    #: What the caller names the episode in its own logs, where that is another name than `caller_id`.
    episode_id: str = ""

    def named(self) -> str:
        """The episode's name in logs and traces, or empty."""
        return one_line(self.episode_id or self.caller_id or "")


def caller_key(served: Served, owner: str, caller_id: str) -> CallerKey:
    """Where a session of the caller's own naming is kept. Raises `Refused` for an endless name."""
    if len(caller_id) > MAX_ID_CHARACTERS:
        raise Refused(Code.INVALID_REQUEST, f"A session id has at most {MAX_ID_CHARACTERS} characters.")
    return served.name, owner, caller_id


def task_of(served: Served, request: SeedRequest) -> tuple[Row, Any]:
    """The row that is asked for, and its checked data. Raises `RowError`.

    The data is the session's own: what its environment writes there must not reach the next session of the row.
    """
    row = choose_row(served, request)
    try:
        row = replace(row, data=copied(dict(row.data)))
    except RecursionError:
        raise RowError("the row's data is nested too deeply") from None
    return row, served.check_data(row)


def choose_row(served: Served, request: SeedRequest) -> Row:
    """The row that a request brings or means. Raises `RowError`."""
    if request.row is not None:
        place = request.row.place()
        return request.row if place is None else served.rows.get(*place)
    if request.index is None and (request.split is None or request.seed is not None):
        return served.rows.choose(request.seed, request.split)
    split = request.split if request.split is not None else next(iter(served.rows.splits), "")
    return served.rows.get(split, request.index or 0)


def copied(value: Any) -> Any:
    """JSON values, copied as deep as they go."""
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied(item) for item in value]
    return value


def fingerprint(request: SeedRequest) -> bytes:
    """Tells two seeds of one caller-chosen id apart."""
    row = None if request.row is None else request.row.to_json()
    asked: list[Json | str | int | None] = [row, request.split, request.index, request.seed]
    try:
        text = orjson.dumps(asked, default=repr, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)
    except TypeError:  # an integer beyond 64 bits, a lone surrogate
        text = json.dumps(asked, default=repr, sort_keys=True).encode()
    return hashlib.blake2b(text, digest_size=16).digest()
