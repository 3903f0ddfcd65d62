"""The faults, one at a time: each with the promise that must find it, and the wire it is on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gymwire.servers.sessions import Limits

from tests.adapters.doctor.bad_server import LABEL, Answer, Ask, Fault, Request, Socket

CONTROLS = frozenset(("seed_session", "verify", "close_session", "end_turn", "aggregate_metrics", "reset"))
SMALL = Limits(max_sessions=4, queue_timeout_s=0.2)
SHORT = Limits(idle_timeout_s=0.5)


@dataclass(frozen=True)
class Planted:
    """One fault: how it is made, and what finds it. `extra` are options of the examination."""

    name: str
    wire: str
    promise: str
    make: Callable[[], Fault]
    extra: tuple[tuple[str, Any], ...] = ()
    with_rows: bool = False


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


def on_message(change: Callable[[dict[str, Any]], None]) -> Callable[[], Fault]:
    """A fault in what sockets say."""

    class Changed(Socket):
        def said(self, text: str) -> str:
            message = json.loads(text)
            change(message)
            return json.dumps(message)

    class Changes(Fault):
        def socket(self) -> Socket:
            return Changed()

    return Changes


# ---- sessions on the NeMo Gym wire


def _lose_cookie(request: Request, answer: Answer) -> Answer:
    if is_tool(request):
        answer.drop("set-cookie").headers.append(("set-cookie", "gymwire_desk=; Max-Age=0; Path=/"))
    return answer


def _do_not_repeat(request: Request, answer: Answer) -> Answer:
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


def _score_the_answer(request: Request, answer: Answer) -> Answer:
    if request.route != "verify" or answer.status != 200:
        return answer
    return answer.say(answer.json() | {"reward": len(json.dumps(request.json()["response"]["output"])) / 1000})


def _go_on(request: Request, answer: Answer) -> Answer:
    if is_tool(request) and answer.status == 409:
        answer.status, answer.body = 200, b"done"
    return answer


def _ignore_close(request: Request) -> Request:
    """The close of a session that does not exist, in the place of the right one."""
    if request.route == "close_session":
        return replace(request, body=b'{"resources_session_id": "nobody"}')
    return request


def _without_key(where: Callable[[Request], bool]) -> Callable[[Request], Request]:
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


class Counts(Fault):
    """Numbers what passes."""

    def __init__(self, where: Callable[[Request], bool], show: Callable[[Answer, int], Answer]) -> None:
        self.where, self.show, self.number = where, show, 0

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if self.where(request) and answer.status == 200:
            self.number += 1
            return self.show(answer, self.number)
        return answer


def _another_prompt(answer: Answer, number: int) -> Answer:
    body = answer.json()
    if "responses_create_params" in body:
        body["responses_create_params"]["input"] = [{"role": "user", "content": f"Task {number}"}]
    return answer.say(body)


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


def _short_limit_said(request: Request, answer: Answer) -> Answer:
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


# ---- answers


def _status(before: int, after: int) -> Callable[[Request, Answer], Answer]:
    def changed(request: Request, answer: Answer) -> Answer:
        if answer.status == before and is_tool(request):
            answer.status = after
        return answer

    return changed


def _bad_json_is_500(request: Request, answer: Answer) -> Answer:
    if request.route == "verify" and answer.status == 400:
        answer.status = 500
    return answer


def _show_code(request: Request, answer: Answer) -> Answer:
    if is_tool(request) and answer.status == 422:
        answer.say('Traceback (most recent call last):\n  File "/srv/app/grader.py", line 3, in verify\n')
    return answer


def _tell_label(request: Request, answer: Answer) -> Answer:
    if request.route == "write" and answer.status == 200:
        answer.say(f"{answer.text} (the password is {LABEL})")
    return answer


def _seed_tells_label(request: Request, answer: Answer) -> Answer:
    if request.route == "seed_session" and answer.status == 200:
        answer.say(answer.json() | {"verifier_metadata": {"expected": LABEL}})
    return answer


def _unmask(body: dict[str, Any]) -> None:
    for key in ("mask_sample", "instance_config", "failure_kind", "failure_reason"):
        body.pop(key, None)


def _without_ids(body: dict[str, Any]) -> None:
    for item in body["response"]["output"]:
        item.pop("generation_token_ids", None)


# ---- sockets


class FirstId(Socket):
    """A reset changes everything but the name."""

    first = ""

    def said(self, text: str) -> str:
        message = json.loads(text)
        if message["type"] == "state" and message["data"]["episode_id"]:
            self.first = self.first or message["data"]["episode_id"]
            message["data"]["episode_id"] = self.first
        return json.dumps(message)


class BeginsAlone(Socket):
    """A step without an episode begins one."""

    begun, silent = False, 0

    def heard(self, text: str) -> list[str]:
        if '"reset"' in text:
            self.begun = True
        if not self.begun and '"step"' in text:
            self.begun, self.silent = True, 1
            return ['{"type": "reset", "data": {"split": "train", "index": 0}}', text]
        return [text]

    def said(self, text: str) -> str | None:
        if self.silent:
            self.silent = 0
            return None
        return text


class Breaks(Socket):
    """A message that is no JSON ends the socket."""

    def said(self, text: str) -> str:
        return "" if "INVALID_JSON" in text else text


def with_socket(kind: Callable[[], Socket]) -> Callable[[], Fault]:
    class Changes(Fault):
        def socket(self) -> Socket:
            return kind()

    return Changes


class NoPings(Fault):
    ping_s = None


def _no_reward_at_the_end(message: dict[str, Any]) -> None:
    if message["data"].get("done") is True:
        message["data"]["reward"] = None


def _one_more(message: dict[str, Any]) -> None:
    if message["type"] == "state":
        message["data"]["step_count"] += message["data"]["step_count"] > 1


def _text_reward(message: dict[str, Any]) -> None:
    if message["data"].get("reward") is not None:
        message["data"]["reward"] = str(message["data"]["reward"])


def _other_code(message: dict[str, Any]) -> None:
    if message["data"].get("code") == "CAPACITY_REACHED":
        message["data"]["code"] = "EXECUTION_ERROR"


# ---- MCP


def _no_error(request: Request, result: dict[str, Any]) -> None:
    if result.get("isError") and request.json()["params"].get("name") in ("write", "read"):
        result["isError"] = False


def _list_verify(request: Request, result: dict[str, Any]) -> None:
    if "tools" in result:
        schema = {"type": "object", "properties": {}}
        result["tools"].append({"name": "verify", "description": "Score.", "inputSchema": schema})


def _any_session(request: Request, result: dict[str, Any]) -> None:
    if (result.get("_meta") or {}).get("gymwire/code") == "session_lost":
        result |= {"isError": False, "_meta": {"gymwire/code": "ok"}}


def _masked_is_zero(request: Request, result: dict[str, Any]) -> None:
    if request.json()["params"].get("name") == "verify" and result.get("isError"):
        zero = json.dumps({"reward": 0.0, "components": {}})
        result |= {"isError": False, "_meta": {}, "content": [{"type": "text", "text": zero}]}


def _describe(**changed: Any) -> Callable[[list[dict[str, Any]]], None]:
    return lambda tools: tools[0].update(changed)


GYM, OPENENV, MCP = "nemo-gym", "openenv", "mcp"
QUICK = (("max_p95_s", 0.3),)
FAULTS = (
    Planted("cookie lost", GYM, "cookie-kept", answered(_lose_cookie)),
    Planted("cookie not repeated", GYM, "cookie-repeated", answered(_do_not_repeat)),
    Planted("one cookie for all", GYM, "own-cookie", OneCookie),
    Planted("session shared by all", GYM, "isolated", Shared),
    Planted("fresh session on an unknown handle", GYM, "unknown-handle", Fresh),
    Planted("verify not idempotent", GYM, "verify-idempotent", Rescores),
    Planted("another answer scores anew", GYM, "verify-final", answered(_score_the_answer)),
    Planted("call after verify accepted", GYM, "ends-with-verify", answered(_go_on)),
    Planted("close ignored", GYM, "close", asked(_ignore_close)),
    Planted("seed not idempotent", GYM, "seed-idempotent", asked(_without_key(lambda r: r.route == "seed_session"))),
    Planted("call carried out twice", GYM, "call-idempotent", asked(_without_key(is_tool))),
    Planted("closed id seeded again", GYM, "typed-sessions", Forgets),
    Planted("control call reachable", GYM, "control-hidden", Reseeds),
    Planted("task differs by seed", GYM, "same-task", lambda: Counts(lambda r: r.route == "seed_session", _another_prompt)),
    Planted("answers differ", GYM, "repeatable", lambda: Counts(is_tool, lambda a, n: a.say(f"{a.text} {n}"))),
    Planted("reward is NaN", GYM, "reward", on_verify(lambda body: body | {"reward": float("nan")})),
    Planted("reward is a text", GYM, "reward", on_verify(lambda body: body | {"reward": str(body["reward"])})),
    Planted("component is null", GYM, "reward", on_verify(lambda body: body | {"reward_components": {"a": None}})),
    Planted("no reward", GYM, "shapes", on_verify(lambda body: body.pop("reward") and None)),
    Planted("label in a tool's answer", GYM, "no-leaks", answered(_tell_label), with_rows=True),
    Planted("label in verify's answer", GYM, "no-leaks", on_verify(lambda b: b | {"notes": 3}), with_rows=True),
    Planted("label in the seed's answer", GYM, "no-leaks", answered(_seed_tells_label), with_rows=True),
    Planted("no Retry-After", GYM, "capacity", answered(lambda r, a: a.drop("retry-after"), SMALL)),
    Planted("capacity never recovers", GYM, "capacity", NeverAgain, (("recovery_s", 1.0),)),
    Planted("abandoned session kept", GYM, "abandoned", answered(_short_limit_said)),
    Planted("500 on bad arguments", GYM, "bad-arguments", answered(_status(422, 500))),
    Planted("bad arguments accepted", GYM, "bad-arguments", answered(_status(422, 200))),
    Planted("500 on broken JSON", GYM, "malformed", answered(_bad_json_is_500)),
    Planted("masked failure as a plain 0.0", GYM, "masked", on_verify(_unmask)),
    Planted(
        "mask not nested", GYM, "masked", on_verify(lambda b: b.pop("instance_config", 0) and None),
        (("trainer", "nemo-rl"),),
    ),
    Planted(
        "mask for a trainer that drops errors", GYM, "masked",
        asked(lambda r: replace(r, headers={k: v for k, v in r.headers.items() if k != "x-gymwire-masked"})),
        (("trainer", "prime-rl"),),
    ),
    Planted("traceback shown", GYM, "no-tracebacks", answered(_show_code), (("only", frozenset({"bad-arguments", "no-tracebacks"})),)),
    Planted("verify drops responses_create_params", GYM, "verify-echo", on_verify(lambda b: b.pop("responses_create_params") and None)),
    Planted("verify drops token ids", GYM, "verify-echo", on_verify(_without_ids)),
    Planted("name with a dot", GYM, "tool-names", on_tools(_describe(name="desk.write"))),
    Planted("duplicated tool name", GYM, "tool-names", on_tools(lambda tools: tools.append(tools[0]))),
    Planted("tool without description", GYM, "tool-descriptions", on_tools(_describe(description=""))),
    Planted("argument without description", GYM, "tool-descriptions", on_tools(lambda tools: tools[0]["parameters"]["properties"]["text"].pop("description"))),
    Planted("schema without type", GYM, "tool-schemas", on_tools(lambda tools: tools[0]["parameters"].pop("type"))),
    Planted("titles", GYM, "tool-schemas", on_tools(lambda tools: tools[0]["parameters"].update(title="writeArguments"))),
    Planted("required, but no property", GYM, "tool-schemas", on_tools(lambda tools: tools[0]["parameters"].update(required=["text", "ink"]))),
    Planted("slow under load", GYM, "latency", OneByOne, QUICK),
    Planted("no token asked for", GYM, "token", Fault, (("token", "secret"),)),
    Planted("extra reset keeps the name", OPENENV, "reset-named", with_socket(FirstId)),
    Planted("step before a reset plays", OPENENV, "unknown-handle", with_socket(BeginsAlone)),
    Planted("socket ends with broken JSON", OPENENV, "malformed", with_socket(Breaks)),
    Planted("reward missing on done", OPENENV, "reward", on_message(_no_reward_at_the_end)),
    Planted("step's reward is a text", OPENENV, "reward", on_message(_text_reward)),
    Planted("step_count wrong", OPENENV, "step-count", on_message(_one_more)),
    Planted("full in other words", OPENENV, "capacity", type("Full", (on_message(_other_code),), {"limits": SMALL})),  # type: ignore[misc]
    Planted("half-open socket kept", OPENENV, "half-open", NoPings, (("half_open_s", 1.5),)),
    Planted("isError missing", MCP, "bad-arguments", on_result(_no_error)),
    Planted("verify listed to the policy", MCP, "control-hidden", on_result(_list_verify)),
    Planted("unknown session answered", MCP, "unknown-handle", on_result(_any_session)),
    Planted("masked failure as a plain 0.0 on MCP", MCP, "masked", on_result(_masked_is_zero)),
)  # fmt: skip
