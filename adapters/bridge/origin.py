"""A server of somebody else as an environment: an episode there for each session here.

What the policy did there is a result here; whatever breaks on the way, or there, fails the session and masks it.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from ...servers.environment import Environment, may_be_called, passed_on
from ...servers.failures import SessionFailure
from ...servers.graders.routing import Plan, Router
from ...servers.types import Message, Outcome, Row, RowError, Tool, ToolResult, Transcript, text_of
from ..connect import Connection, connect
from ..endpoint import EnvironmentInfo
from ..foreign import McpOptions, OpenEnvOptions
from ..resolve import is_url
from ..session import CONTROL_NAMES, Session, SessionFailed, WrongRequest

logger = logging.getLogger("gymwire.bridge")
#: Seconds a seed waits for a place at the origin: below the 45 s that clients of a full server wait here.
PATIENCE_S = 40.0
#: Seconds that this side waits longer than the client of the origin, so that the failure is named there.
MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Origin:
    """A server to bridge. `target` is a URL or, for MCP, a command.

    rows: what is served; a NeMo Gym server's tools are those that its rows name.
    grader: scores episodes here instead of the origin.
    """

    target: str
    wire: str
    env: str | None = None
    token: str | None = None
    mcp: McpOptions = field(default_factory=McpOptions)
    openenv: OpenEnvOptions = field(default_factory=OpenEnvOptions)
    call_timeout_s: float = 60.0
    grader: Router | None = None

    @property
    def name(self) -> str:
        """What the environment is called here, unless it is said."""
        return self.wire.replace("-", "_")

    def connection(self) -> Connection:
        target: str | Sequence[str] = self.target
        if not is_url(self.target):
            if self.wire != "mcp":
                raise WrongRequest(f"{self.target!r} is no URL; write http://HOST:PORT (commands are for --from mcp).")
            target = _command(self.target)
        return connect(
            target,
            wire=self.wire,
            env=self.env,
            token=self.token,
            patience_s=PATIENCE_S,
            call_timeout_s=self.call_timeout_s,
            mcp=self.mcp if self.wire == "mcp" else None,
            openenv=self.openenv if self.wire == "openenv" else None,
        )


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongRequest(f"{text!r} is no command: {error}.") from None
    if not words:
        raise WrongRequest("the command is empty.")
    return words


class Bridged(Environment):
    """Base of what `bridged` makes."""

    origin: ClassVar[Origin]
    #: Names here of the tools there, where theirs may not be used.
    named: ClassVar[Mapping[str, str]] = {}
    connection: ClassVar[Connection]
    _session: Session | None = None
    _plan: Plan | None = None

    @classmethod
    async def setup(cls, **settings: Any) -> None:
        cls.connection = await cls.origin.connection().open()

    @classmethod
    async def teardown(cls) -> None:
        await cls.connection.close()

    async def reset(self, row: Row) -> str | None:
        if self.origin.grader is not None:
            self._plan = self.origin.grader.plan(row)
        given = row if row != Row() else None
        try:
            self._session = await self.connection.session(row=given, seed=self.seed)
        except WrongRequest as error:
            raise RowError(f"the origin refuses it: {error}") from None
        except SessionFailed as failure:
            raise _as_ours(failure) from failure
        return _beyond(self._session.prompt, row.prompt)

    def tools_for(self, row: Row) -> Iterable[Tool]:
        assert self._session is not None
        for tool in self._session.tools:
            name = self.named.get(tool.name, tool.name)
            if name in self.tool_specs:
                yield replace(tool, name=name)
            else:
                logger.warning("%s: the origin's tool %r was not there when the bridge started", self.name, tool.name)

    async def forward(self, name: str, arguments: bytes) -> ToolResult:
        assert self._session is not None
        try:
            return await self._session.call(name, arguments)
        except SessionFailed as failure:
            raise _as_ours(failure) from failure

    async def verify(self, transcript: Transcript) -> Outcome | dict[str, float]:
        assert self._session is not None
        if self._plan is not None:
            scores = self._plan.grade(transcript)
            return scores if isinstance(scores, dict) else await scores
        try:
            return await self._session.verify(transcript.messages, ending=transcript.ending)
        except SessionFailed as failure:
            raise _as_ours(failure) from failure

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class BridgedTurns(Bridged):
    """Of an origin with several prompts an episode."""

    async def end_turn(self) -> str | None:
        assert self._session is not None
        try:
            return await self._session.end_turn()
        except SessionFailed as failure:
            raise _as_ours(failure) from failure


def _as_ours(failure: SessionFailed) -> SessionFailure:
    return SessionFailure(f"at the origin's {failure.stage}: {failure.reason}", failure.kind)


def _beyond(prompt: Sequence[Message], known: Sequence[Message]) -> str | None:
    """What the origin's prompt says beyond the row's own."""
    prompt = list(prompt)
    more = prompt[len(known) :] if prompt[: len(known)] == list(known) else prompt
    texts = [text for text in (text_of(message.get("content")) for message in more) if text]
    return "\n\n".join(texts) or None


async def explored(origin: Origin) -> EnvironmentInfo:
    """What the origin offers. Raises `WrongRequest`, or `SessionFailed` where it breaks.

    An OpenEnv server that lists its tools within an episode only is asked in one, which is closed at once.
    """
    async with origin.connection() as connection:
        info = connection.info
        if origin.wire != "openenv" or info.tools:
            return info
        async with connection.session() as session:
            return replace(info, tools=session.tools)


def bridged(origin: Origin, info: EnvironmentInfo, rows: Iterable[Row] = (), *, name: str = "") -> type[Bridged]:
    """The environment that stands for an origin; the tools that `rows` name are offered beside those of `info`.

    Raises `DefinitionError`.
    """
    listed = {tool.name: tool for row in rows for tool in row.tools or ()} | {tool.name: tool for tool in info.tools}
    tools = {name: tool for name, tool in listed.items() if name not in CONTROL_NAMES}
    if hidden := listed.keys() - tools.keys():
        logger.warning("not offered, for they are control calls of a wire: %s", ", ".join(sorted(hidden)))
    named = _named(tools)
    specs = []
    for tool in tools.values():
        shown = replace(tool, name=named.get(tool.name, tool.name))
        specs.append(passed_on(shown, partial(_forward, tool.name)))
    body: dict[str, Any] = {
        "__doc__": info.description or f"The {origin.wire} server at its origin, bridged.",
        "name": name or origin.name,
        "tools": tuple(specs),
        "origin": origin,
        "named": named,
        "max_turns": info.max_turns,
        "tool_timeout_s": origin.call_timeout_s + MARGIN_S + PATIENCE_S,
        "verify_timeout_s": max(origin.call_timeout_s, info.verify_timeout_s) + MARGIN_S,
    }
    base = BridgedTurns if info.has_end_turn else Bridged
    made: Any = type(base.__name__, (base,), body)
    return made


async def _forward(name: str, environment: Bridged, arguments: bytes) -> ToolResult:
    return await environment.forward(name, arguments)


def _named(tools: Iterable[str]) -> dict[str, str]:
    """Other names for the tools whose own are routes or control calls of the wires, or that models cannot write."""
    taken, named = set(tools), {}
    for name in sorted(taken):
        if may_be_called(name):
            continue
        plain = _plain(name)[:50]
        new = plain if may_be_called(plain) and plain not in taken else f"{plain}_tool"
        while new in taken:
            new += "_"
        named[name] = new
        taken.add(new)
        logger.info("tool %r is offered as %r: its own name is taken on the wires, or no tool may have it", name, new)
    return named


def _plain(text: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_-") or "origin"
    return plain if not plain[0].isdigit() else f"_{plain}"
