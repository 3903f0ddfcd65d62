"""What an export is made from: a live server's environment and limits, and rows.

Rows of a file are written whole. Rows of a served split hold what the policy sees, and their place (`gymwire_row`) in
place of the task data, which stays on the server: each is seeded once, to learn its prompt and tools, and closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
from yarl import URL

from ...servers.answers import Code
from ...servers.rows import read_rows
from ...servers.types import PARAMS_KEY, PLACE_KEY, Json, RowError, Stage
from ..endpoint import EnvironmentInfo
from ..patience import Busy, delivered, until_admitted
from ..pool import Pool, Reply, retry_after_s
from ..resolve import ASK_TIMEOUT_S, read_url, resolve
from ..session import WrongRequest

SEED_PATIENCE_S = 120.0
MAX_SEEDS_AT_ONCE = 16
CLOSE_TIMEOUT_S = 10.0
#: Seconds for the way to the server and back, beside the server's own limits.
MARGIN_S = 15.0
_JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a command line asks for: those of a file, or of a split (default the first), at most `limit`."""

    file: Path | None = None
    split: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """One served environment as an export needs to know it. Times in seconds."""

    root: URL
    info: EnvironmentInfo
    limits: Mapping[str, Any]
    rows: Sequence[Json]
    rows_from: str  # where they are from, for the README
    has_token: bool  # the server asks for one

    @property
    def name(self) -> str:
        return self.info.name

    def url(self, wire: str) -> str:
        return str(self.root.with_path(self.root.path.rstrip("/") + self.info.wires[wire]))

    @property
    def capacity(self) -> int:
        """Sessions that one client may hold at once."""
        of_token = int(self.limits.get("sessions_per_token") or 0) if self.has_token else 0
        return min(int(self.limits["max_sessions"]), of_token or int(self.limits["max_sessions"]))

    @property
    def request_timeout_s(self) -> int:
        """What a client must grant one request: a seed may wait in the queue, a call for the one before it."""
        seed_s = float(self.limits["queue_timeout_s"]) + self.info.tool_timeout_s
        call_s = 2 * self.info.tool_timeout_s + self.info.verify_timeout_s
        return round(max(seed_s, call_s) + MARGIN_S)

    @property
    def max_turns(self) -> int:
        return self.info.max_turns or DEFAULT_MAX_TURNS


#: Turns of an episode whose environment names no limit.
DEFAULT_MAX_TURNS = 16


async def facts_of(target: str, env: str | None, token: str | None, wanted: Wanted | None) -> Facts:
    """Look at a server, and read the rows, if any are wanted. Raises `WrongRequest`, `RowError` and `SessionFailed`."""
    url = read_url(target)
    found = await resolve(url, wire="nemo-gym" if url.name not in ("openenv", "mcp") else None, env=env, token=token)
    if found is None:
        raise WrongRequest(f"{url} is no gymwire server; `gymwire bridge {url} --from ...` makes one of it.")
    root = found.url.with_user(None).with_path(found.url.path.removesuffix(found.info.wires[found.wire]) or "/")
    has_token = token is not None and await _asks_for_token(root)
    made = Facts(root, found.info, found.limits, (), "", has_token)
    if wanted is None:
        return made
    if wanted.file is not None:
        rows, source = _of_file(wanted.file, wanted.limit, found.info), str(wanted.file.name)
    else:
        split = _split(wanted.split, found.info)
        rows, source = await _of_split(made, split, wanted.limit, token), f"split {split} of the server"
    return replace(made, rows=rows, rows_from=source)


async def _asks_for_token(root: URL) -> bool:
    """One that is given may be none that is asked for: GYMWIRE_TOKEN is meant for any server."""
    async with Pool(ours=True) as pool:
        reply = await delivered(
            lambda: pool.get(root / "environments", timeout_s=ASK_TIMEOUT_S), Stage.SEED, repeatable=True
        )
        return reply.headers.get("X-Gymwire-Code") == Code.UNAUTHORIZED


def _of_file(file: Path, limit: int | None, info: EnvironmentInfo) -> list[Json]:
    rows = read_rows(file)[:limit]
    if not rows:
        raise RowError(f"{file}: has no rows")
    made = []
    for row in rows:
        raw = row.to_json()
        if row.tools is None:
            raw[PARAMS_KEY] = raw[PARAMS_KEY] | {"tools": [tool.as_responses() for tool in info.tools]}
        made.append(raw)
    return made


def _split(split: str | None, info: EnvironmentInfo) -> str:
    chosen = split or next(iter(info.splits), "")
    if chosen not in info.splits:
        names = ", ".join(info.splits) or "none"
        raise WrongRequest(f"{info.name} has no split {chosen!r} (it has: {names}); name another, or give --rows FILE.")
    return chosen


async def _of_split(facts: Facts, split: str, limit: int | None, token: str | None) -> list[Json]:
    count = facts.info.splits[split] if limit is None else min(limit, facts.info.splits[split])
    at_once = max(1, min(MAX_SEEDS_AT_ONCE, facts.capacity // 4))
    gym = URL(facts.url("nemo-gym"))
    left, seen = (index for index in range(count)), dict[int, Json]()

    async def look(pool: Pool) -> None:
        try:
            for index in left:
                place = {"split": split, "index": index}
                seen[index] = {PARAMS_KEY: await _params(pool, gym, place, facts.request_timeout_s), PLACE_KEY: place}
        finally:
            left.close()  # one that fails is enough; the others end with the row they are at, and leave no session

    async with Pool(ours=True, token=token) as pool:
        ended = await asyncio.gather(*(look(pool) for _ in range(at_once)), return_exceptions=True)
    for failure in filter(None, ended):
        raise failure
    return [seen[index] for index in range(count)]


async def _params(pool: Pool, gym: URL, place: Json, timeout_s: float) -> Json:
    """What the policy sees of the row at a place, tools and prompt: as a seed answers it."""
    key = f"export-{secrets.token_hex(8)}"

    async def asked(route: str, body: bytes, headers: Mapping[str, str], limit_s: float) -> Reply:
        """What is repeated acts once: a seed by its key, a close by what it closes."""
        return await delivered(
            lambda: pool.post(gym / route, body, headers, limit_s, Stage.SEED), Stage.SEED, repeatable=True
        )

    async def seeded() -> Reply:
        headers = _JSON | {"Idempotency-Key": key}
        reply = await asked("seed_session", orjson.dumps(place), headers, timeout_s)
        if reply.headers.get("X-Gymwire-Code") == Code.AT_CAPACITY:
            raise Busy(reply.text, retry_after_s(reply))
        return reply

    reply = await until_admitted(seeded, SEED_PATIENCE_S)
    if reply.status != 200:
        raise WrongRequest(f"row {place['index']} of split {place['split']} cannot be seeded: {reply.text:.200}")
    body = orjson.dumps({"resources_session_id": key})
    await asked("close_session", body, _JSON, CLOSE_TIMEOUT_S)
    return orjson.loads(reply.body)[PARAMS_KEY]
