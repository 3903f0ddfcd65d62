"""One port: a dict of hot paths (plain ASGI) in front of a FastAPI app that keeps docs and everything rare."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any

import orjson
from fastapi import FastAPI, Response

from .answers import HTTP_STATUS, Code, Refused
from .auth import Guard
from .catalog import Served
from .door import Door
from .faces import mcp, nemo_gym, openenv
from .faces.asgi import (
    ClientLeft,
    Face,
    FaceContext,
    Handler,
    Receive,
    Scope,
    Send,
    respond_refused,
)
from .figures import CONTENT_TYPE
from .rates import Rates
from .sessions import Sessions, draining
from .types import Json
from .version import package_version
from .workers import Place, ask, tell

logger = logging.getLogger("gymwire.app")
WIRES = {"nemo-gym": "gym", "openenv": "openenv", "mcp": "mcp"}
DRAIN_GRACE_S = 20.0


class App:
    """The ASGI application of a server."""

    def __init__(
        self,
        served: Sequence[Served],
        sessions: Sessions | None = None,
        *,
        guard: Guard | None = None,
        rate_limit: float = 0.0,
        masked_as_error: bool = False,
        max_body_bytes: int = 64 * 1024 * 1024,
        place: Place | None = None,
    ) -> None:
        self.served, self.sessions, self._place = list(served), sessions or Sessions(), place
        self._http: dict[str, dict[str, Handler]] = {}
        self._websocket: dict[str, Handler] = {}
        self._fallbacks: dict[str, Handler] = {}
        self._faces: list[Face] = []
        prefixes = {f"/{item.name}/{path}" for item in self.served for path in WIRES.values()}
        self.door = Door(guard or Guard(), Rates(rate_limit), prefixes)
        self.sessions.turned_away = self.door.turned_away
        for item in self.served:
            for wire, make in (("gym", nemo_gym.face), ("openenv", openenv.face), ("mcp", mcp.face)):
                context = FaceContext(self.sessions, item, f"/{item.name}/{wire}", masked_as_error, max_body_bytes)
                self._mount(make(context), context.prefix)
            door = FaceContext(self.sessions, item, f"/{item.name}/gym/mcp", masked_as_error, max_body_bytes)
            self._mount(mcp.door(door), door.prefix)
        self._rare = self._fastapi()

    def _mount(self, face: Face, prefix: str) -> None:
        self._http |= face.http
        self._websocket |= face.websocket
        if face.fallback is not None:
            self._fallbacks[prefix] = face.fallback
        self._faces.append(face)

    # ---- requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._answer(scope, receive, send)
        elif kind == "websocket":
            await self._connect(scope, receive, send)
        else:
            await self._rare(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            scope["gymwire.owner"] = self.door.enter(scope)
            await self._handler(scope)(scope, receive, sending)
        except Refused as refused:
            self._refused(scope, refused)
            await respond_refused(send, refused)
        except ClientLeft:
            return
        except asyncio.CancelledError:  # the server shuts down, and its patience is over
            if started or not self.sessions.draining:
                raise
            await respond_refused(send, draining())
        except Exception:  # the boundary of a request: our bug, said without a trace of it
            logger.exception("%s %r failed", scope["method"], scope["path"])
            if not started:
                await respond_refused(send, Refused(Code.INTERNAL, "The server made a mistake; its log says which."))

    def _refused(self, scope: Scope, refused: Refused) -> None:
        self.sessions.metrics.turned_away(refused.code)
        self.door.refused(scope, refused)

    def _handler(self, scope: Scope) -> Handler:
        path: str = scope["path"]
        methods = self._http.get(path)
        if methods is not None:
            handler = methods.get(scope["method"])
            if handler is not None:
                return handler
            if scope["method"] == "HEAD" and "GET" in methods:
                return methods["GET"]
            allowed = ", ".join(methods)
            raise Refused(Code.METHOD_NOT_ALLOWED, f"{path} answers to {allowed}.", allow=allowed)
        prefix = "/".join(path.split("/", 3)[:3])
        fallback = self._fallbacks.get(prefix)
        if fallback is None and path.endswith("\n"):  # to the framework's routes it is the path without it
            raise Refused(Code.NOT_FOUND, f"There is nothing at {path!r}.")
        return fallback or self._rare

    async def _connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._websocket.get(scope["path"])
        try:
            owner = scope["gymwire.owner"] = self.door.enter(scope)
            if handler is None:
                raise Refused(Code.NOT_FOUND, f"There is no WebSocket at {scope['path']!r}.")
        except Refused as refused:
            self._refused(scope, refused)
            await _refuse_socket(scope, receive, send, refused)
            return
        try:
            await handler(scope, self.door.listening(owner, receive, send), send)
        except ClientLeft:
            return
        except asyncio.CancelledError:
            if not self.sessions.draining:
                raise
        except Exception:
            logger.exception("WebSocket %s failed", scope["path"])

    # ---- everything rare

    def _fastapi(self) -> FastAPI:
        app = FastAPI(title="gymwire", version=package_version(), lifespan=self._lifespan)
        for path in ("/health", "/healthz", "/livez"):
            app.add_api_route(path, self._health, include_in_schema=path == "/health", summary="Liveness")
        app.add_api_route("/readyz", self._ready, summary="Whether seeds are taken: 404 while the server drains")
        app.add_api_route("/metrics", self._metrics, response_class=_PlainText, summary="Prometheus figures")
        app.add_api_route("/environments", self._environments, summary="What is served here, and its limits")
        app.add_exception_handler(404, _not_found)
        app.add_exception_handler(405, _not_allowed)
        framework = app.openapi

        def with_faces() -> Json:
            if app.openapi_schema is None:
                schema = framework()
                for face in self._faces:
                    schema["paths"] |= face.openapi
            return app.openapi_schema or framework()

        app.openapi = with_faces
        return app

    async def prepare(self) -> None:
        """Set the environments up, once. Raises `DefinitionError` in one sentence."""
        await self.sessions.open(self.served)
        for item in self.served:
            await item.prepare()

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await self.prepare()
            keeping = asyncio.create_task(self.door.guard.keep_reading())
            stack.callback(keeping.cancel)
            for face in self._faces:
                await stack.enter_async_context(face.lifespan())
            telling = None if self._place is None else await tell(self._place.figures, self._own_figures)
            yield
            if telling is not None:
                telling.close()
            await self.sessions.drain(DRAIN_GRACE_S)
            for item in self.served:
                await item.close()

    async def _health(self) -> Json:
        return {"status": "ok"}

    async def _ready(self, response: Response) -> Json:
        response.status_code, said = self.sessions.readiness
        return {"status": said}

    async def _metrics(self) -> Response:
        """Of all workers where this is one of several; of this one alone where its parent does not answer."""
        text = None
        if self._place is not None:
            with suppress(OSError):
                text = await ask(self._place.all_figures)
        return Response(await self._own_figures() if text is None else text, media_type=CONTENT_TYPE)

    async def _own_figures(self) -> bytes:
        return self.sessions.metrics.text()

    async def _environments(self) -> Json:
        listed = await asyncio.to_thread(lambda: [describe(item) for item in self.served])
        limits = asdict(self.sessions.limits) | {"rate_limit": self.door.rates.per_second}
        return {
            "environments": listed,
            "limits": limits,
            "shared": self.sessions.shared,
            "version": package_version(),
        }


def longest_call_s(item: Served) -> float:
    """How long a call may take at most; a tool may have a limit of its own."""
    own = (spec.timeout_s for spec in item.specs.values() if spec.timeout_s is not None)
    return max(item.environment.tool_timeout_s, *own, 0.0)


class _PlainText(Response):
    media_type = "text/plain"


def describe(item: Served) -> Json:
    """One environment as `/environments` shows it."""
    environment = item.environment
    return {
        "name": item.name,
        "description": (environment.__doc__ or "").strip(),
        "splits": {split: item.rows.count(split) for split in item.rows.splits},
        "tools": [asdict(tool) for tool in item.tools],
        "max_turns": environment.max_turns,
        "tool_timeout_s": longest_call_s(item),
        "verify_timeout_s": environment.verify_timeout_s,
        "has_end_turn": item.has_end_turn,
        "replayable": environment.replayable,
        "wires": {wire: f"/{item.name}/{path}" for wire, path in WIRES.items()},
    }


async def _not_found(request: Any, _: Exception) -> Response:
    return _error(Code.NOT_FOUND, f"There is nothing at {request.url.path!r}; /environments lists what is.")


async def _not_allowed(request: Any, refused: Any) -> Response:
    text = f"{request.method} is not answered at {request.url.path!r}."
    return _error(Code.METHOD_NOT_ALLOWED, text, refused.headers or {})


def _error(code: Code, text: str, headers: Mapping[str, str] | None = None) -> Response:
    body = orjson.dumps({"code": code.value, "error": text})
    return Response(body, HTTP_STATUS[code], {**(headers or {}), "X-Gymwire-Code": code.value}, "application/json")


async def _refuse_socket(scope: Scope, receive: Receive, send: Send, refused: Refused) -> None:
    """Refuse the handshake with the status an HTTP route would have answered."""
    await receive()
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": 1008, "reason": refused.text[:120]})
        return

    async def as_response(message: Any) -> None:
        await send({**message, "type": message["type"].replace("http.", "websocket.http.")})

    await respond_refused(as_response, refused)
