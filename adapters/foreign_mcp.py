"""MCP servers that are not ours, as sessions: one server or several, over HTTP or started as commands.

Sessions share one connection where the server names its state by a handle (`state_arg`); else each session has a
connection of its own, since a server may keep state with it. What the policy may call is what `allowed_tools`
lets through; the state tool and the reward tool are never among it. Calls of one session go one after another,
except those of tools that the server itself calls read-only (`readOnlyHint`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Self

from ..servers.types import (
    CallRecord,
    Ending,
    FailureKind,
    Json,
    Message,
    Outcome,
    Row,
    Stage,
    Tool,
    ToolResult,
    Transcript,
)
from .backend import Backend
from .content import read_content
from .endpoint import STRANGERS_CALL_S, EnvironmentInfo
from .foreign import McpOptions, McpServer, fields_of, grade
from .sdk_client import SdkClient
from .session import ResultLimit, Session, SessionFailed, Task, WrongRequest

SEPARATOR = "__"
_REWARD_KEYS = ("reward", "score", "result")


class ForeignMcp(Backend):
    """Seeds sessions on other people's MCP servers."""

    wire = "mcp"

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        options: McpOptions,
        token: str | None,
        limit: ResultLimit | None,
        call_timeout_s: float,
    ) -> None:
        self.servers, self.options, self.token, self.limit = servers, options, token, limit
        self.call_timeout_s = call_timeout_s
        self.all_tools: dict[str, Tool] = {}
        self.offered: list[Tool] = []
        self._shared: dict[str, SdkClient] = {}
        self._spare: dict[str, SdkClient] = {}  # what the tools were read over; the first session takes it
        self._mending = asyncio.Lock()
        self.info = EnvironmentInfo(name="+".join(filter(None, servers)) or "mcp")

    @classmethod
    async def open(
        cls,
        target: McpServer | Mapping[str, McpServer],
        options: McpOptions,
        token: str | None,
        limit: ResultLimit | None,
        call_timeout_s: float | None,
    ) -> Self:
        """Reach the servers and read their tools. Raises `WrongRequest`."""
        servers = target if isinstance(target, Mapping) else {"": target}
        made = cls(servers, options, token, limit, call_timeout_s or STRANGERS_CALL_S)
        made._shared = await made._connect()
        try:
            for prefix, client in made._shared.items():
                made.all_tools |= {tool.name: tool for tool in map(_prefixed(prefix), await client.tools())}
            made.offered = offered_tools(made.all_tools, options)
        except BaseException:
            await made.close()
            raise
        made.info = EnvironmentInfo(name=made.info.name, tools=tuple(made.offered))
        if not options.state_arg:
            made._shared, made._spare = {}, made._shared
        return made

    async def seed(self, task: Task) -> Session:
        if task.row is None and (task.split is not None or task.index is not None):
            raise WrongRequest("an MCP server of others has no rows to choose from; give it one with row= (--rows).")
        row = task.row or Row()
        try:
            return await self._begin(row)
        except SessionFailed:
            if not self._is_broken():
                raise
            return await self._begin(row)  # the origin went between two episodes: over a new connection

    async def _begin(self, row: Row) -> Session:
        own: dict[str, SdkClient] = {}
        if self.options.state_arg:
            await self._mend()
        else:
            spare, self._spare = self._spare, {}
            own = spare or await self._reconnected()
        session = ForeignMcpSession(self, own or self._shared, own, row)
        try:
            await session.begin()
        except BaseException:
            await session.close()
            raise
        return session

    def _is_broken(self) -> bool:
        return any(client.broken for client in self._shared.values())

    async def _mend(self) -> None:
        """A new shared connection for the sessions to come, where the old one broke; its own sessions fail."""
        async with self._mending:
            if self._is_broken():
                old, self._shared = self._shared, await self._reconnected()
                await close_all(old)

    async def _reconnected(self) -> dict[str, SdkClient]:
        """Raises `SessionFailed`: that the server was there before makes its absence an outage."""
        try:
            return await self._connect()
        except WrongRequest as error:
            raise SessionFailed(FailureKind.TRANSPORT_UNREACHABLE, str(error), Stage.SEED) from None

    async def _connect(self) -> dict[str, SdkClient]:
        clients: dict[str, SdkClient] = {}
        try:
            for prefix, server in self.servers.items():
                clients[prefix] = await SdkClient.open(server, self.token, self.call_timeout_s)
        except BaseException:
            await close_all(clients)
            raise
        return clients

    async def close(self) -> None:
        shared, self._shared = self._shared, {}
        spare, self._spare = self._spare, {}
        await close_all(shared)
        await close_all(spare)


class ForeignMcpSession(Session):
    """An episode on other people's MCP servers."""

    wire = "mcp"

    def __init__(
        self, backend: ForeignMcp, clients: Mapping[str, SdkClient], own: Mapping[str, SdkClient], row: Row
    ) -> None:
        super().__init__(prompt=row.prompt, tools=backend.offered, limit=backend.limit)
        self._backend, self._clients, self._own, self._row = backend, clients, own, row
        self._options = backend.options
        self._handle: Any = None
        self._log: list[CallRecord] = []

    async def begin(self) -> None:
        """Call the state tool, and keep the handle that it answers."""
        options = self._options
        if not options.state_tool:
            return
        answer = await self._exchange(options.state_tool, fields_of(self._row.data, options.reset_fields), Stage.SEED)
        if answer.get("isError"):
            reason = f"{options.state_tool}: {read_content(answer['content'])[0]}"
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, Stage.SEED)
        self._handle = read_handle(answer, options.state_arg)

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        place = len(self._log)
        self._log.append(CallRecord(name, arguments, ToolResult("")))  # the order is that of the calls, not the answers
        answer = await self._exchange(name, json.loads(arguments), Stage.CALL)
        text, media = read_content(answer.get("content") or ())
        if not answer.get("content") and (structured := answer.get("structuredContent")) is not None:
            text = json.dumps(structured, ensure_ascii=False)
        result = ToolResult(text, answer.get("isError") is True, media=media)
        self._log[place] = CallRecord(name, arguments, result)
        return result if self._options.media == "pass" else ToolResult(result.plain(), result.is_error)

    async def _exchange(self, name: str, arguments: Mapping[str, Any], stage: Stage) -> Json:
        """A call of an exposed name, with the handle filled in wherever the tool takes one."""
        prefix, _, bare = name.partition(SEPARATOR) if "" not in self._clients else ("", "", name)
        taken = self._backend.all_tools[name].parameters.get("properties") or {}
        arguments = dict(arguments)
        if self._options.state_arg in taken and self._handle is not None:
            arguments[self._options.state_arg] = self._handle
        return await self._clients[prefix].call(bare, arguments, stage)

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        transcript = Transcript(messages, self._log, ending)
        if self._options.reward_tool:
            return await self._ask_reward(transcript)
        if self._options.grader is not None:
            return await grade(self._options.grader, transcript)
        reason = "the server has no grader: name its reward_tool, or give a grader"
        raise SessionFailed(FailureKind.VERIFIER_ERROR, reason, Stage.VERIFY)

    async def _ask_reward(self, transcript: Transcript) -> Outcome:
        name = self._options.reward_tool
        taken = self._backend.all_tools[name].parameters.get("properties") or {}
        known = {"answer": transcript.answer, "messages": list(transcript.messages)}
        answer = await self._exchange(name, {key: known[key] for key in known if key in taken}, Stage.VERIFY)
        text = read_content(answer.get("content") or ())[0]
        if answer.get("isError"):
            raise SessionFailed(FailureKind.VERIFIER_ERROR, f"{name}: {text}", Stage.VERIFY)
        return await grade(lambda _: read_reward(answer), transcript)

    async def _close(self) -> None:
        await close_all(self._own)


async def close_all(clients: Mapping[str, SdkClient]) -> None:
    await asyncio.gather(*(client.close() for client in clients.values()))


def _prefixed(prefix: str) -> Any:
    def rename(tool: Tool) -> Tool:
        return replace(tool, name=f"{prefix}{SEPARATOR}{tool.name}") if prefix else tool

    return rename


def offered_tools(tools: Mapping[str, Tool], options: McpOptions) -> list[Tool]:
    """What the policy gets. Raises `WrongRequest` for options that name what is not there."""
    for what, name in (("state_tool", options.state_tool), ("reward_tool", options.reward_tool)):
        if name and name not in tools:
            raise WrongRequest(f"{what} {name!r} is no tool of the server; it has: {', '.join(tools) or 'none'}.")
    if options.reset_fields and not options.state_tool:
        raise WrongRequest("reset_fields are arguments of the state_tool; name that, too.")
    open_to_policy = [name for name in tools if name not in (options.state_tool, options.reward_tool)]
    for pattern in options.allowed_tools:
        if not any(fnmatchcase(name, pattern) for name in open_to_policy):
            listed = ", ".join(open_to_policy) or "none"
            raise WrongRequest(f"allowed_tools: {pattern!r} matches no tool; the tools are: {listed}.")
    allowed = [name for name in open_to_policy if any(fnmatchcase(name, p) for p in options.allowed_tools)]
    return [without_argument(tools[name], options.state_arg) for name in allowed]


def without_argument(tool: Tool, argument: str) -> Tool:
    """The tool without an argument: not in its schema, not in what its description says."""
    properties = tool.parameters.get("properties") or {}
    if not argument or argument not in properties:
        return tool
    schema = dict(tool.parameters)
    schema["properties"] = {name: value for name, value in properties.items() if name != argument}
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name != argument]
    return replace(tool, description=without_mentions(tool.description, argument), parameters=schema)


def without_mentions(text: str, word: str) -> str:
    """The text without the sentences that mention a word; a line that loses all of them goes."""
    mention = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")
    if not mention.search(text):
        return text
    lines = []
    for line in text.split("\n"):
        if not mention.search(line):
            lines.append(line)
            continue
        kept = [part for part in re.split(r"(?<=[.!?])\s+", line) if not mention.search(part)]
        if kept:
            lines.append(" ".join(kept))
    return re.sub(r"\n*(Args|Arguments|Parameters):\s*(?=\n\n|\Z)", "", "\n".join(lines)).strip()


def read_handle(answer: Json, argument: str) -> Any:
    """The handle in a state tool's answer: a field of its own name, the only value there is, or the text.

    Raises `SessionFailed` where there is none: a policy could name another session's in its place.
    """
    value = handle = _value_of(answer)
    if isinstance(value, Mapping):
        names = (argument, "result", "id", "handle", "session", "session_id")
        only = next(iter(value.values())) if len(value) == 1 else None
        handle = next((value[key] for key in names if key in value), only)
    if handle is None or handle == "":
        reason = f"the state tool's answer names no handle: {value!r:.200}"
        raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, Stage.SEED)
    return handle


def read_reward(answer: Json) -> Any:
    """The number in a reward tool's answer: itself, or its field reward, score or result."""
    value = _value_of(answer)
    if isinstance(value, Mapping):
        for key in _REWARD_KEYS:
            if key in value:
                return value[key]
        raise ValueError(f"the reward tool's answer has none of {', '.join(_REWARD_KEYS)}: {value!r:.200}")
    return value


def _value_of(answer: Json) -> Any:
    """A result's value: its structured content, its text as JSON, or the text itself."""
    structured = answer.get("structuredContent")
    if structured is not None:
        return structured
    text = read_content(answer.get("content") or ())[0]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    return value if isinstance(value, Mapping | int | float) and not isinstance(value, bool) else text.strip()
