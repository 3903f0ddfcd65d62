"""The least that uvicorn can do: answer each body and each WebSocket message with itself. Argument: port."""

from __future__ import annotations

import sys
from typing import Any

from serving import run


async def echo(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await echo_http(receive, send)
    elif scope["type"] == "websocket":
        await echo_websocket(receive, send)
    else:
        await live(receive, send)


async def echo_http(receive: Any, send: Any) -> None:
    message = await receive()
    body = message.get("body", b"")
    while message.get("more_body"):
        message = await receive()
        body += message.get("body", b"")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo_websocket(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


async def live(receive: Any, send: Any) -> None:
    while (message := await receive())["type"] != "lifespan.shutdown":
        await send({"type": f"{message['type']}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


if __name__ == "__main__":
    run(echo, int(sys.argv[1]))
