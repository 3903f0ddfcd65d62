"""OpenAPI path items of the NeMo Gym face."""

from __future__ import annotations

from ...catalog import Served
from ...types import PARAMS_KEY, Json
from ..openapi import ERROR, header_parameter, json_content, operation, responses

OBJECT: Json = {"type": "object"}
TEXT: Json = {"text/plain": {"schema": {"type": "string"}}}
KEY = header_parameter("Idempotency-Key", "Names this request; a repeat answers what the first did.")

_SEED: Json = {
    "description": "A whole row, the typed form, or the place of one of the server's rows.",
    "anyOf": [
        {"type": "object", "required": [PARAMS_KEY], "properties": {PARAMS_KEY: OBJECT}},
        {
            "type": "object",
            "required": ["resources_session_id", "episode_id", "task_id", "task_data"],
            "properties": {
                "resources_session_id": {"type": "string", "minLength": 1},
                "episode_id": OBJECT,
                "task_id": OBJECT,
                "task_data": OBJECT,
            },
        },
        {
            "type": "object",
            "properties": {
                "row": {"anyOf": [OBJECT, {"type": "null"}]},
                "split": {"type": "string"},
                "index": {"type": "integer"},
                "seed": {"type": "integer"},
            },
        },
    ],
}
_VERIFY: Json = {
    "type": "object",
    "required": [PARAMS_KEY, "response"],
    "properties": {PARAMS_KEY: OBJECT, "response": OBJECT},
}
_VERDICT: Json = {
    "type": "object",
    "required": [PARAMS_KEY, "response", "reward", "ending"],
    "properties": {
        PARAMS_KEY: OBJECT,
        "response": OBJECT,
        "reward": {"type": "number"},
        "reward_components": {"type": "object", "additionalProperties": {"type": "number"}},
        "ending": {"enum": ["finished", "cut", "failed"]},
        "mask_sample": {"type": "boolean"},
        "failure_kind": {"type": "string"},
        "failure_reason": {"type": "string"},
        "transcript_disagreements": {"type": "array", "items": {"type": "string"}},
    },
}
_CLOSE: Json = {
    "type": "object",
    "required": ["resources_session_id"],
    "properties": {"resources_session_id": {"type": "string", "minLength": 1}},
}
_AGGREGATE: Json = {
    "type": "object",
    "required": ["verify_responses"],
    "properties": {"verify_responses": {"type": "array", "items": OBJECT}},
}
_PROMPT: Json = {"type": "object", "properties": {"prompt": {"type": ["string", "null"]}}}


def path_items(served: Served, at: str) -> Json:
    """One path item a route; the tools' bodies are the tools' own schemas."""
    tag = f"{served.name}: NeMo Gym"

    def post(summary: str, ok: Json, body: Json, statuses: tuple[int, ...]) -> Json:
        return {"post": operation(summary, tag, responses(ok, statuses), body=body, parameters=[KEY])}

    seed_statuses = (400, 409, 422, 503)
    items: Json = {
        f"{at}/seed_session": post("Begin an episode", json_content(OBJECT), _SEED, seed_statuses),
        f"{at}/verify": post("Score the episode", json_content(_VERDICT), _VERIFY, (400, 503)),
        f"{at}/close_session": post("Close a session by its id", json_content(OBJECT), _CLOSE, (400,)),
        f"{at}/aggregate_metrics": post("Statistics over verify answers", json_content(OBJECT), _AGGREGATE, (400,)),
        f"{at}/reverify_mode": {
            "get": operation(
                "Whether results can be scored again", tag, responses(json_content({"type": "string"}), ())
            )
        },
    }
    if served.has_end_turn:
        error = {**TEXT, **json_content(ERROR)}
        answers = responses(json_content(_PROMPT), (404, 410, 503), error=error)
        items[f"{at}/end_turn"] = {"post": operation("The next prompt", tag, answers, body=OBJECT)}
    for tool in served.tools:
        answers = responses(TEXT, (400, 404, 409, 410, 422, 503), error=TEXT)
        summary = tool.description.partition("\n")[0] or tool.name
        items[f"{at}/{tool.name}"] = {
            "post": operation(summary, tag, answers, body=_hosted(tool.parameters, at, tool.name), parameters=[KEY])
        }
    return items


def _hosted(schema: Json, at: str, name: str) -> Json:
    """A tool's schema inside the document: its `$defs` stay reachable where it now lies."""
    here = f"#/paths/{(at + '/' + name).replace('~', '~0').replace('/', '~1')}/post/requestBody/content/"
    here += "application~1json/schema"

    def moved(value: object) -> object:
        if isinstance(value, list):
            return [moved(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: f"{here}{item[1:]}"
            if key == "$ref" and isinstance(item, str) and item.startswith("#/")
            else moved(item)
            for key, item in value.items()
        }

    made = moved(schema)
    assert isinstance(made, dict)
    return made
