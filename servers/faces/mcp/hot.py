"""The short way for plain requests of revision 2026-07-28: `tools/call` and `tools/list`, one POST, one JSON answer.

A request is plain when every part of it is known to mean nothing special: known headers, a body of known length,
the usual envelope. Whatever else there is (progress tokens, sessions, other methods and revisions, odd Accept,
repeated or encoded headers, malformed bodies) goes to the SDK's own app untouched, which also words every refusal.
A plain answer is byte for byte what the SDK would have sent.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson
from mcp_types import methods
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from ...answers import Code, Refused
from ...types import Json
from ..asgi import JSON_TYPE, ClientLeft, Handler, Receive, Scope, Send, owner_of, respond, unless_client_leaves
from .tools import CODE_KEY, IDEMPOTENCY_KEY, Call, McpTools, Said

VERSION = "2026-07-28"
SESSION_HEADER = b"x-gymwire-session"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

#: Headers that neither the SDK's app nor this one reads. Any that is missing here makes a request unusual.
IGNORED_HEADERS = frozenset(
    b"accept-encoding accept-language authorization cache-control connection cookie forwarded host keep-alive pragma "
    b"priority traceparent tracestate user-agent via x-forwarded-for x-forwarded-host x-forwarded-port "
    b"x-forwarded-proto x-real-ip x-request-id".split()
)
#: Headers with a meaning; each may come once.
READ_HEADERS = frozenset(
    (b"accept", b"content-type", b"content-length", b"mcp-protocol-version", b"mcp-method", b"mcp-name", SESSION_HEADER)
)
PLAIN_ACCEPTS = frozenset(
    (
        b"*/*",
        b"application/json, text/event-stream",
        b"application/json,text/event-stream",
        b"text/event-stream, application/json",
    )
)
PLAIN_TYPES = frozenset((b"application/json", b"application/json; charset=utf-8", b"application/json;charset=utf-8"))
ENVELOPE = {"jsonrpc", "id", "method", "params"}
REQUIRED_META = {VERSION_KEY, CAPABILITIES_KEY}
KNOWN_META = REQUIRED_META | {CLIENT_KEY, IDEMPOTENCY_KEY}
MAX_KNOWN_CLIENTS = 256


class Plain(NamedTuple):
    """A request that needs nothing of the SDK. `name` is None for `tools/list`."""

    id: int | str
    name: str | None
    arguments: Json
    key: str | None


class HotPath:
    """Answers plain requests; hands every other to `otherwise`."""

    def __init__(self, tools: McpTools, server_info: Json, otherwise: Handler, max_body_bytes: int) -> None:
        self.tools, self.otherwise, self.max_body_bytes = tools, otherwise, max_body_bytes
        self.server_info = server_info
        #: Their `Mcp-Param-*` headers must be compared with their arguments: the SDK does that.
        self.annotated = frozenset(t.name for t in tools.served.tools if "x-mcp-header" in json.dumps(t.parameters))
        self._clients: set[bytes] = set()
        self._tails = {
            (code.value, is_error): self._tail({CODE_KEY: code.value}, is_error)
            for code in Code
            for is_error in (False, True)
        }
        self._plain_list = self._list_result(tools.plain_list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self._plain_headers(scope)
        if headers is None:
            await self.otherwise(scope, receive, send)
            return
        body = await _whole(receive)
        if body is None:
            return
        request = self._read(body, headers)
        if request is None:
            await self.otherwise(scope, _again(body, receive), send)
            return
        handle = headers.get(SESSION_HEADER)
        try:
            answer, begun = await self._answer(
                request, None if handle is None else handle.decode("latin-1"), scope, receive
            )
        except Refused:
            await self.otherwise(scope, _again(body, receive), send)
        except ClientLeft:
            return
        else:
            await respond(send, 200, answer, (JSON_TYPE, (SESSION_HEADER, begun.encode())) if begun else (JSON_TYPE,))

    # ---- reading

    def _plain_headers(self, scope: Scope) -> dict[bytes, bytes] | None:
        """The headers that matter, or None where one of them asks for something unusual."""
        found: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in READ_HEADERS:
                if name in found:
                    return None
                found[name] = value
            elif name not in IGNORED_HEADERS:
                return None
        if (
            found.get(b"mcp-protocol-version") != b"2026-07-28"
            or found.get(b"accept") not in PLAIN_ACCEPTS
            or found.get(b"content-type") not in PLAIN_TYPES
        ):
            return None
        length = found.get(b"content-length", b"")
        return found if length.isdigit() and int(length) <= self.max_body_bytes else None

    def _read(self, body: bytes, headers: dict[bytes, bytes]) -> Plain | None:
        transcript = headers.get(b"mcp-name") == b"verify"  # may be long, and its numbers may be rounded
        try:
            message = orjson.loads(body) if transcript else from_json(body)
        except ValueError:
            return None
        if type(message) is not dict or message.keys() != ENVELOPE or message["jsonrpc"] != "2.0":
            return None
        request_id, method, params = message["id"], message["method"], message["params"]
        if type(request_id) not in (int, str) or type(method) is not str or type(params) is not dict:
            return None
        meta = params.pop("_meta", None)
        if method.encode() != headers.get(b"mcp-method") or not self._usual(meta):
            return None
        key = meta.get(IDEMPOTENCY_KEY)
        if method == "tools/call":
            return self._read_call(request_id, params, key, headers.get(b"mcp-name"))
        if method == "tools/list" and not params and b"mcp-name" not in headers:
            return Plain(request_id, None, {}, None)
        return None

    def _read_call(self, request_id: int | str, params: Json, key: str | None, header: bytes | None) -> Plain | None:
        name, arguments = params.pop("name", None), params.pop("arguments", {})
        if params or type(name) is not str or type(arguments) is not dict or name in self.annotated:
            return None
        if header is None or header.startswith(b"=?") or header != name.encode():
            return None
        return Plain(request_id, name, arguments, key) if name.isascii() else None

    def _usual(self, meta: Any) -> bool:
        """An envelope with the required keys and no others but ours, from a client whose description is valid."""
        if type(meta) is not dict or not REQUIRED_META <= meta.keys() <= KNOWN_META or meta[VERSION_KEY] != VERSION:
            return False
        if IDEMPOTENCY_KEY in meta and type(meta[IDEMPOTENCY_KEY]) is not str:
            return False
        client = to_json((meta.get(CLIENT_KEY, False), meta[CAPABILITIES_KEY]))
        if client in self._clients:
            return True
        try:
            methods.validate_client_request("tools/list", VERSION, {"_meta": meta})
        except ValidationError:
            return False
        if len(self._clients) < MAX_KNOWN_CLIENTS:
            self._clients.add(client)
        return True

    # ---- answering

    async def _answer(self, request: Plain, handle: str | None, scope: Scope, receive: Receive) -> tuple[bytes, str]:
        """The answer's body, and the session that has begun with it.

        Raises `Refused` where only the SDK words the answer, `ClientLeft` for a left queue.
        """
        owner = owner_of(scope)
        if request.name is None:
            return _framed(request.id, await self._listed(handle, owner)), ""
        call = Call(request.name, request.arguments, handle, owner, request.key)
        work = self.tools.call(call)
        said = await (unless_client_leaves(receive, work) if self.tools.may_wait_in_queue(call) else work)
        return _framed(request.id, self._result(said)), said.begun

    async def _listed(self, handle: str | None, owner: str) -> str:
        if handle is None:
            return self._plain_list
        return self._list_result(await self.tools.listed(handle, owner))

    def _list_result(self, tools: list[Json]) -> str:
        listing = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools}
        return _dumps(self._stamped(methods.serialize_server_result("tools/list", VERSION, listing)))

    def _result(self, said: Said) -> str:
        if said.media:
            result = {"content": said.content(), "isError": said.is_error, "resultType": "complete", "_meta": said.meta}
            return _dumps(self._stamped(methods.serialize_server_result("tools/call", VERSION, result)))
        code = said.meta[CODE_KEY]
        head, tail = self._tails[code, said.is_error] if len(said.meta) == 1 else self._tail(said.meta, said.is_error)
        return f"{head}{_quoted(said.text)}{tail}"

    def _tail(self, meta: Json, is_error: bool) -> tuple[str, str]:
        """What stands before and after the text of a text result."""
        empty = {"_meta": meta, "content": [{"text": "", "type": "text"}], "isError": is_error}
        whole = _dumps(self._stamped({**empty, "resultType": "complete"}))
        head, _, tail = whole.partition('"text":""')
        return f'{head}"text":', tail

    def _stamped(self, result: Json) -> Json:
        meta = {**result.get("_meta", {}), SERVER_KEY: self.server_info}
        return {**result, "_meta": meta}


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


_quoted = json.JSONEncoder().encode


def _framed(request_id: int | str, result: str) -> bytes:
    shown = str(request_id) if type(request_id) is int else _quoted(request_id)
    return f'{{"jsonrpc":"2.0","id":{shown},"result":{result}}}'.encode()


async def _whole(receive: Receive) -> bytes | None:
    """The body of a request of known length; None when its client left half way."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be received once more."""
    left: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return left.pop() if left else await receive()

    return replay
