"""Building blocks of the faces' OpenAPI 3.1 documentation. Examples and schemas never hold row data."""

from __future__ import annotations

from collections.abc import Iterable

from ..types import Json

ERROR: Json = {
    "type": "object",
    "properties": {
        "code": {"type": "string"},
        "error": {"type": "string"},
        "failure_kind": {"type": "string"},
        "failure_reason": {"type": "string"},
    },
    "required": ["code", "error"],
}

ABOUT = {
    200: "The answer.",
    400: "The request is malformed, or the tool refused what the policy did.",
    401: "A bearer token is missing or wrong.",
    403: "The token's scope, or the page's origin, does not allow it.",
    404: "There is no such route or tool.",
    405: "The route exists, the method does not.",
    409: "The session was verified, or the seed conflicts with one.",
    410: "The session is unknown, closed or expired.",
    413: "The body is too large.",
    421: "The Host header is not allowed.",
    422: "The arguments or the row do not fit.",
    429: "More requests a second than the limit; Retry-After says when to come back.",
    503: "The session failed, the server is full or shutting down.",
}
#: What the door answers, whatever the route.
_ANYWHERE = frozenset((401, 403, 413, 421, 429))


def json_content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def responses(ok: Json, statuses: Iterable[int], *, error: Json | None = None) -> Json:
    """`ok` is the content of 200; every other status answers `error` (default: the JSON error form)."""
    wrong = error or json_content(ERROR)
    answers: Json = {"200": {"description": ABOUT[200], "content": ok}}
    for status in sorted(_ANYWHERE | set(statuses)):
        content = json_content(ERROR) if status in _ANYWHERE else wrong
        answers[str(status)] = {"description": ABOUT[status], "content": content}
    return answers


def operation(
    summary: str, tag: str, answers: Json, *, body: Json | None = None, parameters: Iterable[Json] = ()
) -> Json:
    made: Json = {"summary": summary, "tags": [tag], "responses": answers}
    if body is not None:
        made["requestBody"] = {"required": True, "content": json_content(body)}
    if listed := list(parameters):
        made["parameters"] = listed
    return made


def header_parameter(name: str, about: str) -> Json:
    return {"name": name, "in": "header", "required": False, "description": about, "schema": {"type": "string"}}
