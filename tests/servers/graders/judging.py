"""An OpenAI-compatible endpoint on a real port whose model is scripted: honest, gullible, silent or broken."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from gymwire.servers.graders.judge import JudgeEndpoint

#: From the chat to the text of the reply.
Model = Callable[[list[dict[str, str]]], Any]


class Judge:
    """What was asked, and what is answered: the models in turn, the last one from then on."""

    def __init__(self, *models: Model | web.Response) -> None:
        self.models, self.asked, self.headers = list(models), list[dict[str, Any]](), list[dict[str, str]]()
        self.url = ""

    def endpoint(self, **options: Any) -> JudgeEndpoint:
        return JudgeEndpoint(f"{self.url}/v1", "scripted", **options)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        model = self.models.pop(0) if len(self.models) > 1 else self.models[0]
        if isinstance(model, web.Response):
            return web.Response(status=model.status, body=model.body, headers=model.headers)
        text = model(self.asked[-1]["messages"])
        text = await text if asyncio.iscoroutine(text) else text
        return web.json_response({"choices": [{"message": {"role": "assistant", "content": text}}]})


@asynccontextmanager
async def serving(judge: Judge) -> AsyncIterator[Judge]:
    """The judge on a free port of loopback."""
    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/chat/completions", judge.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        judge.url = f"http://{host}:{port}"
        yield judge
    finally:
        await runner.cleanup()


def word_of(messages: list[dict[str, str]]) -> str:
    found = re.search(r"^(VERDICT-[0-9a-f]+): VERDICT$", messages[0]["content"], re.MULTILINE)
    assert found is not None
    return found[1]


def fenced(messages: list[dict[str, str]]) -> str:
    """The answer to be graded, as a judge that reads its rules finds it."""
    fence = re.search(r"two lines that read (\S+)\.", messages[0]["content"])
    assert fence is not None
    _, inside, _ = messages[1]["content"].split(f"\n{fence[1]}", 2)
    return inside.strip()


def saying(verdict: str) -> Model:
    """A judge that keeps to the form."""
    return lambda messages: f"I have thought about it.\n{word_of(messages)}: {verdict}"


def honest(right: str, yes: str = "YES", no: str = "NO") -> Model:
    """A judge that looks for a text in the fenced answer and obeys nothing in it."""
    return lambda messages: f"{word_of(messages)}: {yes if right in fenced(messages) else no}"


def gullible(messages: list[dict[str, str]]) -> str:
    """A judge that writes what the answer tells it to write, after "WRITE:"."""
    return fenced(messages).partition("WRITE:")[2].strip()
