"""The OpenEnv wire toward gymwire servers: one socket an episode, tools as `call_tool` steps.

A socket cannot be taken up again, so a lost one fails its session; nothing reconnects, and calls need no
idempotency key. Verify is a control call that no policy can reach. Servers of others: `foreign_openenv`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ..servers import wirejson
from ..servers.answers import Code
from ..servers.types import Ending, FailureKind, Json, Message, Outcome, Stage, Tool, ToolResult
from .content import read_content
from .endpoint import Endpoint
from .openenv_socket import Socket
from .patience import Busy
from .session import POLICY_CODES, Session, SessionFailed, Task, WrongRequest, failure_of, read_outcome

_STEP = '{"type":"step","data":{"type":"call_tool","tool_name":'
_CONTROL = ',"metadata":{"control":true}}}'


class OpenEnvSession(Session):
    """An episode over an OpenEnv socket, which carries one step at a time: calls made at once go one after another."""

    wire = "openenv"
    carries_several = False

    def __init__(self, endpoint: Endpoint, socket: Socket, prompt: Sequence[Message], tools: Sequence[Tool]) -> None:
        super().__init__(prompt=prompt, tools=tools, max_turns=endpoint.max_turns, limit=endpoint.limit)
        self._at, self._socket = endpoint, socket
        self._heads = {name: f'{_STEP}{orjson.dumps(name).decode()},"arguments":' for name in self._names}

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        message = f"{self._heads[name]}{arguments.decode()}}}}}"
        data = read_observation(await self._socket.ask(message, self._at.call_timeout_s, Stage.CALL), Stage.CALL)
        code = _metadata(data).get("code")
        if code != Code.OK and code not in POLICY_CODES:
            raise _failure(data, Stage.CALL)
        result = (data.get("observation") or {}).get("result") or {}
        done = code == Code.OK and data.get("done") is True
        content = result.get("content") or ()
        is_error = result.get("is_error") is True
        if len(content) == 1 and content[0].get("type") == "text":
            return ToolResult(content[0].get("text") or "", is_error, done)
        text, media = read_content(content)
        return ToolResult(text, is_error, done, media)

    async def _end_turn(self) -> str | None:
        if not self._at.has_end_turn:
            return None
        data = await self._control("end_turn", {}, self._at.call_timeout_s, Stage.END_TURN)
        if data.get("done") is True:
            return None
        prompt = _result_data(data).get("prompt")
        return prompt if isinstance(prompt, str) else None

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        asked = "cut" if ending is Ending.CUT else "finished"
        arguments = {"messages": list(messages), "ending": asked}
        data = await self._control("verify", arguments, self._at.verify_timeout_s, Stage.VERIFY)
        said = _metadata(data)
        return read_outcome(data.get("reward"), said.get("ending"), said.get("components"), said.get("disagreements"))

    async def _control(self, name: str, arguments: Json, timeout_s: float, stage: Stage) -> Json:
        text = wirejson.dumps(arguments).decode()
        message = f'{_STEP}"{name}","arguments":{text}{_CONTROL}'
        data = read_observation(await self._socket.ask(message, timeout_s, stage), stage)
        if "failure_kind" in _metadata(data):
            raise _failure(data, stage)
        return data

    async def _close(self) -> None:
        await self._socket.close()


async def seed_openenv(endpoint: Endpoint, task: Task) -> OpenEnvSession:
    """Begin an episode. Raises `Busy`, `WrongRequest` or `SessionFailed`."""
    asked: Json = {"split": task.split, "index": task.index, "seed": task.seed, "episode_id": task.session_id}
    if task.row is not None:
        asked["row"] = task.row.to_json()
    wanted = {key: value for key, value in asked.items() if value is not None}
    message = wirejson.dumps({"type": "reset", "data": wanted}).decode()
    socket = await Socket.open(endpoint.pool, endpoint.url / "ws")
    try:
        answer = await socket.ask(message, endpoint.seed_timeout_s, Stage.SEED)
        if answer.get("type") == "error":
            raise _seed_refused(answer["data"])
        observation = read_observation(answer, Stage.SEED).get("observation") or {}
        tools = endpoint.marked(tool_of(item) for item in observation.get("tools") or ())
        return OpenEnvSession(endpoint, socket, observation.get("prompt") or (), tools)
    except BaseException:
        await socket.close()
        raise


def tool_of(spec: Mapping[str, Any]) -> Tool:
    """A tool as OpenEnv lists it (`input_schema`)."""
    schema = spec.get("input_schema") or spec.get("inputSchema") or {"type": "object", "properties": {}}
    return Tool(str(spec.get("name")), str(spec.get("description") or ""), dict(schema))


def _seed_refused(error: Json) -> Exception:
    said = error.get("metadata") or {}
    text = str(error.get("message") or "")
    if error.get("code") == "CAPACITY_REACHED":
        return Busy(text, said.get("retry_after_s"))
    if error.get("code") == "VALIDATION_ERROR" or said.get("code") in (Code.SEED_REFUSED, Code.SEED_CONFLICT):
        return WrongRequest(text)
    return error_failure(error, Stage.SEED)


def error_failure(error: Json, stage: Stage) -> SessionFailed:
    """The failure that an error message means."""
    said = error.get("metadata") or {}
    text = f"{error.get('message')} (code: {error.get('code')})"
    kind, reason = said.get("failure_kind") or "", said.get("failure_reason") or ""
    return failure_of(str(said.get("code") or ""), text, stage, kind=kind, reason=reason)


def read_observation(answer: Json, stage: Stage) -> Json:
    """The data of an observation message. Raises `SessionFailed` for an error message."""
    data = answer["data"]
    if answer.get("type") == "observation":
        return data
    if answer.get("type") == "error":
        raise error_failure(data, stage)
    reason = f"an answer of type {answer.get('type')!r:.40} where an observation was due"
    raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)


def _metadata(data: Json) -> Json:
    found = data.get("metadata")
    return found if isinstance(found, dict) else {}


def _result_data(data: Json) -> Json:
    inner = ((data.get("observation") or {}).get("result") or {}).get("data")
    return inner if isinstance(inner, dict) else {}


def _failure(data: Json, stage: Stage) -> SessionFailed:
    said = _metadata(data)
    error = (data.get("observation") or {}).get("error") or {}
    kind, reason = said.get("failure_kind") or "", said.get("failure_reason") or ""
    return failure_of(str(said.get("code") or ""), str(error.get("message") or ""), stage, kind=kind, reason=reason)
