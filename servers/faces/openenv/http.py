"""OpenEnv's HTTP routes: episodes, what there is to play (tasks), and what describes the environment.

Unlike upstream's, /reset and /step belong to one episode. POST /reset answers the episode's id in the header
`X-Gymwire-Session` and in `metadata.session`; /step and /state need that header, and refuse a request without it
instead of playing a fresh environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from ...answers import Code, Refused
from ...gateway import Gateway
from ...types import Json, RowError
from ..asgi import (
    CODE_HEADERS,
    JSON_TYPE,
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
from .docs import METADATA_VERSION, SCHEMAS, own_openapi
from .episodes import Episode, Episodes
from .reading import (
    Members,
    WireError,
    forbid_others,
    invalid,
    read_action,
    read_object,
    read_reset,
    read_text,
    whole_number,
)
from .rpc import Caller, Rpc
from .shapes import encode

SESSION_HEADER = b"x-gymwire-session"
#: OpenEnv's words for our splits; every other name is a validation split.
SPLIT_TYPES = {"train": "train", "test": "test"}


class Routes:
    """An episode's routes, JSON-RPC, and what describes the environment: handlers by path and method."""

    def __init__(self, context: FaceContext, episodes: Episodes, rpc: Rpc) -> None:
        self.context, self.served = context, context.served
        self.episodes, self.rpc = episodes, rpc

    def paths(self) -> dict[str, dict[str, Handler]]:
        made: dict[str, dict[str, Handler]] = {
            "/reset": {"POST": answering(self.reset)},
            "/step": {"POST": answering(self.step)},
            "/state": {"GET": self.state},
            "/mcp": {"POST": self.mcp},
            "/health": {"GET": fixed({"status": "healthy"})},
            "/metadata": {"GET": fixed(self._metadata())},
            "/schema": {"GET": fixed(SCHEMAS)},
            "/list_environments": {"GET": fixed([self.served.name])},
            "/openapi.json": {"GET": fixed(own_openapi(self.served))},
        }
        return {self.context.prefix + path: methods for path, methods in made.items()}

    def _metadata(self) -> Json:
        return {
            "name": self.served.name,
            "description": (self.served.environment.__doc__ or self.served.name).strip(),
            "readme_content": None,
            "version": METADATA_VERSION,
            "author": None,
            "documentation_url": None,
        }

    async def reset(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins an episode of its own, or anew the one of the session header."""
        text = await self._body(receive)
        beginning = read_reset(read_object(text).plain() if text else {}, ("body",))
        owner, handle = owner_of(scope), header(scope, SESSION_HEADER)
        if not handle:
            await self.context.sessions.check_found(self.served, Gateway.HEADERS)
        episode = self.episodes.get(handle, owner) if handle else self.episodes.register(owner)
        try:
            data = await unless_client_leaves(receive, self.episodes.begin(episode, beginning))
        except BaseException:
            if not handle:
                await self.episodes.close(episode)  # nobody knows its id
            raise
        await _respond_data(send, data, episode)

    async def step(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = await self._body(receive)
        body = read_object(text, ("action",))
        if "action" not in body:
            raise invalid(("body", "action"), "Field required", "missing")
        _check_step_options(body)
        action = read_action(text, body.value("action"), ("body", "action"))
        if (key := header(scope, b"idempotency-key")) and action.tool is not None:
            action = action._replace(key=key)
        episode = self._episode(scope)
        if episode.session is None:
            await unless_client_leaves(receive, self.episodes.ready(episode))
        await _respond_data(send, await self.episodes.step(episode, action), episode)

    async def state(self, scope: Scope, receive: Receive, send: Send) -> None:
        episode = self._episode(scope)
        await respond(send, 200, encode(episode.state), [JSON_TYPE, CODE_HEADERS[Code.OK]])

    async def mcp(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Always 200: what is wrong is said in JSON-RPC's own words."""
        raw = await read_body(receive, self.context.max_body_bytes)
        caller = Caller(owner_of(scope), partial(unless_client_leaves, receive))
        answer = await self.rpc.answer_text(raw.decode("utf-8", "replace"), caller)
        await respond(send, 200, encode(answer), [JSON_TYPE])

    def _episode(self, scope: Scope) -> Episode:
        handle = header(scope, SESSION_HEADER)
        if not handle:
            text = "This needs the header X-Gymwire-Session with the id that POST /reset answered."
            raise Refused(Code.INVALID_REQUEST, text)
        return self.episodes.get(handle, owner_of(scope))

    async def _body(self, receive: Receive) -> str:
        return read_text(await read_body(receive, self.context.max_body_bytes))


def _check_step_options(body: Members) -> None:
    """`timeout_s` and `request_id` are checked and nothing else: a tool's limit is its environment's affair."""
    timeout_s, name = body.value("timeout_s"), body.value("request_id")
    is_number = isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) and timeout_s > 0
    if timeout_s is not None and not is_number:
        raise invalid(("body", "timeout_s"), "Input should be a number greater than 0", "greater_than", timeout_s)
    if name is not None and not (isinstance(name, str) and len(name) <= 255):
        raise invalid(("body", "request_id"), "Input should be a string of at most 255 characters", given=name)


async def _respond_data(send: Send, data: Json, episode: Episode) -> None:
    code = CODE_HEADERS[Code(data["metadata"]["code"])]
    headers: Headers = [JSON_TYPE, code, (SESSION_HEADER, episode.id.encode())]
    await respond(send, 200, encode(data), headers)


class NoSuchRow(Exception):
    """Answered 404 for a split, 400 for an index, as upstream does."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Tasks:
    """Which rows there are. Of a row these show its place and its prompt, never its task data.

    A task is what a reset takes: `{"split", "index"}`, beside the prompt.
    """

    def __init__(self, context: FaceContext) -> None:
        self.context, self.served, self.rows = context, context.served, context.served.rows

    def paths(self) -> dict[str, dict[str, Handler]]:
        splits = [{"name": name, "type": SPLIT_TYPES.get(name, "validation")} for name in self.rows.splits]
        made: dict[str, dict[str, Handler]] = {}
        for name in {self.served.name, self.served.environment.__name__}:
            at = f"{self.context.prefix}/{name}"
            made[f"{at}/splits"] = {"GET": fixed(splits)}
            made[f"{at}/tasks"] = {"POST": self._route(self._tasks, ("split",))}
            made[f"{at}/num_tasks"] = {"POST": self._route(self._num_tasks, ("split",))}
            made[f"{at}/task"] = {"POST": self._route(self._task, ("split", "index"))}
            made[f"{at}/task_range"] = {"POST": self._route(self._task_range, ("split",), ("start", "stop"))}
        return made

    def _route(
        self, look_up: Callable[[Json], Json], needed: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> Handler:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            text = read_text(await read_body(receive, self.context.max_body_bytes))
            asked = _checked(read_object(text or "{}").plain(), needed, optional)
            try:
                found = await asyncio.to_thread(look_up, asked)
            except NoSuchRow as missing:
                body = {"code": Code.NOT_FOUND.value, "error": missing.text, "detail": missing.text}
                await respond_json(send, body, missing.status, [CODE_HEADERS[Code.NOT_FOUND]])
                return
            await respond(send, 200, encode(found), [JSON_TYPE])

        return answering(answer)

    def _tasks(self, asked: Json) -> Json:
        split = asked["split"]
        found = [self._shown(split, index) for index in range(self._count(split))]
        return {"tasks": found, "env_name": self.served.name}

    def _num_tasks(self, asked: Json) -> Json:
        return {"num_tasks": self._count(asked["split"])}

    def _task(self, asked: Json) -> Json:
        if asked["index"] >= self._count(asked["split"]):
            raise NoSuchRow(400, "Invalid task index")
        return {"task": self._shown(asked["split"], asked["index"])}

    def _task_range(self, asked: Json) -> Json:
        count = self._count(asked["split"])
        start, stop = asked.get("start") or 0, asked.get("stop")
        chosen = range(start, count if stop is None else min(stop, count))
        return {"tasks": [self._shown(asked["split"], index) for index in chosen]}

    def _count(self, split: str) -> int:
        try:
            return self.rows.count(split)
        except RowError as error:
            raise NoSuchRow(404, str(error)) from None

    def _shown(self, split: str, index: int) -> Json:
        return {"split": split, "index": index, "prompt": list(self.rows.get(split, index).prompt)}


def _checked(body: Json, needed: tuple[str, ...], optional: tuple[str, ...]) -> Json:
    forbid_others(body, frozenset((*needed, *optional)), ("body",))
    for name in needed:
        if name not in body:
            raise invalid(("body", name), "Field required", "missing")
    if not isinstance(body["split"], str):
        raise invalid(("body", "split"), "Input should be a string", "string_type", body["split"])
    numbers = {name: whole_number(value, ("body", name)) for name, value in body.items() if _is_number(name, value)}
    return {**body, **numbers}


def _is_number(name: str, value: Any) -> bool:
    return name == "index" or (name in ("start", "stop") and value is not None)


def fixed(value: Any) -> Handler:
    """A route whose answer never changes."""
    body = encode(value)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, body, [JSON_TYPE])

    return answer


def answering(handler: Handler) -> Handler:
    """A route whose malformed requests answer 400 (no JSON) or 422 (the fields do not fit)."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await handler(scope, receive, send)
        except WireError as error:
            status = 400 if error.code == "INVALID_JSON" else 422
            body = {"code": Code.INVALID_REQUEST.value, "error": error.text}
            body["detail"] = error.details.get("errors", error.text)
            await respond_json(send, body, status, [CODE_HEADERS[Code.INVALID_REQUEST]])

    return answer
