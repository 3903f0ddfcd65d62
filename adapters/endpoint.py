"""One environment on one wire, as a client knows it: where it is, what it offers, how long things may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from yarl import URL

from ..servers.types import Json, Tool
from .pool import Pool
from .session import ResultLimit

#: Seconds a request may take beyond the server's own limit for what it asks.
MARGIN_S = 10.0
STRANGERS_CALL_S, STRANGERS_VERIFY_S, STRANGERS_SEED_S = 300.0, 600.0, 120.0


@dataclass(frozen=True, slots=True)
class EnvironmentInfo:
    """What a gymwire server says about one of its environments (`GET /environments`)."""

    name: str
    description: str = ""
    splits: Mapping[str, int] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    max_turns: int | None = None
    tool_timeout_s: float = 30.0
    verify_timeout_s: float = 50.0
    has_end_turn: bool = False
    replayable: bool = False
    wires: Mapping[str, str] = field(default_factory=dict)
    #: Whether other processes go on with its sessions where the one that has them ends, if it is replayable.
    shared: bool = False

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> EnvironmentInfo:
        known = {key: value for key, value in raw.items() if key in cls.__dataclass_fields__ and value is not None}
        known["tools"] = tuple(Tool.from_any(tool) for tool in raw.get("tools") or ())
        return cls(**known)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where sessions are seeded. `ours` says that a gymwire server answers, with keys, codes and limits."""

    url: URL
    pool: Pool
    ours: bool
    tools: tuple[Tool, ...] = ()
    max_turns: int | None = None
    has_end_turn: bool = False
    limit: ResultLimit | None = None
    seed_timeout_s: float = STRANGERS_SEED_S
    call_timeout_s: float = STRANGERS_CALL_S
    verify_timeout_s: float = STRANGERS_VERIFY_S

    def marked(self, tools: Iterable[Tool]) -> list[Tool]:
        """A session's tools with the environment's marks: where a row or OpenEnv lists them, they carry none."""
        read_only = {tool.name for tool in self.tools if tool.read_only}
        return [replace(tool, read_only=tool.name in read_only) for tool in tools]

    @classmethod
    def of_ours(cls, url: URL, pool: Pool, info: EnvironmentInfo, limits: Json, limit: ResultLimit | None) -> Endpoint:
        """Time limits are the server's own, plus a margin for the way. A call may wait for one that was given up, and
        one that ends the episode for the verdict."""
        return cls(
            url,
            pool,
            True,
            info.tools,
            info.max_turns,
            info.has_end_turn,
            limit,
            seed_timeout_s=float(limits.get("queue_timeout_s", 45.0)) + info.tool_timeout_s + MARGIN_S,
            call_timeout_s=2 * info.tool_timeout_s + info.verify_timeout_s + MARGIN_S,
            verify_timeout_s=info.tool_timeout_s + info.verify_timeout_s + MARGIN_S,
        )
