"""The little ASGI that the hot paths need: reading a body, answering, headers, and the contract of a face."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .. import wirejson
from ..answers import HTTP_STATUS, Code, Refused
from ..catalog import Served
from ..sessions import Sessions
from ..types import Json

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]
T = TypeVar("T")

JSON_TYPE = (b"content-type", b"application/json")
TEXT_TYPE = (b"content-type", b"text/plain; charset=utf-8")
CODE_HEADERS: dict[Code, tuple[bytes, bytes]] = {code: (b"x-gymwire-code", code.value.encode()) for code in Code}


class ClientLeft(Exception):
    """The client went away before its request was answered."""


@dataclass(frozen=True, slots=True)
class FaceContext:
    """What a face is given: the engine, the environment it shows, and the server's options."""

    sessions: Sessions
    served: Served
    prefix: str  # "/battery/gym": the paths of the face begin with it
    masked_as_error: bool = False
    max_body_bytes: int = 64 * 1024 * 1024


@dataclass(slots=True)
class Face:
    """One environment on one wire: exact paths, what documents them, and what must run beside them."""

    #: path → method → handler; a method that is missing answers 405.
    http: dict[str, dict[str, Handler]] = field(default_factory=dict)
    websocket: dict[str, Handler] = field(default_factory=dict)
    #: Takes paths under the face's prefix that are in neither; None: they answer 404.
    fallback: Handler | None = None
    #: OpenAPI 3.1 path items by path.
    openapi: dict[str, Json] = field(default_factory=dict)
    #: Entered for the life of the app.
    lifespan: Callable[[], AbstractAsyncContextManager[Any]] = nullcontext


def header(scope: Scope, name: bytes) -> str:
    """A request header by its lower-case name, or the empty string."""
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return ""


def owner_of(scope: Scope) -> str:
    """Who asks: a name of the token that the app accepted, empty where none is asked for."""
    return scope.get("gymwire.owner", "")


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body. Raises `Refused` past the limit, `ClientLeft` when the client goes away."""
    message = await receive()
    if message["type"] != "http.request":
        raise ClientLeft
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return _within(body, limit)
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeft
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise Refused(Code.TOO_LARGE, f"The body is larger than {limit} bytes.")
    return b"".join(parts)


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise Refused(Code.TOO_LARGE, f"The body is larger than {limit} bytes.")
    return body


async def respond(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def respond_json(send: Send, value: Any, status: int = 200, headers: Headers | None = None) -> None:
    await respond(send, status, wirejson.dumps(value), [JSON_TYPE, *(headers or ())])


async def respond_refused(send: Send, refused: Refused) -> None:
    """The usual error answer of every HTTP route: code, text, and the failure where our side broke."""
    body: Json = {"code": refused.code.value, "error": refused.text}
    if refused.failure is not None:
        body |= {"failure_kind": refused.failure.kind, "failure_reason": refused.failure.reason}
    headers = [CODE_HEADERS[refused.code]]
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    if refused.allow:
        headers.append((b"allow", refused.allow.encode()))
    await respond_json(send, body, HTTP_STATUS[refused.code], headers)


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run work that may wait long (a seed in the queue); cancel it when the client goes away.

    Raises `ClientLeft`. The body must have been read before.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientLeft
    finally:
        leaving.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
