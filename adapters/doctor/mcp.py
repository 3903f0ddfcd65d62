"""Raw JSON-RPC on the MCP wire: revision 2026-07-28 toward gymwire servers, `initialize` toward others."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import aiohttp
import orjson

from ...servers import wirejson
from ...servers.types import Json, Tool
from ..content import read_content
from ..foreign import McpOptions
from ..mcp import CODE, DONE, KEY, RETRY_AFTER, REVISION
from ..pool import Pool, Reply
from ..session import WrongRequest
from .findings import Exchange
from .reading import blocks_of, decoded, mapping
from .wire import ANSWER_TIMEOUT_S, Episode, Graded, Kind, Place, RawTask, RawWire, Said, SeedRefused

OLD_REVISION = "2025-11-25"
CLIENT = {"name": "gymwire-check", "version": "1"}
CONTROL_CALLS = ("seed_session", "verify", "end_turn", "close_session")
MALFORMED = {"broken JSON": b'{"jsonrpc": ', "a list": b"[1]", "no JSON-RPC": b'{"hello": 1}'}
UNKNOWN_METHOD = "an unknown method"
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Channel:
    """How requests go out: headers that each carries, and whether it is the stateless revision."""

    headers: Mapping[str, str]
    stateless: bool


class McpEpisode(Episode):
    """A handle in the session header (ours), in an argument, or the connection itself."""

    def __init__(self, wire: McpWire, channel: Channel, handle: Any, asked: Json | None = None) -> None:
        self.wire, self.channel, self.handle, self.asked = wire, channel, handle, asked

    async def call(self, name: str, arguments: Json, key: str = "") -> Said:
        headers = dict(self.channel.headers)
        if self.wire.place.ours and self.handle is not None:
            headers["X-Gymwire-Session"] = self.handle
        elif self.wire.options.state_arg and self.handle is not None:
            arguments = {**arguments, self.wire.options.state_arg: self.handle}
        return await self.wire.call(replace(self.channel, headers=headers), name, arguments, key)

    async def verify(self, answer: str) -> Graded:
        return await self.wire.verify(self, answer)

    async def close(self) -> Said | None:
        return await self.wire.end(self)


class McpWire(RawWire):
    name = "mcp"
    malformed_kinds = (*MALFORMED, UNKNOWN_METHOD)

    def __init__(self, place: Place, options: McpOptions) -> None:
        super().__init__(place)
        self.options = options
        self.takes_ids = place.ours
        self.verifies = place.ours or bool(options.reward_tool)
        self.stateless = place.ours
        self._listed: list[Tool] = []
        self._offered: Sequence[Tool] = ()
        if not place.ours:
            from ..foreign_mcp import offered_tools  # the SDK behind it is slow to import, and no answer waits for it

            self._offer = partial(offered_tools, options=options)

    async def prepare(self) -> None:
        """Of a stranger: which revision it speaks, and its tools. Raises `WrongRequest`."""
        if self.place.ours:
            return
        episode, said = await self._connected()
        if episode is None:
            raise WrongRequest(f"{self.place.url} is no MCP server: initialize is answered {said.exchange.answer}")
        self.stateless = episode.channel.stateless
        self.closes = "Mcp-Session-Id" in episode.channel.headers
        try:
            self._listed = await self._tools(episode.channel)
        except SeedRefused as refused:
            answer = refused.said.exchange.answer
            raise WrongRequest(f"{self.place.url} lists no tools: tools/list is answered {answer}") from None
        for name in (self.options.state_tool, self.options.reward_tool):
            if name and name not in {tool.name for tool in self._listed}:
                known = ", ".join(tool.name for tool in self._listed)
                raise WrongRequest(f"{name!r} is no tool of the server; it has: {known or 'none'}.")
        named = {tool.name: tool for tool in self._listed}
        self._offered = self._offer(named) if named and len(named) == len(self._listed) else self._listed

    async def seed(self, task: RawTask, name: str = "") -> McpEpisode:
        return await (self._seed_ours(task, name) if self.place.ours else self._seed_strangers())

    async def _seed_ours(self, task: RawTask, name: str) -> McpEpisode:
        channel = self._stateless()
        asked = task.asked() | {"session_id": name or secrets.token_hex(8)}
        episode = self.began(McpEpisode(self, channel, None, asked))
        said = await self._begin(episode)
        if episode.handle is None:
            self.refused(episode, said)
        named = replace(channel, headers={**channel.headers, "X-Gymwire-Session": episode.handle})
        episode.tools = tuple(await self._tools(named))
        return episode

    async def _begin(self, episode: McpEpisode) -> Said:
        """Ask for its handle; again, it is the same one."""
        said = episode.first = await self.call(episode.channel, "seed_session", episode.asked or {})
        seeded = mapping(decoded(said.text))
        if said.kind is Kind.OK and "session" in seeded:
            episode.handle, episode.prompt = str(seeded["session"]), seeded.get("prompt") or ()
        return said

    async def _seed_strangers(self) -> McpEpisode:
        episode, said = await self._connected()
        if episode is None:
            raise SeedRefused(said)
        episode.first, episode.tools = said, self._offered
        if self.options.state_tool:
            from ..foreign_mcp import read_handle  # the SDK behind it is slow to import

            said = episode.first = await self.call(episode.channel, self.options.state_tool, {})
            if said.kind is not Kind.OK:
                raise SeedRefused(said)
            episode.handle = read_handle(_result(said.body), self.options.state_arg)
        return episode

    # ---- requests

    def _stateless(self) -> Channel:
        return Channel({**_HEADERS, "MCP-Protocol-Version": REVISION}, True)

    async def _connected(self) -> tuple[McpEpisode | None, Said]:
        """A connection of its own; None where `initialize` and the stateless revision are both refused."""
        params = {"protocolVersion": OLD_REVISION, "capabilities": {}, "clientInfo": CLIENT}
        said, reply = await self._post(_HEADERS, _request("initialize", params))
        if said.kind is not Kind.OK or reply is None:
            channel = self._stateless()
            listed = await self.ask(channel, "tools/list", {})
            return (McpEpisode(self, channel, None) if listed.kind is Kind.OK else None), said
        revision = str(_result(said.body).get("protocolVersion") or OLD_REVISION)
        headers = {**_HEADERS, "MCP-Protocol-Version": revision}
        if handle := reply.headers.get("Mcp-Session-Id"):
            headers["Mcp-Session-Id"] = handle
        episode = McpEpisode(self, Channel(headers, False), None)
        self.began(episode)
        await self._post(headers, orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return episode, said

    async def ask(self, channel: Channel, method: str, params: Json, name: str = "", key: str = "") -> Said:
        headers = dict(channel.headers)
        if channel.stateless:
            params = {**params, "_meta": _ENVELOPE | ({KEY: key} if key else {})}
            headers["Mcp-Method"] = method
            if name:
                headers["Mcp-Name"] = name
        elif key:
            params = {**params, "_meta": {KEY: key}}
        return (await self._post(headers, _request(method, params)))[0]

    async def call(self, channel: Channel, name: str, arguments: Json, key: str = "") -> Said:
        return await self.ask(channel, "tools/call", {"name": name, "arguments": arguments}, name, key)

    async def _post(self, headers: Mapping[str, str], body: bytes) -> tuple[Said, Reply | None]:
        reply, why, seconds = await self.post(self.place.url, body, headers)
        request = f"POST {self.place.url.path} {body.decode('utf-8', 'replace')}"
        exchange = self.exchange(request, why if reply is None else _told(reply))
        if reply is None:
            return self.noted(Said(Kind.BROKEN, why, None, exchange, seconds)), None
        return self.noted(_said(reply, exchange, seconds)), reply

    async def _tools(self, channel: Channel) -> list[Tool]:
        said = await self.ask(channel, "tools/list", {})
        listed = _result(said.body).get("tools")
        if not isinstance(listed, list):
            raise SeedRefused(said)
        return [Tool.from_any(item) for item in listed if isinstance(item, dict)]

    # ---- verify and close

    async def verify(self, episode: McpEpisode, answer: str) -> Graded:
        if self.place.ours:
            messages = [{"role": "assistant", "content": answer}]
            handle = {} if episode.handle is None else {"session": episode.handle}
            said = await self.call(episode.channel, "verify", {**handle, "messages": messages})
            told = decoded(said.text)
            about: Json = told if isinstance(told, dict) else {}
            return Graded(said, about.get("reward"), _code(said.body) == "masked", about.get("components"))
        return await self._strangers_reward(episode, answer)

    async def _strangers_reward(self, episode: McpEpisode, answer: str) -> Graded:
        from ..foreign_mcp import read_reward

        tool = next(tool for tool in self._listed if tool.name == self.options.reward_tool)
        taken = tool.parameters.get("properties") or {}
        known = {"answer": answer, "messages": [{"role": "assistant", "content": answer}]}
        said = await episode.call(tool.name, {key: value for key, value in known.items() if key in taken})
        if said.kind is not Kind.OK:
            return Graded(said)
        try:
            return Graded(said, read_reward(_result(said.body)))
        except ValueError:
            return Graded(said)

    async def end(self, episode: McpEpisode) -> Said | None:
        if self.place.ours:
            if episode.handle is None and episode.asked:
                await self._begin(episode)  # the answer was lost
            if episode.handle is None:
                return None
            return await self.call(self._stateless(), "close_session", {"session": episode.handle})
        return await self._leave(episode.channel)

    async def _leave(self, channel: Channel) -> Said | None:
        """DELETE, as the revisions with `initialize` have it."""
        if "Mcp-Session-Id" not in channel.headers:
            return None
        started = perf_counter()
        timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_S)
        request = f"DELETE {self.place.url.path}"
        try:
            async with self.place.pool.http().delete(
                self.place.url, headers=channel.headers, timeout=timeout, allow_redirects=False
            ) as answer:
                reply = Reply(answer.status, await answer.read(), answer.headers)
        except (aiohttp.ClientError, ConnectionError, TimeoutError, ValueError) as error:
            return self.noted(Said(Kind.BROKEN, type(error).__name__, None, self.exchange(request, str(error))))
        return self.noted(_said(reply, self.exchange(request, _told(reply)), perf_counter() - started))

    # ---- what is wrong on purpose

    async def lost(self, task: RawTask) -> list[tuple[str, Episode]]:
        if self.place.ours:
            real = await self.seed(task)
            handles = {
                "without a session": None,
                "with a forged handle": secrets.token_urlsafe(24),
                "with a damaged handle": _damaged(str(real.handle)),
            }
            return [(why, McpEpisode(self, self._stateless(), handle)) for why, handle in handles.items()]
        found: list[tuple[str, Episode]] = []
        if self.options.state_arg:
            forged, said = await self._connected()
            if forged is None:
                raise SeedRefused(said)
            forged.handle = secrets.token_urlsafe(24)
            found.append(("with a forged handle", forged))
        elif self.closes:
            headers = {**_HEADERS, "MCP-Protocol-Version": OLD_REVISION, "Mcp-Session-Id": secrets.token_hex(16)}
            found.append(("of an unknown Mcp-Session-Id", McpEpisode(self, Channel(headers, False), None)))
        return found

    async def control_calls(self, episode: Episode) -> list[tuple[str, Said]]:
        if not self.place.ours:
            return []
        taken = {tool.name for tool in episode.tools}
        return [(name, await episode.call(name, {})) for name in CONTROL_CALLS if name not in taken]

    async def send_malformed(self, episode: Episode, what: str) -> Said:
        assert isinstance(episode, McpEpisode)
        channel = episode.channel
        if what == UNKNOWN_METHOD:
            return await self.ask(channel, "no/such/method", {})
        headers = {**channel.headers, **({"Mcp-Method": "tools/call"} if channel.stateless else {})}
        return (await self._post(headers, MALFORMED[what]))[0]

    def without_token(self) -> Self:
        made = type(self)(replace(self.place, pool=Pool(ours=False)), self.options)
        made.stateless, made.closes = self.stateless, self.closes
        made._listed, made._offered = self._listed, self._offered
        return made

    # ---- forms

    def form_of_seed(self, episode: Episode) -> list[str]:
        if not self.place.ours:
            return []
        return [] if episode.prompt else ["the seed's answer has no prompt"]

    def form_of_call(self, said: Said) -> list[str]:
        result = _result(said.body)
        if not result:
            return [] if said.kind is Kind.POLICY else ["a tool call answers neither a result nor an error"]
        found = [] if isinstance(result.get("content"), list) else ["a tool's result has no list `content`"]
        if not isinstance(result.get("isError", False), bool):
            found.append("a tool's `isError` is no boolean")
        return found

    def form_of_verify(self, graded: Graded) -> list[str]:
        return [] if graded.said.kind is Kind.OK else ["verify of a played episode is an error"]

    def form_of_full(self, said: Said) -> str:
        if said.status in (429, 503):
            return "" if said.retry_after else f"HTTP {said.status} without Retry-After"
        if _code(said.body) != "at_capacity":
            return "an error without a code"
        return "" if RETRY_AFTER in _meta(said.body) else "no time to come back"

    def own_part(self, graded: Graded) -> Any:
        return graded.said.text


def _request(method: str, params: Json) -> bytes:
    return wirejson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


def _damaged(handle: str) -> str:
    middle = len(handle) // 2
    return f"{handle[:middle]}{'A' if handle[middle] != 'A' else 'B'}{handle[middle + 1 :]}"


def _result(body: Any) -> Json:
    return mapping(mapping(body).get("result"))


def _meta(body: Any) -> Json:
    return mapping(_result(body).get("_meta"))


def _code(body: Any) -> str:
    return str(_meta(body).get(CODE) or "")


_KIND_OF_CODE = {
    **dict.fromkeys(("ok", "masked"), Kind.OK),
    **dict.fromkeys(("tool_error", "unknown_tool", "invalid_arguments", "invalid_request", "invalid_row"), Kind.POLICY),
    **dict.fromkeys(("at_capacity", "draining", "rate_limited"), Kind.FULL),
    **dict.fromkeys(("session_failed", "internal_error"), Kind.BROKEN),
}
_POLICY_ERRORS = frozenset((-32602, -32601, -32600, -32700))


def _told(reply: Reply) -> str:
    return f"HTTP {reply.status} {reply.text}"


def _said(reply: Reply, exchange: Exchange, seconds: float) -> Said:
    body = _message(reply)
    retry_after = reply.headers.get("Retry-After", "")
    result = _result(body)
    if not result:
        kind, text = _error(reply, body)
        return Said(kind, text, body, exchange, seconds, status=reply.status, retry_after=retry_after)
    has_content = isinstance(result.get("content"), list)
    text = read_content(blocks_of(result))[0] if has_content else json.dumps(result, ensure_ascii=False)
    kind = Kind.OK
    if result.get("isError"):
        code = _code(body)
        kind = _KIND_OF_CODE.get(code, Kind.REFUSED) if code else Kind.POLICY
    done = _meta(body).get(DONE) is True
    return Said(kind, text, body, exchange, seconds, done, reply.status, None, retry_after)


def _error(reply: Reply, body: Any) -> tuple[Kind, str]:
    error = mapping(mapping(body).get("error"))
    code = error.get("code")
    is_policys = isinstance(code, int) and code in _POLICY_ERRORS
    known = error and (is_policys or reply.status < 400)
    if known and reply.status not in (401, 403, 404, 409, 410):
        is_gone = str(mapping(error.get("data")).get("code")).startswith("session_")
        kind = Kind.POLICY if is_policys else Kind.BROKEN
        return (Kind.REFUSED if is_gone else kind), str(error.get("message"))
    if reply.status in (401, 403, 404, 409, 410) or (reply.status == 400 and error):
        return Kind.REFUSED, reply.text
    if reply.status in (429, 503):
        return Kind.FULL, reply.text
    if reply.status >= 500 or reply.status == 0:
        return Kind.BROKEN, reply.text
    return (Kind.POLICY if reply.status >= 400 else Kind.OK), reply.text


def _message(reply: Reply) -> Any:
    """The JSON-RPC answer: the body, or the last event of a stream that has an id."""
    if not reply.headers.get("Content-Type", "").startswith("text/event-stream"):
        return decoded(reply.body)
    found = [decoded(line[5:]) for line in reply.body.splitlines() if line.startswith(b"data:")]
    answers = [item for item in found if isinstance(item, dict) and "id" in item]
    return answers[-1] if answers else None
