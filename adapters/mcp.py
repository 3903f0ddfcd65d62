"""The MCP wire toward gymwire servers: JSON-RPC of the stateless revision 2026-07-28 over the shared pool.

The session header carries the handle for the policy's tools; seed, verify, end_turn and close go without it, in
the plain mode that a policy never gets to see. Servers of others: `foreign_mcp`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import orjson

from ..servers import wirejson
from ..servers.answers import Code
from ..servers.types import Ending, FailureKind, Json, Message, Outcome, Stage, Tool, ToolResult
from .content import read_content
from .endpoint import Endpoint
from .patience import Busy, NotCounted, delivered
from .pool import Reply
from .session import POLICY_CODES, Session, SessionFailed, Task, WrongRequest, failure_of, read_outcome

REVISION = "2026-07-28"
CODE, KIND, REASON = "gymwire/code", "gymwire/failure_kind", "gymwire/failure_reason"
RETRY_AFTER, DONE, KEY = "gymwire/retry_after_s", "gymwire/done", "gymwire/idempotency-key"
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": REVISION,
}


def _version() -> str:
    try:
        return version("gymwire")
    except PackageNotFoundError:
        return "unknown"


_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "gymwire", "version": _version()},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_META = orjson.dumps(_ENVELOPE)
_CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":'
_KEYED = b',"_meta":' + _META[:-1] + b',"' + KEY.encode() + b'":"'
_LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":' + _META + b"}}"


class Answer(NamedTuple):
    """A `tools/call` result, with the codes of our servers read out of it."""

    text: str
    is_error: bool
    code: str
    meta: Mapping[str, Any]
    content: Sequence[Mapping[str, Any]]

    def failure(self, stage: Stage) -> SessionFailed:
        meta = self.meta
        return failure_of(self.code, self.text, stage, kind=meta.get(KIND) or "", reason=meta.get(REASON) or "")


class McpSession(Session):
    """An episode over MCP."""

    wire = "mcp"

    def __init__(self, endpoint: Endpoint, handle: str, prompt: Sequence[Message], tools: Sequence[Tool]) -> None:
        super().__init__(prompt=prompt, tools=tools, max_turns=endpoint.max_turns, limit=endpoint.limit)
        self._at, self._handle = endpoint, handle
        common = _HEADERS | {"X-Gymwire-Session": handle, "Mcp-Method": "tools/call"}
        self._headers = {name: common | {"Mcp-Name": name} for name in self._names}
        self._heads = {name: b"".join((_CALL, orjson.dumps(name), b',"arguments":')) for name in self._names}

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        body = b"".join((self._heads[name], arguments, _KEYED, key.encode(), b'"}}}'))
        headers = self._headers[name]
        answer = read_answer(await _exchange(self._at, body, headers, Stage.CALL, self._at.call_timeout_s), Stage.CALL)
        if answer.code != Code.OK and answer.code not in POLICY_CODES:
            raise answer.failure(Stage.CALL)
        done = answer.meta.get(DONE) is True
        if len(answer.content) == 1 and answer.content[0].get("type") == "text":
            return ToolResult(answer.text, answer.is_error, done)
        text, media = read_content(answer.content)
        return ToolResult(text, answer.is_error, done, media)

    async def _end_turn(self) -> str | None:
        if not self._at.has_end_turn:
            return None
        arguments, limit_s = {"session": self._handle}, self._at.call_timeout_s
        answer = await control(self._at, "end_turn", arguments, Stage.END_TURN, limit_s, self._next_key())
        prompt = _value(answer, Stage.END_TURN).get("prompt")
        return prompt if isinstance(prompt, str) else None

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        arguments = {"session": self._handle, "messages": list(messages), "ending": _asked(ending)}
        answer = await control(self._at, "verify", arguments, Stage.VERIFY, self._at.verify_timeout_s)
        said = _value(answer, Stage.VERIFY)
        return read_outcome(said.get("reward"), said.get("ending"), said.get("components"), said.get("disagreements"))

    async def _close(self) -> None:
        if self.failure is None or not self.failure.kind.startswith(("transport_", "session_")):
            await control(self._at, "close_session", {"session": self._handle}, Stage.TRANSPORT, 5.0)


async def seed_mcp(endpoint: Endpoint, task: Task) -> McpSession:
    """Begin an episode. Raises `Busy`, `WrongRequest` or `SessionFailed`."""
    asked: Json = {"split": task.split, "index": task.index, "seed": task.seed, "session_id": task.session_id}
    if task.row is not None:
        asked["row"] = task.row.to_json()
    arguments = {key: value for key, value in asked.items() if value is not None}
    answer = await _call_control(endpoint, "seed_session", arguments, Stage.SEED, endpoint.seed_timeout_s)
    if answer.is_error:
        raise _seed_refused(answer)
    seeded = _value(answer, Stage.SEED)
    handle = str(seeded["session"])
    return McpSession(endpoint, handle, seeded["prompt"], await _tools(endpoint, handle))


async def _tools(endpoint: Endpoint, handle: str) -> list[Tool]:
    """The session's own tools: a row may offer fewer, or describe them anew."""
    headers = _HEADERS | {"Mcp-Method": "tools/list", "X-Gymwire-Session": handle}
    result = await _exchange(endpoint, _LIST, headers, Stage.SEED, endpoint.call_timeout_s)
    return [Tool.from_any(tool) for tool in result.get("tools") or ()]


def _seed_refused(answer: Answer) -> Exception:
    if answer.code in (Code.AT_CAPACITY, Code.DRAINING):
        return Busy(answer.text, answer.meta.get(RETRY_AFTER))
    if KIND in answer.meta or answer.code in (Code.SESSION_FAILED, Code.INTERNAL):
        return answer.failure(Stage.SEED)
    return WrongRequest(answer.text)


async def control(
    endpoint: Endpoint, name: str, arguments: Json, stage: Stage, timeout_s: float, key: str = ""
) -> Answer:
    """A call in plain mode, with a key unless it is repeatable by itself. Raises `SessionFailed` when it answers an
    error."""
    answer = await _call_control(endpoint, name, arguments, stage, timeout_s, key)
    if answer.is_error:
        raise answer.failure(stage)
    return answer


async def _call_control(
    endpoint: Endpoint, name: str, arguments: Json, stage: Stage, timeout_s: float, key: str = ""
) -> Answer:
    params = {"name": name, "arguments": arguments, "_meta": _ENVELOPE | {KEY: key} if key else _ENVELOPE}
    body = wirejson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = _HEADERS | {"Mcp-Method": "tools/call", "Mcp-Name": name}
    return read_answer(await _exchange(endpoint, body, headers, stage, timeout_s), stage)


async def _exchange(
    endpoint: Endpoint, body: bytes, headers: Mapping[str, str], stage: Stage, timeout_s: float
) -> Json:
    """One JSON-RPC request, which cannot act twice; answers its result."""
    pool, url = endpoint.pool, endpoint.url

    async def ask() -> Json:
        reply = await pool.post(url, body, headers, timeout_s, stage)
        message = _message(reply)
        result = message.get("result")
        if not isinstance(result, dict):
            raise _no_result(reply, message, stage)
        meta = result.get("_meta")
        if isinstance(meta, dict) and meta.get(CODE) == Code.REPEAT:
            raise NotCounted(str(result.get("content"))[:500])
        return result

    return await delivered(ask, stage, repeatable=True, patience_s=pool.patience_s)


def _message(reply: Reply) -> Json:
    body = reply.body
    if reply.headers.get("Content-Type", "").startswith("text/event-stream"):
        lines = [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
        body = lines[-1] if lines else b""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _no_result(reply: Reply, message: Json, stage: Stage) -> Exception:
    """The failure that an answer without a result means; `NotCounted` or `Busy` where it may come yet."""
    error = message.get("error")
    said, data = (error.get("message"), error.get("data")) if isinstance(error, Mapping) else (error, None)
    reason = f"HTTP {reply.status}: {said or reply.text[:200]}"
    code = data.get("code") if isinstance(data, Mapping) else message.get("code")
    if code == Code.REPEAT:
        return NotCounted(reason)
    if isinstance(code, str):
        return failure_of(code, reason, stage, kind=message.get("failure_kind") or "")
    if stage is Stage.SEED and reply.status == 503 and "X-Gymwire-Code" not in reply.headers:
        return Busy(reason)  # a gateway without a server
    return SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)


def read_answer(result: Json, stage: Stage) -> Answer:
    content, meta = result.get("content"), result.get("_meta")
    if not isinstance(content, list):
        raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, "a tool result without content", stage)
    codes: Mapping[str, Any] = meta if isinstance(meta, Mapping) else {}
    text = content[0].get("text") or "" if content else ""
    return Answer(text, bool(result.get("isError")), codes.get(CODE) or "", codes, content)


def _value(answer: Answer, stage: Stage) -> Json:
    try:
        value = wirejson.loads(answer.text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, f"no JSON object: {answer.text[:80]!r}", stage)
    return value


def _asked(ending: Ending) -> str:
    return "cut" if ending is Ending.CUT else "finished"
