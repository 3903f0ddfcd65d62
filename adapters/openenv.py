"""The OpenEnv wire toward gymwire servers: one socket an episode, tools as `call_tool` steps.

A socket cannot be taken up again, so a lost one fails its session, and calls need no idempotency key. Where a server
shares its sessions with others, its reset answers a handle (which nobody sees but this client): then a lost socket is
made up for by another one that resumes the session, at whatever server, and calls carry keys. Verify is a control call
that no policy can reach. Servers of others: `foreign_openenv`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from ..servers import wirejson
from ..servers.answers import Code
from ..servers.types import Ending, FailureKind, Json, Message, Outcome, Stage, Tool, ToolResult, parameters_of
from .content import read_content
from .endpoint import Endpoint
from .openenv_socket import Dropped, Socket
from .patience import Busy, NotCounted, Undelivered, Unreachable, delivered
from .session import POLICY_CODES, Session, SessionFailed, Task, WrongRequest, failure_of, read_outcome

_STEP = '{"type":"step","data":{"type":"call_tool","tool_name":'
_CONTROL = ',"metadata":{"control":true}}}'
_KEYED = ',"metadata":{"idempotency_key":"%s"}}}'
_KEYED_CONTROL = ',"metadata":{"idempotency_key":"%s","control":true}}}'


class OpenEnvSession(Session):
    """An episode over an OpenEnv socket, which carries one step at a time: calls made at once go one after another."""

    wire = "openenv"
    carries_several = False

    def __init__(
        self, endpoint: Endpoint, socket: Socket, prompt: Sequence[Message], tools: Sequence[Tool], handle: str = ""
    ) -> None:
        super().__init__(prompt=prompt, tools=tools, max_turns=endpoint.max_turns, limit=endpoint.limit)
        self._at, self._socket, self._handle = endpoint, socket, handle
        self._heads = {name: f'{_STEP}{orjson.dumps(name).decode()},"arguments":' for name in self._names}

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        message = f"{self._heads[name]}{arguments.decode()}{_KEYED % key if self._handle else '}}'}"
        data = read_observation(await self._exchange(message, self._at.call_timeout_s, Stage.CALL), Stage.CALL)
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
        data = await self._control("end_turn", {}, self._at.call_timeout_s, Stage.END_TURN, self._next_key())
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

    async def _control(self, name: str, arguments: Json, timeout_s: float, stage: Stage, key: str = "") -> Json:
        text = wirejson.dumps(arguments).decode()
        message = f'{_STEP}"{name}","arguments":{text}{_KEYED_CONTROL % key if key and self._handle else _CONTROL}'
        data = read_observation(await self._exchange(message, timeout_s, stage), stage)
        if "failure_kind" in _metadata(data):
            raise _failure(data, stage)
        return data

    async def _exchange(self, message: str, timeout_s: float, stage: Stage) -> Json:
        """Ask; where the session can be resumed, again and over another socket, as long as patience lasts."""
        if not self._handle:
            return await self._ask_once(message, timeout_s, stage)

        async def ask() -> Json:
            if self._socket.lost:
                await self._resume(stage)
            return await _asked(self._socket, message, timeout_s, stage)

        return await delivered(ask, stage, repeatable=True, patience_s=self._at.pool.patience_s)

    async def _ask_once(self, message: str, timeout_s: float, stage: Stage) -> Json:
        try:
            return await self._socket.ask(message, timeout_s, stage)
        except Dropped as dropped:
            if not self._at.pool.patience_s:
                raise
            reason = f"{dropped.reason}: sessions of this environment end with their server or their socket"
            raise SessionFailed(FailureKind.SESSION_LOST, reason, stage) from None

    async def _resume(self, stage: Stage) -> None:
        """Go on over another socket. Raises `Undelivered` where that may yet come about, else `SessionFailed`."""
        await self._socket.close()
        try:
            socket = await Socket.connect(self._at.pool, self._at.url / "ws", stage)
        except Busy as busy:
            raise Unreachable(str(busy), FailureKind.PROVIDER_UNAVAILABLE) from None
        try:
            message = orjson.dumps({"type": "resume", "data": {"session": self._handle}}).decode()
            read_observation(await _asked(socket, message, self._at.call_timeout_s, stage), stage)
        except BaseException:
            await socket.close()
            raise
        self._socket = socket

    async def _close(self) -> None:
        await self._socket.close()


async def _asked(socket: Socket, message: str, timeout_s: float, stage: Stage) -> Json:
    """Ask what cannot act twice. Raises `Undelivered` where it is to be asked again, else `SessionFailed`."""
    try:
        answer = await socket.ask(message, timeout_s, stage)
    except Dropped as dropped:
        raise Undelivered(dropped.reason) from None
    if answer.get("type") == "error" and (answer["data"].get("metadata") or {}).get("code") == Code.REPEAT:
        raise NotCounted(str(answer["data"].get("message")))
    return answer


async def seed_openenv(endpoint: Endpoint, task: Task) -> OpenEnvSession:
    """Begin an episode. Raises `Busy`, `WrongRequest` or `SessionFailed`."""
    asked: Json = {"split": task.split, "index": task.index, "seed": task.seed, "episode_id": task.session_id}
    if task.row is not None:
        asked["row"] = task.row.to_json()
    patience_s = endpoint.pool.patience_s
    if patience_s:  # a name of this reset: where it is repeated, it begins nothing new
        asked["resume"] = f"{task.session_id}:{secrets.token_hex(8)}"
    wanted = {key: value for key, value in asked.items() if value is not None}
    message = wirejson.dumps({"type": "reset", "data": wanted}).decode()

    async def begin() -> OpenEnvSession:
        return await _begin(endpoint, message)

    return await delivered(begin, Stage.SEED, repeatable=bool(patience_s), patience_s=patience_s)


async def _begin(endpoint: Endpoint, message: str) -> OpenEnvSession:
    """Reset over a socket of its own. Raises `Undelivered` too where it may be repeated."""
    socket = await Socket.open(endpoint.pool, endpoint.url / "ws")
    ask = _asked if endpoint.pool.patience_s else Socket.ask
    try:
        answer = await ask(socket, message, endpoint.seed_timeout_s, Stage.SEED)
        if answer.get("type") == "error":
            raise _seed_refused(answer["data"])
        data = read_observation(answer, Stage.SEED)
        observation = data.get("observation") or {}
        tools = endpoint.marked(tool_of(item) for item in observation.get("tools") or ())
        handle = str(_metadata(data).get("resume") or "")
        return OpenEnvSession(endpoint, socket, observation.get("prompt") or (), tools, handle)
    except BaseException:
        await socket.close()
        raise


def tool_of(spec: Mapping[str, Any]) -> Tool:
    """A tool as OpenEnv lists it (`input_schema`)."""
    schema = spec.get("input_schema") or spec.get("inputSchema") or {"type": "object", "properties": {}}
    return Tool(str(spec.get("name")), str(spec.get("description") or ""), parameters_of(schema))


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
