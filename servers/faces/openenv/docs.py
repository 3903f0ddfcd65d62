"""What documents the OpenEnv wire: JSON schemas of its messages and OpenAPI path items of its HTTP routes."""

from __future__ import annotations

from collections.abc import Iterable

from ...catalog import Served
from ...types import Json
from ..openapi import ERROR, header_parameter, json_content, operation, responses

#: Version of the HTTP contract: validators take "1.*" for OpenEnv's first.
METADATA_VERSION = "1.0.0"

_OBJECT: Json = {"type": "object"}
_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer", "minimum": 0}


def _nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(properties: Json, required: Iterable[str] = (), *, closed: bool = False) -> Json:
    made: Json = {"type": "object", "properties": properties}
    if needed := list(required):
        made["required"] = needed
    if closed:
        made["additionalProperties"] = False
    return made


_METADATA = _object(
    {
        "idempotency_key": {"type": "string", "description": "A repeat answers what the first did."},
        "control": {"type": "boolean", "description": "Marks the control calls verify and end_turn."},
    }
)
_CALL_TOOL = _object(
    {
        "type": {"const": "call_tool", "default": "call_tool"},
        "tool_name": _TEXT,
        "arguments": _OBJECT,
        "metadata": _METADATA,
    },
    ("tool_name",),
    closed=True,
)
_LIST_TOOLS = _object({"type": {"const": "list_tools"}, "metadata": _METADATA}, ("type",), closed=True)
_TOOL = _object({"name": _TEXT, "description": _TEXT, "input_schema": _OBJECT}, ("name", "description", "input_schema"))
_TOOL_ERROR = _object({"error_type": _TEXT, "message": _TEXT}, ("error_type", "message"))
_RESULT = _object(
    {"content": {"type": "array", "items": _OBJECT}, "is_error": {"type": "boolean"}, "data": {}},
    ("content", "is_error", "data"),
)
_SCORED: Json = {"reward": _nullable({"type": "number"}), "done": {"type": "boolean"}, "metadata": _OBJECT}
_CALLED = _object(
    {"tool_name": _TEXT, "result": _nullable(_RESULT), "error": _nullable(_TOOL_ERROR), **_SCORED},
    ("tool_name", "result", "error"),
)
_LISTED = _object({"tools": {"type": "array", "items": _TOOL}, **_SCORED}, ("tools",))
_RESET = _object(
    {"prompt": {"type": "array", "items": _OBJECT}, "tools": {"type": "array", "items": _TOOL}, **_SCORED},
    ("prompt", "tools"),
)
_STATE = _object({"episode_id": _nullable(_TEXT), "step_count": _WHOLE}, ("episode_id", "step_count"))

SCHEMAS: Json = {
    "action": {"type": "object", "anyOf": [_CALL_TOOL, _LIST_TOOLS]},
    "observation": {"type": "object", "anyOf": [_CALLED, _LISTED]},
    "reset_observation": _RESET,
    "state": _STATE,
}


def _envelope(observation: Json) -> Json:
    return json_content(_object({"observation": observation, **_SCORED}, ("observation", "reward", "done", "metadata")))


def _reset_body(split: Json) -> Json:
    return _object(
        {
            "seed": _nullable(_WHOLE),
            "episode_id": _nullable({"type": "string", "maxLength": 255}),
            "split": _nullable(split),
            "index": _nullable(_WHOLE),
            "row": _nullable(_object({"responses_create_params": _OBJECT}, ("responses_create_params",))),
        }
    )


_STEP_BODY = _object(
    {
        "action": SCHEMAS["action"],
        "timeout_s": _nullable({"type": "number", "exclusiveMinimum": 0}),
        "request_id": _nullable({"type": "string", "maxLength": 255}),
    },
    ("action",),
)
_RPC_REQUEST = _object(
    {
        "jsonrpc": {"const": "2.0"},
        "id": {"anyOf": [_TEXT, {"type": "integer"}, {"type": "null"}]},
        "method": {"enum": ["openenv/session/create", "openenv/session/close", "tools/list", "tools/call"]},
        "params": _OBJECT,
    },
    ("jsonrpc", "method"),
    closed=True,
)
_RPC_ANSWER = _object({"jsonrpc": {"const": "2.0"}, "id": {}, "result": _OBJECT, "error": _OBJECT}, ("jsonrpc", "id"))
_TASK = _object({"split": _TEXT, "index": _WHOLE, "prompt": {"type": "array", "items": _OBJECT}}, ("split", "index"))
_TASKS: Json = {"type": "array", "items": _TASK}
_SPLIT = _object({"name": _TEXT, "type": {"enum": ["train", "validation", "test"]}}, ("name", "type"))

_ERROR: Json = {**ERROR, "properties": {**ERROR["properties"], "detail": {}}}
_RPC_BODY = {"description": "A request; anything else is answered by a JSON-RPC error.", "anyOf": [_RPC_REQUEST, {}]}
_SESSION = header_parameter("X-Gymwire-Session", "The episode's id, as POST /reset answered it.")
_NEEDS_SESSION: Json = {**_SESSION, "required": True, "schema": {"type": "string", "minLength": 1}}
_KEY = header_parameter("Idempotency-Key", "Names this step; a repeat answers what the first did.")


def path_items(served: Served, prefix: str) -> dict[str, Json]:
    """OpenAPI path items by whole path."""
    return {prefix + path: item for path, item in _items(served).items()}


def own_openapi(served: Served) -> Json:
    """The document at `{prefix}/openapi.json`, its paths relative to the prefix, as validators want it."""
    info = {"title": f"{served.name} on OpenEnv", "version": METADATA_VERSION}
    return {"openapi": "3.1.0", "info": info, "paths": _items(served)}


def _items(served: Served) -> dict[str, Json]:
    tag = f"{served.name} on OpenEnv"

    split: Json = {"type": "string", "enum": list(served.rows.splits)}

    def get(summary: str, answer: Json, statuses: Iterable[int] = (), parameters: Iterable[Json] = ()) -> Json:
        answers = responses(json_content(answer), statuses)
        return {"get": operation(summary, tag, answers, parameters=parameters)}

    def post(
        summary: str,
        body: Json,
        ok: Json,
        statuses: Iterable[int],
        parameters: Iterable[Json] = (),
        needed: bool = True,
    ) -> Json:
        answers = responses(ok, statuses, error=json_content(_ERROR))
        made = operation(summary, tag, answers, body=body, parameters=parameters)
        made["requestBody"]["required"] = needed
        return {"post": made}

    def look_up(summary: str, wanted: Json, required: Iterable[str], answer: Json) -> Json:
        body = _object({"split": split, **wanted}, required, closed=True)
        return post(summary, body, json_content(answer), (400, 404, 422))

    at = f"/{served.name}"
    return {
        "/reset": post(
            "Begin an episode", _reset_body(split), _envelope(_RESET), (400, 410, 422, 503), (_SESSION,), needed=False
        ),
        "/step": post(
            "Take a step", _STEP_BODY, _envelope(SCHEMAS["observation"]), (400, 410, 422, 503), (_NEEDS_SESSION, _KEY)
        ),
        "/state": get("The episode's id and step count", _STATE, (400, 410), (_NEEDS_SESSION,)),
        "/mcp": post("OpenEnv's JSON-RPC", _RPC_BODY, json_content(_RPC_ANSWER), (), needed=False),
        "/health": get("Liveness", _object({"status": _TEXT}, ("status",))),
        "/metadata": get(
            "About the environment", _object({"name": _TEXT, "description": _TEXT}, ("name", "description"))
        ),
        "/schema": get("Schemas of actions, observations and state", _OBJECT),
        "/list_environments": get("The environment's name", {"type": "array", "items": _TEXT}),
        "/openapi.json": get("This wire's routes, relative to its prefix", _OBJECT),
        f"{at}/splits": get("The splits of rows", {"type": "array", "items": _SPLIT}),
        f"{at}/tasks": look_up("All rows of a split", {}, ("split",), _object({"tasks": _TASKS, "env_name": _TEXT})),
        f"{at}/num_tasks": look_up("How many rows a split has", {}, ("split",), _object({"num_tasks": _WHOLE})),
        f"{at}/task": look_up("One row", {"index": _WHOLE}, ("split", "index"), _object({"task": _TASK})),
        f"{at}/task_range": look_up(
            "Some rows",
            {"start": _nullable(_WHOLE), "stop": _nullable(_WHOLE)},
            ("split",),
            _object({"tasks": _TASKS}),
        ),
    }
