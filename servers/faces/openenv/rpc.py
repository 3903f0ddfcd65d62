"""OpenEnv's JSON-RPC (`POST /mcp`, `/ws` messages of type mcp, the socket `/mcp`). Despite its name it is not MCP.

Methods: `openenv/session/create`, `openenv/session/close`, `tools/list`, `tools/call`. What a policy did wrong is
an error -32603 with the text for the policy, as OpenEnv's clients expect it; its `data` says which kind it was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from ...answers import Code, Refused
from ...gateway import Gateway
from ...types import Json
from .episodes import Episode, Episodes
from .reading import Members, WireError, read_call, read_object, read_reset
from .shapes import capacity, capacity_text, refused_metadata

PATH = ("params",)
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, SERVER = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32000,
)


class RpcError(Exception):
    """Answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.answer: Json = {"code": code, "message": message, "data": data}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: through which socket, if any, and how to wait for a slot while watching whether they leave."""

    owner: str
    wait: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
    own: Episode | None = None


class Rpc:
    """The methods, over the episodes of one environment."""

    def __init__(self, episodes: Episodes) -> None:
        self.episodes = episodes
        self._methods = {
            "openenv/session/create": self._create,
            "openenv/session/close": self._close,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    async def answer_text(self, text: str, caller: Caller) -> Json:
        """The answer to a request as it came."""
        try:
            request = read_object(text, PATH)
        except WireError:
            return {"jsonrpc": "2.0", "id": None, "error": RpcError(PARSE_ERROR, "Parse error").answer}
        return await self.answer(text, request, caller)

    async def answer(self, text: str, request: Members, caller: Caller) -> Json:
        number = None
        try:
            _check(request)
            number = request.value("id")
            method = self._methods.get(request.value("method"))
            if method is None:
                raise RpcError(NO_METHOD, f"Method not found: {request.value('method'):.200}")
            params = request.value("params", Members())
            return {"jsonrpc": "2.0", "id": number, "result": await method(text, params, caller)}
        except RpcError as error:
            return {"jsonrpc": "2.0", "id": number, "error": error.answer}
        except WireError as error:
            failed = RpcError(INVALID_PARAMS, error.text.replace("message", "params", 1), error.details.get("errors"))
            return {"jsonrpc": "2.0", "id": number, "error": failed.answer}
        except Refused as refused:
            return {"jsonrpc": "2.0", "id": number, "error": self._refused(refused).answer}

    def _refused(self, refused: Refused) -> RpcError:
        about = refused_metadata(refused)
        if refused.code in (Code.AT_CAPACITY, Code.DRAINING):
            slots = self.episodes.slots()
            return RpcError(SERVER, capacity_text(refused, slots), capacity(slots) | about)
        bad = refused.code in (Code.INVALID_ROW, Code.INVALID_REQUEST)
        return RpcError(INVALID_PARAMS if bad else INTERNAL, refused.text, about)

    # ---- methods

    async def _create(self, text: str, params: Members, caller: Caller) -> Json:
        """Params may say which row, like a reset. The slot is taken by the first call or reset."""
        beginning = read_reset(params.plain(), PATH)
        if caller.own is None:
            await self.episodes.sessions.check_found(self.episodes.served, Gateway.NONE)
        episode = caller.own if caller.own is not None else self.episodes.register(caller.owner)
        if episode.session is not None:
            return {"session_id": self.episodes.name(episode)}
        return {"session_id": self.episodes.promise(episode, beginning)}

    async def _close(self, text: str, params: Members, caller: Caller) -> Json:
        handle = params.value("session_id")
        if not isinstance(handle, str) or not handle:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required")
        episode = self._find(handle, caller)
        if episode is caller.own:
            raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
        attached = episode.attached
        await self.episodes.close(episode)
        return (
            {"session_id": handle, "closed": False, "closing": True}
            if attached
            else {"session_id": handle, "closed": True}
        )

    async def _list(self, text: str, params: Members, caller: Caller) -> Json:
        episode = self._named(params, caller)
        listed = self.episodes.tools(episode)
        return {"tools": [{"title": None, "inputSchema": tool.pop("input_schema"), **tool} for tool in listed]}

    async def _call(self, text: str, params: Members, caller: Caller) -> Json:
        if not isinstance(params.value("name"), str):
            raise RpcError(INVALID_PARAMS, "Missing 'name' in params")
        episode = self._named(params, caller)
        if episode is None:
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' is required: create or reset a session first")
        metadata = params.value("metadata", {})
        action = read_call(text, params, "name", metadata if isinstance(metadata, dict) else {}, PATH)
        if episode.session is None:
            await caller.wait(self.episodes.ready(episode))
        data = await self.episodes.call(episode, action)
        seen = data["observation"]
        if seen["error"] is not None:
            raise RpcError(INTERNAL, seen["error"]["message"], data["metadata"])
        if data["done"]:
            ended = {"gymwire/done": True, "gymwire/reward": data["reward"], "gymwire/metadata": data["metadata"]}
            return seen["result"] | {"meta": ended}
        return seen["result"]

    def _named(self, params: Members, caller: Caller) -> Episode | None:
        handle = params.value("session_id")
        return caller.own if handle is None else self._find(handle, caller)

    def _find(self, handle: Any, caller: Caller) -> Episode:
        if not isinstance(handle, str):
            raise RpcError(INVALID_PARAMS, "Invalid params - 'session_id' must be a string")
        if caller.own is not None and handle == caller.own.id:
            return caller.own
        try:
            return self.episodes.get(handle, caller.owner)
        except Refused as refused:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {handle:.200}", refused_metadata(refused)) from None


_FIELDS = frozenset(("jsonrpc", "id", "method", "params"))


def _check(request: Members) -> None:
    """Raises `RpcError` for what is no JSON-RPC request."""
    wrong = [f"{name}: extra inputs are not permitted" for name in request if name not in _FIELDS]
    if request.value("jsonrpc") != "2.0":
        wrong.append("jsonrpc: must be '2.0'")
    if not isinstance(request.value("method"), str):
        wrong.append("method: must be a string")
    if not isinstance(request.value("params", Members()), Members):
        wrong.append("params: must be an object")
    number = request.value("id")
    if number is not None and (isinstance(number, bool) or not isinstance(number, str | int)):
        wrong.append("id: must be a string, an integer or null")
    if wrong:
        raise RpcError(INVALID_REQUEST, f"Invalid request: {'; '.join(wrong)[:500]}")
