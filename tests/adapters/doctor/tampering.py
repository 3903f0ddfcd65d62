"""Ways to plant a fault: in answers, requests, NeMo Gym's verdicts and tools, MCP's results, sockets' messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from gymwire.servers.sessions import Limits

from tests.adapters.doctor.bad_server import Answer, Ask, Fault, Request, Socket

CONTROLS = frozenset(("seed_session", "verify", "close_session", "end_turn", "aggregate_metrics", "reset"))


def is_tool(request: Request) -> bool:
    return request.method == "POST" and "/gym/" in request.path and request.route not in CONTROLS


def answered(change: Callable[[Request, Answer], Answer], limits: Limits = Limits()) -> Callable[[], Fault]:  # noqa: B008
    """A fault that changes answers."""

    class Changes(Fault):
        async def http(self, request: Request, ask: Ask) -> Answer:
            return change(request, await ask(request))

    Changes.limits = limits
    return Changes


def asked(change: Callable[[Request], Request]) -> Callable[[], Fault]:
    """A fault that changes requests."""

    class Changes(Fault):
        async def http(self, request: Request, ask: Ask) -> Answer:
            return await ask(change(request))

    return Changes


def on_verify(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Fault]:
    """A fault in NeMo Gym's verify answer."""

    def changed(request: Request, answer: Answer) -> Answer:
        if request.route != "verify" or answer.status != 200:
            return answer
        body = answer.json()
        return answer.say(change(body) or body)

    return answered(changed)


def on_tools(change: Callable[[list[dict[str, Any]]], None]) -> Callable[[], Fault]:
    """A fault in the tools that a seed lists."""

    def changed(request: Request, answer: Answer) -> Answer:
        if request.route != "seed_session" or answer.status != 200:
            return answer
        body = answer.json()
        if "responses_create_params" in body:
            change(body["responses_create_params"]["tools"])
        return answer.say(body)

    return answered(changed)


def on_result(change: Callable[[Request, dict[str, Any]], None]) -> Callable[[], Fault]:
    """A fault in MCP's results."""

    def changed(request: Request, answer: Answer) -> Answer:
        if not request.path.endswith("/mcp") or not answer.body.startswith(b"{"):
            return answer
        body = answer.json()
        if isinstance(body.get("result"), dict):
            change(request, body["result"])
        return answer.say(body)

    return answered(changed)


def on_message(change: Callable[[dict[str, Any]], None], limits: Limits = Limits()) -> Callable[[], Fault]:  # noqa: B008
    """A fault in what sockets say."""

    class Changed(Socket):
        def said(self, text: str) -> str:
            message = json.loads(text)
            change(message)
            return json.dumps(message)

    class Changes(Fault):
        def socket(self) -> Socket:
            return Changed()

    Changes.limits = limits
    return Changes


def with_socket(kind: Callable[[], Socket]) -> Callable[[], Fault]:
    """A fault in how sockets behave."""

    class Changes(Fault):
        def socket(self) -> Socket:
            return kind()

    return Changes


def first_tool(**changed: Any) -> Callable[[], Fault]:
    """A seed lists its first tool with these fields changed."""
    return on_tools(lambda tools: tools[0].update(changed))


def first_schema(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Fault]:
    """A seed lists its first tool with the parameters changed."""
    return on_tools(lambda tools: change(tools[0]["parameters"]))


def without(key: str) -> Callable[[], Fault]:
    """Verify's answer lacks a field."""
    return on_verify(lambda body: {name: value for name, value in body.items() if name != key})


def with_field(**fields: Any) -> Callable[[], Fault]:
    """Verify's answer has these fields."""
    return on_verify(lambda body: body | fields)
