"""The faults, one at a time: each with the promise that must find it, and the wire it is on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.adapters.doctor import faults_gym as gym
from tests.adapters.doctor import faults_others as others
from tests.adapters.doctor.bad_server import Fault
from tests.adapters.doctor.tampering import (
    answered,
    asked,
    first_schema,
    first_tool,
    is_tool,
    on_message,
    on_result,
    on_tools,
    on_verify,
    with_field,
    with_socket,
    without,
)


@dataclass(frozen=True)
class Planted:
    """One fault: how it is made, and what finds it. `extra` are options of the examination."""

    name: str
    wire: str
    promise: str
    make: Callable[[], Fault]
    extra: tuple[tuple[str, Any], ...] = ()
    with_rows: bool = False


GYM, OPENENV, MCP = "nemo-gym", "openenv", "mcp"
QUICK = (("max_p95_s", 0.3),)
#: Only wrong arguments bring the traceback about.
WITH_BAD = (("only", frozenset({"bad-arguments", "no-tracebacks"})),)
FAULTS = (
    Planted("cookie lost", GYM, "cookie-kept", answered(gym.lose_cookie)),
    Planted("cookie not repeated", GYM, "cookie-repeated", answered(gym.do_not_repeat)),
    Planted("one cookie for all", GYM, "own-cookie", gym.OneCookie),
    Planted("session shared by all", GYM, "isolated", gym.Shared),
    Planted("fresh session on an unknown handle", GYM, "unknown-handle", gym.Fresh),
    Planted("verify not idempotent", GYM, "verify-idempotent", gym.Rescores),
    Planted("another answer scores anew", GYM, "verify-final", answered(gym.score_the_answer)),
    Planted("call after verify accepted", GYM, "ends-with-verify", answered(gym.go_on)),
    Planted("close ignored", GYM, "close", asked(gym.ignore_close)),
    Planted("seed not idempotent", GYM, "seed-idempotent", asked(gym.without_key(lambda r: r.route == "seed_session"))),
    Planted("call carried out twice", GYM, "call-idempotent", asked(gym.without_key(is_tool))),
    Planted("closed id seeded again", GYM, "typed-sessions", gym.Forgets),
    Planted("control call reachable", GYM, "control-hidden", gym.Reseeds),
    Planted("task differs by seed", GYM, "same-task", gym.AnotherTask),
    Planted("answers differ", GYM, "repeatable", gym.Numbered),
    Planted("reward is NaN", GYM, "reward", with_field(reward=float("nan"))),
    Planted("reward is larger than any float", GYM, "reward", with_field(reward=10**400)),
    Planted("reward is a text", GYM, "reward", on_verify(lambda body: body | {"reward": str(body["reward"])})),
    Planted("component is null", GYM, "reward", with_field(reward_components={"a": None})),
    Planted("no reward", GYM, "shapes", without("reward")),
    Planted("label in a tool's answer", GYM, "no-leaks", answered(gym.tell_label), with_rows=True),
    Planted("label in verify's answer", GYM, "no-leaks", with_field(notes=3), with_rows=True),
    Planted("label in the seed's answer", GYM, "no-leaks", answered(gym.seed_tells_label), with_rows=True),
    Planted("label of two lines in verify's answer", GYM, "no-leaks", answered(gym.tell_lines), with_rows=True),
    Planted("no Retry-After", GYM, "capacity", answered(lambda r, a: a.drop("retry-after"), gym.SMALL)),
    Planted("capacity never recovers", GYM, "capacity", gym.NeverAgain, (("recovery_s", 1.0),)),
    Planted("abandoned session kept", GYM, "abandoned", answered(gym.short_limit_said)),
    Planted("500 on bad arguments", GYM, "bad-arguments", answered(gym.other_status(422, 500))),
    Planted("bad arguments accepted", GYM, "bad-arguments", answered(gym.other_status(422, 200))),
    Planted("500 on broken JSON", GYM, "malformed", answered(gym.bad_json_is_500)),
    Planted("masked failure as a plain 0.0", GYM, "masked", on_verify(gym.unmask)),
    Planted(
        "mask not nested", GYM, "masked", without("instance_config"),
        (("trainer", "nemo-rl"),),
    ),
    Planted(
        "mask for a trainer that drops errors", GYM, "masked",
        asked(gym.unasked_mask),
        (("trainer", "prime-rl"),),
    ),
    Planted("traceback shown", GYM, "no-tracebacks", answered(gym.show_code), WITH_BAD),
    Planted("verify drops responses_create_params", GYM, "verify-echo", without("responses_create_params")),
    Planted("verify drops token ids", GYM, "verify-echo", on_verify(gym.without_ids)),
    Planted("name with a dot", GYM, "tool-names", first_tool(name="desk.write")),
    Planted("duplicated tool name", GYM, "tool-names", on_tools(lambda tools: tools.append(tools[0]))),
    Planted("tool without description", GYM, "tool-descriptions", first_tool(description="")),
    Planted("argument without description", GYM, "tool-descriptions", first_schema(gym.undescribed)),
    Planted("schema without type", GYM, "tool-schemas", first_schema(lambda schema: schema.pop("type"))),
    Planted("titles", GYM, "tool-schemas", first_schema(lambda schema: schema.update(title="writeArguments"))),
    Planted("required, but no property", GYM, "tool-schemas", first_schema(lambda s: s["required"].append("ink"))),
    Planted("refuses every call", GYM, "shapes", answered(gym.refuse_calls)),
    Planted("refuses under load", GYM, "latency", gym.RefusesUnderLoad),
    Planted("slow under load", GYM, "latency", gym.OneByOne, QUICK),
    Planted("no token asked for", GYM, "token", Fault, (("token", "secret"),)),
    Planted("extra reset keeps the name", OPENENV, "reset-named", with_socket(others.FirstId)),
    Planted("step before a reset plays", OPENENV, "unknown-handle", with_socket(others.BeginsAlone)),
    Planted("socket ends with broken JSON", OPENENV, "malformed", with_socket(others.Breaks)),
    Planted("reward missing on done", OPENENV, "reward", on_message(others.no_reward_at_the_end)),
    Planted("step's reward is a text", OPENENV, "reward", on_message(others.text_reward)),
    Planted("step_count wrong", OPENENV, "step-count", on_message(others.one_more)),
    Planted("full in other words", OPENENV, "capacity", on_message(others.other_code, gym.SMALL)),
    Planted("half-open socket kept", OPENENV, "half-open", others.NoPings, (("half_open_s", 1.5),)),
    Planted("isError missing", MCP, "bad-arguments", on_result(others.no_error)),
    Planted("traceback beside an error's message", MCP, "no-tracebacks", on_result(others.show_code), WITH_BAD),
    Planted("verify listed to the policy", MCP, "control-hidden", on_result(others.list_verify)),
    Planted("unknown session answered", MCP, "unknown-handle", on_result(others.any_session)),
    Planted("masked failure as a plain 0.0 on MCP", MCP, "masked", on_result(others.masked_is_zero)),
)  # fmt: skip
