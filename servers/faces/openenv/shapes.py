"""The shapes of what OpenEnv's wire answers (0.10.0): observations, verdicts, errors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import orjson

from ...answers import Answer, Code, Refused, policy_error
from ...types import Json, Media, Outcome, Tool, ToolResult
from .reading import WireError


def encode(value: Any) -> bytes:
    """JSON; what UTF-8 or 64 bits cannot hold (echoed names and ids) is escaped or written out."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def observation(data: Json) -> str:
    return encode({"type": "observation", "data": data}).decode()


def error_message(error: WireError) -> str:
    return encode({"type": "error", "data": {"message": error.text, "code": error.code, **error.details}}).decode()


def enveloped(inner: Json, reward: float | None, done: bool, metadata: Json) -> Json:
    return {"observation": inner, "reward": reward, "done": done, "metadata": metadata}


def described(tools: Iterable[Tool]) -> list[Json]:
    """Tools as OpenEnv lists them."""
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools]


ERROR_TYPES = {
    Code.UNKNOWN_TOOL: "tool_not_found",
    Code.INVALID_ARGUMENTS: "invalid_args",
    Code.SESSION_FAILED: "transport_error",
}
METADATA: dict[Code, Json] = {code: {"code": code.value} for code in Code}


def call_message(name: str, answer: Answer, outcome: Outcome | None) -> str:
    """A call's observation as a message; the usual one without building it first."""
    result = answer.result
    if outcome is None and answer.code is Code.OK and not result.is_error and not result.media:
        text = orjson.dumps(result.text).decode()
        return _USUAL % (name, text, text)
    return observation(call_data(name, answer, outcome))


_USUAL = (
    '{"type":"observation","data":{"observation":{"metadata":{"code":"ok"},"tool_name":"%s","result":{"content":'
    '[{"type":"text","text":%s,"annotations":null,"meta":null}],"structured_content":null,"meta":null,"data":%s,'
    '"is_error":false},"error":null},"reward":0.0,"done":false,"metadata":{"code":"ok"}}}'
)


def call_data(name: str, answer: Answer, outcome: Outcome | None) -> Json:
    """A call's observation: reward 0.0 while the episode goes on, the outcome's once it has ended."""
    result = answer.result
    failed = outcome is not None and outcome.masked
    metadata = METADATA[Code.SESSION_FAILED if failed and answer.code is Code.OK else answer.code]
    reward = 0.0
    if outcome is not None:
        metadata, reward = metadata | verdict(outcome), outcome.reward
    error = None
    if result.is_error:
        error = {"error_type": ERROR_TYPES.get(answer.code, "execution_error"), "message": result.plain()}
    inner = {"metadata": metadata, "tool_name": name, "result": _result(result), "error": error}
    return {"observation": inner, "reward": reward, "done": outcome is not None, "metadata": metadata}


def gone_data(name: str, refused: Refused, outcome: Outcome | None) -> Json:
    """A call into an episode that expired under its client. Raises `refused` where no outcome is known, and where a
    repeat is answered."""
    if outcome is None or refused.code is Code.REPEAT:
        raise refused
    return call_data(name, policy_error(refused.code, refused.text), outcome)


def _result(result: ToolResult) -> Json:
    text = result.text
    content: list[Json] = [{"type": "text", "text": text, "annotations": None, "meta": None}]
    if result.media:
        text = result.plain()
        content = [*(content if result.text else []), *map(_media, result.media)]
    return {"content": content, "structured_content": None, "meta": None, "data": text, "is_error": result.is_error}


def _media(item: Media) -> Json:
    rest = {"annotations": None, "meta": None}
    if item.kind == "resource":
        inner = {"uri": item.uri, "mimeType": item.mime_type, "text": item.data}
        return {"type": "resource", "resource": inner, **rest}
    return {"type": item.kind, "data": item.data, "mimeType": item.mime_type, **rest}


def verdict(outcome: Outcome) -> Json:
    """What metadata says of an episode that ended."""
    said: Json = {
        "ending": outcome.ending.value,
        "components": dict(outcome.components),
        "disagreements": list(outcome.disagreements),
    }
    if outcome.masked:
        said |= {"failure_kind": outcome.failure_kind, "failure_reason": outcome.failure_reason}
    return said


def verify_data(outcome: Outcome) -> Json:
    """The answer of the control call verify."""
    said = verdict(outcome)
    metadata = METADATA[Code.MASKED if outcome.masked else Code.OK] | said
    shown = {"reward": outcome.reward, **said}
    result = _result(ToolResult(encode(shown).decode(), is_error=outcome.masked)) | {"data": shown}
    error = None
    if outcome.masked:
        error = {"error_type": "transport_error", "message": f"{outcome.failure_kind}: {outcome.failure_reason}"}
    inner = {"metadata": metadata, "tool_name": "verify", "result": result, "error": error}
    return enveloped(inner, outcome.reward, True, metadata)


def end_turn_data(prompt: str | None) -> Json:
    """The answer of the control call end_turn: the next prompt, or null when there is none."""
    shown = {"prompt": prompt}
    result = _result(ToolResult(encode(shown).decode())) | {"data": shown}
    metadata = METADATA[Code.OK]
    inner = {"metadata": metadata, "tool_name": "end_turn", "result": result, "error": None}
    return enveloped(inner, 0.0, False, metadata)


def capacity(slots: tuple[int, int]) -> Json:
    """Of how many there are, and how many are free."""
    size, free = slots
    return {"active_sessions": size - free, "max_sessions": size}


def capacity_text(refused: Refused, slots: tuple[int, int]) -> str:
    if refused.code is Code.DRAINING:
        return refused.text
    count = capacity(slots)
    return f"Server at capacity: {count['active_sessions']}/{count['max_sessions']} sessions active. {refused.text}"


_CODES = {
    Code.AT_CAPACITY: "CAPACITY_REACHED",
    Code.DRAINING: "CAPACITY_REACHED",
    Code.SESSION_FAILED: "FACTORY_ERROR",
    Code.INVALID_ROW: "VALIDATION_ERROR",
    Code.INVALID_REQUEST: "VALIDATION_ERROR",
    Code.SESSION_LOST: "SESSION_ERROR",
    Code.SESSION_CLOSED: "SESSION_ERROR",
    Code.SESSION_EXPIRED: "SESSION_ERROR",
}


def refused_error(refused: Refused, slots: tuple[int, int], factory: str) -> WireError:
    """A refusal in OpenEnv's words; ours travel in `metadata`."""
    code = _CODES.get(refused.code, "EXECUTION_ERROR")
    details: Json = {"metadata": refused_metadata(refused)}
    text = refused.text
    if code == "CAPACITY_REACHED":
        details |= capacity(slots)
        text = capacity_text(refused, slots)
    elif code == "FACTORY_ERROR":
        details["factory_name"] = factory
    elif code == "VALIDATION_ERROR":
        details["errors"] = [{"type": "value_error", "loc": ["data"], "msg": text, "input": None}]
        text = f"Invalid message: {text}"
    return WireError(code, text, **details)


def refused_metadata(refused: Refused) -> Json:
    said: Json = {"code": refused.code.value}
    if refused.failure is not None:
        said |= {"failure_kind": refused.failure.kind, "failure_reason": refused.failure.reason}
    if refused.retry_after_s is not None:
        said["retry_after_s"] = refused.retry_after_s
    return said
