"""A sandbox for other processes, over HTTP with a token: only this one touches the container engine.

`POST /sandbox/run` takes a job and answers its result; 503 where the sandbox cannot run it, 422 where it never does.
`GET /sandbox/talk` is a WebSocket: first the job, then binary messages both ways, "end" for the end of stdin; last
comes the result. `GET /metrics` is its figures.
A client that leaves ends its job. There is no TLS here: beyond one machine, put it behind a proxy.
"""

from __future__ import annotations

import asyncio

import orjson
from aiohttp import WSMsgType, web
from aiohttp.typedefs import Handler, Middleware

from ..answers import Refused
from ..auth import Guard
from ..figures import CONTENT_TYPE
from ..process_figures import process_text
from .frames import MAX_STDIN_BYTES
from .jobs import Job, JobRefused, Result, Sandbox, SandboxUnavailable, Talk
from .wire import ABOUT, END, RUN, TALK, dump_result, load_job

#: A job's files and stdin, in base64.
MAX_BODY_BYTES = 4 * MAX_STDIN_BYTES
REFUSED, UNAVAILABLE = 422, 503


def application(sandbox: Sandbox, guard: Guard, about: dict[str, object]) -> web.Application:
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_admitting(guard)])
    served = _Served(sandbox, about)
    app.router.add_get("/health", _health)
    app.router.add_get("/metrics", _metrics)
    app.router.add_get(ABOUT, served.about)
    app.router.add_post(RUN, served.run)
    app.router.add_get(TALK, served.talk)
    return app


def _admitting(guard: Guard) -> Middleware:
    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            guard.admit(request.path, [(name.lower(), value) for name, value in request.raw_headers])
        except Refused as refused:
            return web.json_response({"error": refused.text}, status=refused.status)
        return await handler(request)

    return admit


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=process_text(), headers={"Content-Type": CONTENT_TYPE})


class _Served:
    def __init__(self, sandbox: Sandbox, about: dict[str, object]) -> None:
        self._sandbox, self._about = sandbox, about

    async def about(self, _: web.Request) -> web.Response:
        return web.json_response(self._about)

    async def run(self, request: web.Request) -> web.Response:
        try:
            result = await self._sandbox.run(load_job(await request.read()))
        except JobRefused as error:
            return web.json_response({"error": str(error)}, status=REFUSED)
        except SandboxUnavailable as error:
            return web.json_response({"error": str(error)}, status=UNAVAILABLE)
        return web.Response(body=dump_result(result), content_type="application/json")

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_BODY_BYTES, heartbeat=20.0)
        await socket.prepare(request)
        try:
            job = load_job(await socket.receive_str())
            result = await self._converse(socket, job)
            if result is not None:
                await socket.send_str(dump_result(result).decode())
        except (JobRefused, TypeError) as error:
            await socket.send_str(orjson.dumps({"status": REFUSED, "error": str(error)}).decode())
        except SandboxUnavailable as error:
            await socket.send_str(orjson.dumps({"status": UNAVAILABLE, "error": str(error)}).decode())
        await socket.close()
        return socket

    async def _converse(self, socket: web.WebSocketResponse, job: Job) -> Result | None:
        """The result, or None where the client has left."""
        async with self._sandbox.talk(job) as talk:
            listening = asyncio.create_task(_listen(socket, talk))
            telling = asyncio.create_task(_tell(socket, talk))
            try:
                await asyncio.wait((listening, telling), return_when=asyncio.FIRST_COMPLETED)
                if listening.done() and not listening.result():
                    return None
                await telling
                return await talk.finish()
            finally:
                for task in (listening, telling):
                    task.cancel()
                await asyncio.gather(listening, telling, return_exceptions=True)


async def _listen(socket: web.WebSocketResponse, talk: Talk) -> bool:
    """Pass on what the client says; whether it wants to hear the end."""
    async for message in socket:
        if message.type is WSMsgType.BINARY:
            await talk.send(message.data)
        elif message.type is WSMsgType.TEXT and message.data == END:
            await talk.finish()
            return True
    return False


async def _tell(socket: web.WebSocketResponse, talk: Talk) -> None:
    while data := await talk.receive():
        await socket.send_bytes(data)
