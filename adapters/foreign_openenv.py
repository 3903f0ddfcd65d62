"""OpenEnv servers that are not ours, as sessions. Nothing reconnects: a lost socket fails its session.

A step environment is one tool that takes its Action (the schema is the server's); the policy reads observations as
JSON, and the steps' rewards become one. An environment whose actions are tool calls shows its tools instead. An
episode without a step scores 0; one whose steps never brought a reward has none, and is masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Self

import orjson

from ..servers.answers import ENDED
from ..servers.schema import strip_titles
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
from .endpoint import Endpoint, EnvironmentInfo
from .foreign import COMBINED, OpenEnvOptions, fields_of, grade, step_reward
from .openenv import error_failure, read_observation, tool_of
from .openenv_socket import Socket
from .patience import Busy, Undelivered
from .session import Session, SessionFailed, Task, WrongRequest

#: Errors of a tool observation that are the server's; every other is the policy's to read.
_BROKEN_TOOL = frozenset(("transport_error", "timeout"))


class ForeignOpenEnv(Backend):
    """Seeds sessions on somebody else's OpenEnv server."""

    wire = "openenv"

    def __init__(self, endpoint: Endpoint, info: EnvironmentInfo, options: OpenEnvOptions, action: Json) -> None:
        self.endpoint, self.options = endpoint, options
        self.has_tools = "tool_name" in (action.get("properties") or {})
        self.step_tool = Tool(options.tool, _about(action), action_parameters(action))
        tools = () if self.has_tools else (self.step_tool,)
        self.info = EnvironmentInfo(name=info.name, tools=tools)

    @classmethod
    async def open(cls, endpoint: Endpoint, info: EnvironmentInfo, options: OpenEnvOptions) -> Self:
        """Read what an action is. Raises `WrongRequest`."""
        if options.reward not in COMBINED:
            raise WrongRequest(f"rewards are combined as last, sum or max, not {options.reward!r}.")
        try:
            return cls(endpoint, info, options, await _action_schema(endpoint))
        except WrongRequest:
            await endpoint.pool.close()
            raise

    async def seed(self, task: Task) -> Session:
        if task.row is None and (task.split is not None or task.index is not None):
            raise WrongRequest(
                "the rows of an OpenEnv server of others are not read here; use row= (--rows) or seed= (--seed)."
            )
        socket = await Socket.open(self.endpoint.pool, self.endpoint.url / "ws")
        try:
            return await self._begin(socket, task)
        except BaseException:
            await socket.close()
            raise

    async def _begin(self, socket: Socket, task: Task) -> Session:
        row = task.row or Row()
        wanted: Json = {"episode_id": task.session_id} | fields_of(row.data, self.options.reset_fields)
        if task.seed is not None:
            wanted["seed"] = task.seed
        message = orjson.dumps({"type": "reset", "data": wanted}).decode()
        answer = await socket.ask(message, self.endpoint.seed_timeout_s, Stage.SEED)
        if answer.get("type") == "error" and answer["data"].get("code") == "CAPACITY_REACHED":
            raise Busy(str(answer["data"].get("message")))
        first = read_observation(answer, Stage.SEED)
        if is_over(first, Stage.SEED):
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, "what reset began is over already", Stage.SEED)
        tools = await self._tools(socket) if self.has_tools else [self.step_tool]
        return ForeignOpenEnvSession(self, socket, row, first, tools)

    async def _tools(self, socket: Socket) -> list[Tool]:
        message = '{"type":"step","data":{"type":"list_tools"}}'
        data = read_observation(await socket.ask(message, self.endpoint.call_timeout_s, Stage.SEED), Stage.SEED)
        return [tool_of(item) for item in (data.get("observation") or {}).get("tools") or ()]

    async def close(self) -> None:
        await self.endpoint.pool.close()


async def _action_schema(endpoint: Endpoint) -> Json:
    url = endpoint.url / "schema"
    try:
        reply = await endpoint.pool.get(url, timeout_s=30.0)
    except (Undelivered, SessionFailed) as error:
        raise WrongRequest(f"nothing answers at {url}: {error}") from None
    try:
        action = orjson.loads(reply.body)["action"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        action = None
    if reply.status != 200 or not isinstance(action, dict):
        raise WrongRequest(f"{url} answers HTTP {reply.status} and no action schema: is this an OpenEnv server?")
    return action


class ForeignOpenEnvSession(Session):
    """An episode on somebody else's OpenEnv server."""

    wire = "openenv"

    def __init__(self, backend: ForeignOpenEnv, socket: Socket, row: Row, first: Json, tools: Sequence[Tool]) -> None:
        seen = "" if backend.has_tools else shown_observation(first)
        prompt = [*row.prompt, *([{"role": "user", "content": seen}] if seen else [])]
        super().__init__(prompt=prompt, tools=tools, limit=backend.endpoint.limit)
        self._backend, self._socket, self._options = backend, socket, backend.options
        self._rewards: list[float] = []
        self._log: list[CallRecord] = []
        self._steps = 0

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        if self.done:
            return ENDED.result
        data = arguments.decode()
        if self._backend.has_tools:
            data = f'{{"type":"call_tool","tool_name":{json.dumps(name)},"arguments":{data}}}'
        endpoint = self._backend.endpoint
        answer = await self._socket.ask(f'{{"type":"step","data":{data}}}', endpoint.call_timeout_s, Stage.CALL)
        result = self._read(answer)
        self._log.append(CallRecord(name, arguments, result))
        return result

    def _read(self, answer: Json) -> ToolResult:
        data = answer["data"]
        if answer.get("type") == "error":
            return self._refused(data)
        data = read_observation(answer, Stage.CALL)
        self._steps += 1
        if (reward := data.get("reward")) is not None:
            self._rewards.append(step_reward(reward))
        done = is_over(data, Stage.CALL)
        if not self._backend.has_tools:
            return ToolResult(shown_observation(data), done=done)
        return _tool_result(data.get("observation") or {}, done)

    def _refused(self, error: Json) -> ToolResult:
        """An action that does not fit the schema is the policy's mistake; an exception inside is as options say."""
        code = error.get("code")
        if code == "VALIDATION_ERROR":
            return ToolResult(validation_text(error), is_error=True)
        if code == "EXECUTION_ERROR" and self._options.on_execution_error == "tell":
            self._steps += 1
            return ToolResult(validation_text(error), is_error=True)
        if code == "EXECUTION_ERROR":
            kind = f"{_kind_name(self._backend.info.name)}:exception"
            raise SessionFailed(kind, str(error.get("message")), Stage.CALL)
        raise error_failure(error, Stage.CALL)

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        self._socket.check(Stage.VERIFY)
        grader = self._options.grader or self._combined
        return await grade(grader, Transcript(messages, self._log, ending))

    def _combined(self, _: Transcript) -> float:
        """The server's own rewards as one. An episode in which the policy never acted is its own affair."""
        if self._rewards:
            return float(COMBINED[self._options.reward](self._rewards))
        if not self._steps:
            return 0.0
        raise SessionFailed(FailureKind.VERIFIER_ERROR, "no step of the episode brought a reward", Stage.VERIFY)

    async def _close(self) -> None:
        await self._socket.close()


def is_over(data: Json, stage: Stage) -> bool:
    """Raises `SessionFailed`: "true" or 1, taken for no, would let an episode go on that is over."""
    done = data.get("done")
    if done is None or isinstance(done, bool):
        return done is True
    reason = f"it answered done {done!r:.80}, which is neither true nor false"
    raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)


def _tool_result(observation: Json, done: bool) -> ToolResult:
    error = observation.get("error")
    if isinstance(error, Mapping):
        text = str(error.get("message") or error.get("error_type"))
        if error.get("error_type") in _BROKEN_TOOL:
            raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, text, Stage.CALL)
        return ToolResult(text, is_error=True, done=done)
    result = observation.get("result")
    if not isinstance(result, Mapping):
        return ToolResult("" if result is None else json.dumps(result, ensure_ascii=False), done=done)
    text, media = read_content(result.get("content") or ())
    return ToolResult(text, result.get("is_error") is True, done, media)


def action_parameters(action: Json) -> Json:
    """An action's schema as a tool's: without the wire's own `metadata`, and without titles."""
    schema = strip_titles(action)
    properties = {name: value for name, value in (schema.get("properties") or {}).items() if name != "metadata"}
    return {key: value for key, value in schema.items() if key != "description"} | {"properties": properties}


def _about(action: Json) -> str:
    return str(action.get("description") or "Take one step in the environment.")


def shown_observation(data: Json) -> str:
    """What the policy reads of an observation: JSON, without the wire's own metadata; empty where nothing is left."""
    inner = data.get("observation")
    if not isinstance(inner, Mapping):
        return "" if inner is None else json.dumps(inner, ensure_ascii=False)
    shown = {key: value for key, value in inner.items() if key not in ("metadata", "reward", "done")}
    return json.dumps(shown, ensure_ascii=False) if shown else ""


def validation_text(error: Json) -> str:
    """What does not fit, a place at a time; never more than a few."""
    parts = []
    for item in (error.get("errors") or ())[:5]:
        if isinstance(item, Mapping):
            where = ".".join(str(step) for step in item.get("loc") or () if step != "data")
            parts.append(f"{where}: {item.get('msg')}" if where else str(item.get("msg")))
    return f"{error.get('message') or 'Invalid action'}{': ' if parts else ''}{'; '.join(parts)}"


def _kind_name(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_0123456789") or "openenv"
