"""Faults of the NeMo Gym wire that take more than a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gymwire.servers.sessions import Limits

from tests.adapters.doctor.bad_server import LABEL, LINES, Answer, Ask, Fault, Request
from tests.adapters.doctor.tampering import is_tool

SMALL = Limits(max_sessions=4, queue_timeout_s=0.2)


# ---- sessions


def lose_cookie(request: Request, answer: Answer) -> Answer:
    if is_tool(request):
        answer.drop("set-cookie").headers.append(("set-cookie", "gymwire_desk=; Max-Age=0; Path=/"))
    return answer


def do_not_repeat(request: Request, answer: Answer) -> Answer:
    return answer if request.route == "seed_session" else answer.drop("set-cookie")


class OneCookie(Fault):
    """Every seed is answered with the first one's cookie."""

    first = ""

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request.route == "seed_session" and (cookie := answer.get("set-cookie")):
            self.first = self.first or cookie
            answer.drop("set-cookie").headers.append(("set-cookie", self.first))
        return answer


class Inner(Fault):
    """A fault that has a session of its own."""

    async def own_cookie(self, request: Request, ask: Ask) -> str:
        path = request.path.rpartition("/")[0] + "/seed_session"
        headers = {"content-type": "application/json", "host": request.headers["host"]}
        seeded = await ask(Request("POST", path, headers, b'{"split": "train", "index": 0}'))
        return seeded.get("set-cookie").partition(";")[0]


class Shared(Inner):
    """All tools of all sessions work on one desk."""

    cookie = ""

    async def http(self, request: Request, ask: Ask) -> Answer:
        if is_tool(request) and "cookie" in request.headers:
            self.cookie = self.cookie or await self.own_cookie(request, ask)
            headers = {**request.headers, "cookie": self.cookie}
            answer = await ask(replace(request, headers=headers))
            answer.drop("set-cookie").headers.append(("set-cookie", f"{request.headers['cookie']}; Path=/"))
            return answer
        return await ask(request)


class Fresh(Inner):
    """A call of a session that is not there begins one."""

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if is_tool(request) and answer.status == 410:
            headers = {**request.headers, "cookie": await self.own_cookie(request, ask)}
            return await ask(replace(request, headers=headers))
        return answer


class Rescores(Fault):
    """Every verify of a session is worth more than the last."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request.route == "verify" and answer.status == 200:
            handle = request.headers.get("cookie", "")
            self.times[handle] = self.times.get(handle, 0) + 1
            answer.say(answer.json() | {"reward": 0.1 * self.times[handle]})
            return answer
        return answer


def score_the_answer(request: Request, answer: Answer) -> Answer:
    if request.route != "verify" or answer.status != 200:
        return answer
    return answer.say(answer.json() | {"reward": len(json.dumps(request.json()["response"]["output"])) / 1000})


def go_on(request: Request, answer: Answer) -> Answer:
    if is_tool(request) and answer.status == 409:
        answer.status, answer.body = 200, b"done"
    return answer


def ignore_close(request: Request) -> Request:
    """The close of a session that does not exist, in the place of the right one."""
    if request.route == "close_session":
        return replace(request, body=b'{"resources_session_id": "nobody"}')
    return request


def without_key(where: Callable[[Request], bool]) -> Callable[[Request], Request]:
    def changed(request: Request) -> Request:
        headers = {
            key: value for key, value in request.headers.items() if key != "idempotency-key" or not where(request)
        }
        return replace(request, headers=headers)

    return changed


class Forgets(Fault):
    """A close in the typed form is answered, and not carried out."""

    async def http(self, request: Request, ask: Ask) -> Answer:
        if request.route == "close_session" and b"check-" in request.body:
            named = {"resources_session_id": request.json()["resources_session_id"]}
            return Answer(200, [("content-type", "application/json")], json.dumps(named).encode())
        return await ask(request)


class Reseeds(Fault):
    """A seed with no task in it, on a live cookie, begins a choice of the server's."""

    async def http(self, request: Request, ask: Ask) -> Answer:
        if request.route == "seed_session" and request.body == b"{}":
            headers = {key: value for key, value in request.headers.items() if key != "cookie"}
            request = replace(request, headers=headers)
        return await ask(request)


# ---- tasks, limits, load


class AnotherTask(Fault):
    """Every seed is another task."""

    number = 0

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request.route != "seed_session" or answer.status != 200:
            return answer
        self.number += 1
        body = answer.json()
        body["responses_create_params"]["input"] = [{"role": "user", "content": f"Task {self.number}"}]
        return answer.say(body)


class Numbered(Fault):
    """Every answer of a tool has a number of its own."""

    number = 0

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if is_tool(request) and answer.status == 200:
            self.number += 1
            answer.say(f"{answer.text} {self.number}")
        return answer


class NeverAgain(Fault):
    """Once full, full for ever."""

    limits = SMALL
    full = False

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request.route != "seed_session":
            return answer
        if self.full:
            return Answer(503, [("retry-after", "1"), ("x-gymwire-code", "at_capacity")], b"{}")
        self.full = answer.status == 503
        return answer


def short_limit_said(request: Request, answer: Answer) -> Answer:
    if request.path == "/environments":
        body = answer.json()
        body["limits"]["idle_timeout_s"] = 0.5
        return answer.say(body)
    return answer


class OneByOne(Fault):
    """A lock around all of the server's tools."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()

    async def http(self, request: Request, ask: Ask) -> Answer:
        if not is_tool(request):
            return await ask(request)
        async with self.lock:
            await asyncio.sleep(0.03)
            return await ask(request)


class RefusesUnderLoad(Fault):
    """Quick, since it carries nothing out while many sessions are open."""

    def __init__(self) -> None:
        self.open = 0

    async def http(self, request: Request, ask: Ask) -> Answer:
        self.open += {"seed_session": 1, "close_session": -1}.get(request.route, 0)
        answer = await ask(request)
        if is_tool(request) and self.open > 8:
            answer.status = 422
        return answer


# ---- answers


def refuse_calls(request: Request, answer: Answer) -> Answer:
    if is_tool(request):
        answer.status = 403
    return answer


def tell_lines(request: Request, answer: Answer) -> Answer:
    """JSON writes a line break in two characters."""
    if request.route == "verify" and answer.status == 200:
        answer.say(answer.json() | {"debug": [LINES]})
    return answer


def other_status(before: int, after: int) -> Callable[[Request, Answer], Answer]:
    def changed(request: Request, answer: Answer) -> Answer:
        if answer.status == before and is_tool(request):
            answer.status = after
        return answer

    return changed


def bad_json_is_500(request: Request, answer: Answer) -> Answer:
    if request.route == "verify" and answer.status == 400:
        answer.status = 500
    return answer


def show_code(request: Request, answer: Answer) -> Answer:
    if is_tool(request) and answer.status == 422:
        answer.say('Traceback (most recent call last):\n  File "/srv/app/grader.py", line 3, in verify\n')
    return answer


def tell_label(request: Request, answer: Answer) -> Answer:
    if request.route == "write" and answer.status == 200:
        answer.say(f"{answer.text} (the password is {LABEL})")
    return answer


def seed_tells_label(request: Request, answer: Answer) -> Answer:
    if request.route == "seed_session" and answer.status == 200:
        answer.say(answer.json() | {"verifier_metadata": {"expected": LABEL}})
    return answer


def unmask(body: dict[str, Any]) -> None:
    for key in ("mask_sample", "instance_config", "failure_kind", "failure_reason"):
        body.pop(key, None)


def without_ids(body: dict[str, Any]) -> None:
    for item in body["response"]["output"]:
        item.pop("generation_token_ids", None)


def unasked_mask(request: Request) -> Request:
    """The header by which a client asks for its form of a masked failure does not arrive."""
    headers = {key: value for key, value in request.headers.items() if key != "x-gymwire-masked"}
    return replace(request, headers=headers)


def undescribed(schema: dict[str, Any]) -> None:
    del schema["properties"]["text"]["description"]
