"""The NeMo Gym wire (resources server, 0.7.0 and 0.4.0): seed_session, a route per tool, verify.

The handle travels as a cookie, repeated on every answer, since old clients keep only the last answer's.
An agent posts whatever name its model emits: a control route without its proper body answers like a tool that
does not exist, and touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from ... import wirejson
from ...answers import HTTP_STATUS, Code, Refused, unknown_tool
from ...schema import explain
from ...seeding import SeedRequest
from ...session import Session
from ...store import HANDLE_PATTERN
from ...types import FRAMEWORK_KEYS, PARAMS_KEY, Ending, Json, Outcome, Row, RowError
from .. import mcp
from ..asgi import (
    CODE_HEADERS,
    JSON_TYPE,
    TEXT_TYPE,
    Face,
    FaceContext,
    Handler,
    Headers,
    Receive,
    Scope,
    Send,
    header,
    owner_of,
    read_body,
    respond,
    respond_json,
    unless_client_leaves,
)
from .aggregate import aggregate
from .openapi import path_items

_ROLLOUT_PREFIX = re.compile(r"/ng-rollout/[A-Za-z0-9][A-Za-z0-9._-]*(/.*)")
DONE = (b"x-gymwire-done", b"true")


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _RolloutId(_Strict):
    rollout_id: str
    attempt: int = 0


class _TaskId(_Strict):
    taskset: str
    task_id: str


class TypedSeed(_Strict):
    """The typed form of 0.7.0: ids chosen by the caller, task data without a prompt."""

    resources_session_id: str
    episode_id: _RolloutId
    task_id: _TaskId
    task_data: dict[str, Any]


class ChosenSeed(_Strict):
    """gymwire's own form: the server's rows by place, or a choice by seed."""

    row: dict[str, Any] | None = None
    split: str | None = None
    index: int | None = None
    seed: int | None = None


def face(context: FaceContext) -> Face:
    return _NemoGym(context).face()


class _NemoGym:
    def __init__(self, context: FaceContext) -> None:
        self.context = context
        self.sessions, self.served, self.prefix = context.sessions, context.served, context.prefix
        # Path=/: NeMo Gym 0.7.0's agent keeps the cookie in a jar that it also asks for its own /v1/responses.
        self._cookie_end = b"; Path=/; HttpOnly; SameSite=Lax"
        # A name of its own an environment: such a jar may hold the cookies of several.
        self._cookie_start = f"gymwire_{self.served.name}=".encode()
        self._cookie_pattern = re.compile(
            rb"(?:^|;\s*)" + re.escape(self._cookie_start) + rb"(" + HANDLE_PATTERN + rb"[^;\s]*)"
        )

    def face(self) -> Face:
        at = self.prefix
        made = Face(fallback=self.other, openapi=path_items(self.served, at))
        made.http = {f"{at}/{tool.name}": {"POST": self._tool_route(tool.name)} for tool in self.served.tools}
        for name, method in {
            "seed_session": self.seed,
            "verify": self.verify,
            "end_turn": self.end_turn,
            "close_session": self.close,
            "aggregate_metrics": self.aggregate,
        }.items():
            made.http[f"{at}/{name}"] = {"POST": method}
        made.http[f"{at}/reverify_mode"] = {"GET": self.reverify_mode}
        for path in ("", "/", "/health", "/healthz", "/livez"):
            made.http[at + path] = {"GET": self.alive}
        made.http[f"{at}/readyz"] = {"GET": self.ready}
        self.routes = made.http
        return made

    # ---- seed

    async def seed(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._json(receive)
        on_cookie = self._cookie_of(scope)
        typed = _as_typed(body)
        if typed is not None:
            request = self._typed_request(typed)
        elif PARAMS_KEY in body:
            request = SeedRequest(row=_row(body), caller_id=header(scope, b"idempotency-key") or None)
        elif on_cookie:
            text = "This cookie names a session already; seed it anew with a whole row or the typed ids."
            raise Refused(Code.SEED_REFUSED, text)
        else:
            request = _chosen_request(body, header(scope, b"idempotency-key") or None)
        await self._replace(on_cookie, scope, request)
        work = self.sessions.seed(self.served, request, owner=owner_of(scope), wire="nemo-gym")
        session = await unless_client_leaves(receive, work)
        answer = self._typed_answer(typed, session, scope) if typed else self._seed_answer(body, session, scope)
        await respond_json(send, answer, headers=[self._set_cookie(session.handle), CODE_HEADERS[Code.OK]])

    def _typed_request(self, typed: TypedSeed) -> SeedRequest:
        caller_id, episode = typed.resources_session_id, typed.episode_id
        episode_id = f"{episode.rollout_id}:{episode.attempt}" if episode.rollout_id != caller_id else ""
        place = typed.task_id
        if not typed.task_data and place.taskset in self.served.rows.splits and place.task_id.isdecimal():
            return SeedRequest(
                split=place.taskset, index=_index(place.task_id), caller_id=caller_id, episode_id=episode_id
            )
        data = typed.task_data
        row = _row(data) if PARAMS_KEY in data else Row(data=data)
        return SeedRequest(row=row, caller_id=caller_id, episode_id=episode_id)

    async def _replace(self, on_cookie: str, scope: Scope, request: SeedRequest) -> None:
        """A seed on a live cookie closes the old session first, unless it is a repeat of that very seed, or no task:
        a policy that forges one does not leave its episode with it."""
        if not on_cookie:
            return
        owner = owner_of(scope)
        try:
            old = await self.sessions.find(on_cookie, self.served, owner)
        except Refused:
            return
        if request.caller_id is None or old.caller != (self.served.name, owner, request.caller_id):
            self.sessions.check(self.served, request)
            await self.sessions.close(old)

    def _seed_answer(self, body: Json, session: Session, scope: Scope) -> Json:
        """`{}` to whoever posted a whole row, as its agent knows prompt and tools; else what the policy should see."""
        answer: Json = {}
        if PARAMS_KEY not in body or session.prompt is not session.row.prompt or session.row.tools is None:
            params = session.row.create_params()
            params |= {"input": list(session.prompt), "tools": [tool.as_responses() for tool in session.tools]}
            answer[PARAMS_KEY] = params
        if self._wants_door(scope):
            answer["mcp"] = self._door_access(session, scope)
        return answer

    def _typed_answer(self, typed: TypedSeed, session: Session, scope: Scope) -> Json:
        access = self._door_access(session, scope) if self._wants_door(scope) else None
        return {
            "resources_session_id": typed.resources_session_id,
            "resources_tools": access,
            "sandbox_access": None,
        }

    def _wants_door(self, scope: Scope) -> bool:
        return header(scope, b"x-gymwire-tools").lower() == "mcp"

    def _door_access(self, session: Session, scope: Scope) -> Json:
        headers = {mcp.SESSION_HEADER: session.handle}
        if token := header(scope, b"authorization"):
            headers["Authorization"] = token
        return {"server_name": self.served.name, "url_path": "/mcp", "transport": "http", "headers": headers}

    # ---- tools

    def _tool_route(self, name: str) -> Handler:
        async def call(scope: Scope, receive: Receive, send: Send) -> None:
            await self.call(name, scope, receive, send)

        return call

    async def call(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        handle = self._cookie_of(scope)
        body = await read_body(receive, self.context.max_body_bytes)
        headers: Headers = [TEXT_TYPE]
        if handle:
            headers.append(self._set_cookie(handle))
        try:
            session = await self.sessions.find(handle, self.served, owner_of(scope))
            if body in (b"", b"null"):
                body = b"{}"
            answer = await session.call(name, body, header(scope, b"idempotency-key") or None)
        except Refused as refused:
            headers.append(CODE_HEADERS[refused.code])
            await respond(send, refused.status, refused.text.encode(), headers)
            return
        headers.append(CODE_HEADERS[answer.code])
        if answer.result.done:
            headers.append(DONE)
        await respond(send, HTTP_STATUS[answer.code], answer.result.plain().encode(), headers)

    async def other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Paths that are no route: an observed rollout's prefix, or a tool that does not exist."""
        path = scope["path"][len(self.prefix) :]
        if (match := _ROLLOUT_PREFIX.fullmatch(path)) is not None:
            path = match[1]
            methods = self.routes.get(self.prefix + path)
            if methods is not None and scope["method"] in methods:
                await methods[scope["method"]](scope, receive, send)
                return
        if scope["method"] != "POST":
            raise Refused(Code.NOT_FOUND, f"There is nothing at {scope['path']!r}.")
        await self.call(path[1:], scope, receive, send)

    # ---- verify

    async def verify(self, scope: Scope, receive: Receive, send: Send) -> None:
        sealed = wirejson.Sealed()
        raw = sealed.close(await read_body(receive, self.context.max_body_bytes))
        body = _object(raw)
        params, response = body.get(PARAMS_KEY), body.get("response")
        if not isinstance(params, Mapping) or not isinstance(response, Mapping):
            raise self._no_such_tool("verify", f"verify needs the objects `{PARAMS_KEY}` and `response`.")
        outcome = await self._outcome(scope, response)
        headers = self._cookie_again(scope)
        if outcome.masked and self._masked_as_error(scope):
            text = f"{outcome.failure_kind}: {outcome.failure_reason}"
            answer = {"code": Code.MASKED.value, "error": text, **_failure(outcome)}
            await respond_json(send, answer, HTTP_STATUS[Code.MASKED], [*headers, CODE_HEADERS[Code.MASKED]])
            return
        answer = {key: value for key, value in body.items() if key in FRAMEWORK_KEYS}
        answer |= {PARAMS_KEY: params, "response": response, **_verdict(outcome)}
        headers.append(CODE_HEADERS[Code.MASKED if outcome.masked else Code.OK])
        await respond(send, 200, sealed.open(wirejson.dumps(answer, raw)), [JSON_TYPE, *headers])

    async def _outcome(self, scope: Scope, response: Mapping[str, Any]) -> Outcome:
        output = response.get("output")
        ending = Ending.CUT if response.get("status") == "incomplete" else Ending.FINISHED
        try:
            session = await self.sessions.find(self._cookie_of(scope), self.served, owner_of(scope))
            return await session.verify(output if isinstance(output, list) else (), ending)
        except Refused as refused:
            if refused.code is Code.REPEAT:
                raise
            return refused.as_outcome()

    def _masked_as_error(self, scope: Scope) -> bool:
        asked = header(scope, b"x-gymwire-masked").lower()
        return asked == "error" if asked in ("error", "flag") else self.context.masked_as_error

    # ---- the rest

    async def end_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not header(scope, b"x-gymwire-control"):
            await self.call("end_turn", scope, receive, send)
            return
        await read_body(receive, self.context.max_body_bytes)
        session = await self.sessions.find(self._cookie_of(scope), self.served, owner_of(scope))
        prompt = await session.end_turn(header(scope, b"idempotency-key") or None)
        if session.outcome is not None and session.outcome.masked:
            raise Refused(Code.SESSION_FAILED, "The session has failed.", failure=session.failure)
        await respond_json(send, {"prompt": prompt}, headers=self._cookie_again(scope))

    async def close(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._json(receive)
        caller_id = body.get("resources_session_id")
        if not isinstance(caller_id, str) or not caller_id:
            raise self._no_such_tool("close_session", "close_session needs `resources_session_id`.")
        await self.sessions.close_caller(self.served, owner_of(scope), caller_id)
        await respond_json(send, {"resources_session_id": caller_id}, headers=self._cookie_again(scope))

    async def aggregate(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._json(receive)
        responses = body.get("verify_responses")
        if not isinstance(responses, list) or not all(isinstance(item, dict) for item in responses):
            raise self._no_such_tool("aggregate_metrics", "aggregate_metrics needs the list `verify_responses`.")
        await respond_json(send, aggregate(responses))

    async def reverify_mode(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A verify needs its live session: results on disk cannot be scored again."""
        await respond_json(send, "unsupported")

    async def alive(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond_json(send, {"status": "ok"})

    async def ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        status, said = self.sessions.readiness
        await respond_json(send, {"status": said}, status=status)

    # ---- details

    async def _json(self, receive: Receive) -> Json:
        return _object(await read_body(receive, self.context.max_body_bytes) or b"{}")

    def _no_such_tool(self, name: str, why: str) -> Refused:
        """The policy's text and, for a person who reads it, what the control route wants."""
        text = unknown_tool(name, self.served.specs).result.text
        return Refused(Code.INVALID_REQUEST, f"{text} (The control call {why})")

    def _set_cookie(self, handle: str) -> tuple[bytes, bytes]:
        return (b"set-cookie", self._cookie_start + handle.encode("latin-1") + self._cookie_end)

    def _cookie_of(self, scope: Scope) -> str:
        """The handle in the request's cookies, or the empty string."""
        for name, value in scope["headers"]:
            if name == b"cookie" and (match := self._cookie_pattern.search(value)) is not None:
                return match[1].decode("latin-1")
        return ""

    def _cookie_again(self, scope: Scope) -> Headers:
        handle = self._cookie_of(scope)
        return [self._set_cookie(handle)] if handle else []


def _object(raw: bytes) -> Json:
    try:
        value = wirejson.loads(raw)
    except ValueError as error:
        raise Refused(Code.INVALID_REQUEST, f"The body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(Code.INVALID_REQUEST, f"The body must be a JSON object, not {type(value).__name__}.")
    return value


def _row(body: Mapping[str, Any]) -> Row:
    try:
        return Row.from_json(body)
    except RowError as error:
        raise Refused(Code.INVALID_ROW, str(error)) from None


def _as_typed(body: Json) -> TypedSeed | None:
    """The typed form, when all of its four fields are there and right; anything else is read as legacy."""
    if body.keys() != TypedSeed.model_fields.keys():
        return None
    try:
        return TypedSeed.model_validate(body)
    except ValidationError as error:
        raise Refused(Code.INVALID_REQUEST, explain(error)) from None


def _index(digits: str) -> int:
    """A row's number; one of thousands of digits, which `int` refuses, is no row's either way."""
    return int(digits.lstrip("0")[:20] or "0")


def _chosen_request(body: Json, caller_id: str | None) -> SeedRequest:
    try:
        chosen = ChosenSeed.model_validate(body)
    except ValidationError as error:
        text = f"A seed is a whole row with `{PARAMS_KEY}`, the typed form, or {{row | split, index | seed}}: "
        raise Refused(Code.INVALID_ROW, text + explain(error)) from None
    row = None if chosen.row is None else _row(chosen.row)
    return SeedRequest(row, chosen.split, chosen.index, chosen.seed, caller_id)


def _failure(outcome: Outcome) -> Json:
    return {"failure_kind": outcome.failure_kind, "failure_reason": outcome.failure_reason}


def _verdict(outcome: Outcome) -> Json:
    """The scored or the masked form of a verify answer."""
    if outcome.masked:
        masked = {"reward": 0.0, "mask_sample": True, "instance_config": {"mask_sample": True}}
        return {**masked, **_failure(outcome), "ending": outcome.ending.value}
    verdict: Json = {"reward": outcome.reward, "ending": outcome.ending.value}
    if outcome.components:
        verdict["reward_components"] = dict(outcome.components)
    if outcome.disagreements:
        verdict["transcript_disagreements"] = list(outcome.disagreements)
    return verdict
