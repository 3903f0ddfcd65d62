"""What the MCP face says, whatever carried the request: which tools are listed, and what a call answers.

With a session header the caller sees the session's own tools and nothing else: control calls are unknown tools.
Without one, `seed_session` answers a handle that every other call takes as its `session` argument.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from pydantic_core import PydanticSerializationError, to_json

from ... import wirejson
from ...answers import GONE_TEXTS, Answer, Code, Refused, unknown_tool
from ...catalog import Served
from ...results import clean_text
from ...sessions import Sessions
from ...types import Failure, Json, Media, Tool
from .controls import CONTROLS, By, Control, read_control

CODE_KEY = "gymwire/code"
KIND_KEY = "gymwire/failure_kind"
REASON_KEY = "gymwire/failure_reason"
RETRY_KEY = "gymwire/retry_after_s"
DONE_KEY = "gymwire/done"
IDEMPOTENCY_KEY = "gymwire/idempotency-key"
ABOUT_SESSION = "The handle that seed_session answered."


class Call(NamedTuple):
    """One `tools/call`: `handle` is the session header, None where the request carries none."""

    name: str
    arguments: Json
    handle: str | None
    owner: str
    key: str | None = None


class Said(NamedTuple):
    """One tool result in the making."""

    text: str
    is_error: bool
    meta: Json
    media: tuple[Media, ...] = ()
    #: The handle of a session that has begun: told in a header too, from which a gateway learns where it is.
    begun: str = ""

    def content(self) -> list[Json]:
        """MCP's content blocks; a picture alone brings no empty text."""
        texts = [{"type": "text", "text": self.text}] if self.text or not self.media else []
        return [*texts, *map(_media_block, self.media)]


class McpTools:
    """One environment's tools as MCP shows them. Decides nothing that the session engine decides."""

    def __init__(self, sessions: Sessions, served: Served, wire: str = "mcp") -> None:
        self.sessions, self.served, self.wire = sessions, served, wire
        self.session_argument = _free_name(served)
        self.controls: Mapping[str, Control] = CONTROLS
        self.plain_list = self._list_for_plain_clients()

    # ---- listing

    async def listed(self, handle: str | None, owner: str) -> list[Json]:
        """The tools a caller may use. Raises `Refused` for a handle that names no session."""
        if handle is None:
            return self.plain_list
        session = await self.sessions.find(handle, self.served, owner)
        return [_described(tool) for tool in session.tools]

    def schema_of(self, name: str) -> Json | None:
        """The schema of an environment's tool, or None where there is no such tool."""
        spec = self.served.specs.get(name)
        return None if spec is None else spec.tool.parameters

    def _list_for_plain_clients(self) -> list[Json]:
        controls = {name: control.described() for name, control in self.controls.items() if control.listed}
        if not self.served.has_end_turn:
            del controls["end_turn"]
        first = controls.pop("seed_session")
        tools = [_described(with_session(tool, self.session_argument)) for tool in self.served.tools]
        return [first, *tools, *controls.values()]

    # ---- calling

    async def call(self, call: Call) -> Said:
        try:
            if call.handle is not None:
                return await self._in_session(call.handle, call, call.arguments)
            if call.name in self.controls:
                return await self._control(call)
            return await self._in_named_session(call)
        except Refused as refused:
            return refusal(refused)

    def may_wait_in_queue(self, call: Call) -> bool:
        """Whether this call is a seed, which ends when its client leaves; any other call runs to its end."""
        return call.handle is None and call.name == "seed_session"

    async def _in_named_session(self, call: Call) -> Said:
        arguments = dict(call.arguments)
        handle = arguments.pop(self.session_argument, None)
        if isinstance(handle, str):
            return await self._in_session(handle, call, arguments)
        if call.name not in self.served.specs:
            return answered(unknown_tool(call.name, [tool["name"] for tool in self.plain_list]))
        text = f"{call.name} needs the string `{self.session_argument}`: the handle that seed_session answered."
        return Said(text, True, {CODE_KEY: Code.INVALID_ARGUMENTS.value})

    async def _in_session(self, handle: str, call: Call, arguments: Json) -> Said:
        session = await self.sessions.find(handle, self.served, call.owner)
        answer = await session.call(call.name, as_sent(arguments), call.key)
        return answered(answer, session.failure)

    async def _control(self, call: Call) -> Said:
        control = self.controls[call.name]
        arguments = call.arguments
        if call.key is not None and call.name == "seed_session":  # a repeat answers the first seed's session
            arguments = {"session_id": call.key, **arguments}
        asked = read_control(control, arguments)
        value, outcome = await control.run(self.sessions, self.served, asked, By(call.owner, self.wire, call.key))
        text = wirejson.dumps(value).decode()
        if outcome is None or not outcome.masked:
            begun = value["session"] if call.name == "seed_session" else ""
            return Said(text, False, {CODE_KEY: Code.OK.value}, begun=begun)
        meta = {CODE_KEY: Code.MASKED.value, KIND_KEY: outcome.failure_kind, REASON_KEY: outcome.failure_reason}
        return Said(text, True, meta)


def answered(answer: Answer, failure: Failure | None = None) -> Said:
    """The engine's answer to a call, with the code (and what failed) beside the text."""
    meta: Json = {CODE_KEY: answer.code.value}
    if answer.code is Code.SESSION_FAILED and failure is not None:
        meta |= {KIND_KEY: failure.kind, REASON_KEY: failure.reason}
    if answer.result.done:
        meta[DONE_KEY] = True
    return Said(answer.result.text, answer.result.is_error, meta, answer.result.media)


def refusal(refused: Refused) -> Said:
    meta: Json = {CODE_KEY: refused.code.value}
    if refused.failure is not None or refused.code in GONE_TEXTS:
        outcome = refused.as_outcome()
        meta |= {KIND_KEY: outcome.failure_kind, REASON_KEY: outcome.failure_reason}
    if refused.retry_after_s is not None:
        meta[RETRY_KEY] = refused.retry_after_s
    return Said(clean_text(refused.text), True, meta)


def as_sent(arguments: Json) -> bytes:
    """The JSON text of decoded arguments: integers of any size, NaN and lone surrogates as the client wrote them."""
    try:
        return to_json(arguments, inf_nan_mode="constants")
    except (PydanticSerializationError, UnicodeEncodeError):
        return json.dumps(arguments, separators=(",", ":")).encode()


def with_session(tool: Tool, argument: str) -> Tool:
    """The tool with one more required argument in front."""
    schema = dict(tool.parameters)
    schema["properties"] = {argument: {"type": "string", "description": ABOUT_SESSION}} | schema.get("properties", {})
    schema["required"] = [argument, *schema.get("required", ())]
    return replace(tool, parameters=schema)


def _free_name(served: Served) -> str:
    """`session`, unless a tool has a parameter of that name itself."""
    taken = {name for tool in served.tools for name in tool.parameters.get("properties", {})}
    name = "session"
    while name in taken:
        name = f"gymwire_{name}"
    return name


def _described(tool: Tool) -> Json:
    described: Json = {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}
    if tool.read_only:
        described["annotations"] = {"readOnlyHint": True}
    return described


def _media_block(item: Media) -> Json:
    if item.kind == "resource":
        textual = item.mime_type.startswith("text/") or item.mime_type.endswith(("json", "xml"))
        body = {"text" if textual else "blob": item.data}
        return {"type": "resource", "resource": {"uri": item.uri, "mimeType": item.mime_type, **body}}
    return {"type": item.kind, "data": item.data, "mimeType": item.mime_type}
