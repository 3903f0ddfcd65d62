"""What the session engine answers: machine-readable codes and the texts a policy reads, alike on every wire."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from .types import Failure, FailureKind, Outcome, Stage, ToolResult


class Code(StrEnum):
    """Travels as `X-Gymwire-Code` (HTTP), `_meta` (MCP) and in the metadata (OpenEnv)."""

    OK = "ok"
    # what the policy did
    TOOL_ERROR = "tool_error"
    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    SESSION_VERIFIED = "session_verified"
    # what a client got wrong
    INVALID_REQUEST = "invalid_request"
    INVALID_ROW = "invalid_row"
    SEED_REFUSED = "seed_refused"
    SEED_CONFLICT = "seed_conflict"
    KEY_REUSED = "idempotency_key_reused"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TOO_LARGE = "body_too_large"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN_HOST = "forbidden_host"
    FORBIDDEN_ORIGIN = "forbidden_origin"
    FORBIDDEN_SCOPE = "forbidden_scope"
    RATE_LIMITED = "rate_limited"
    TOO_SLOW = "body_too_slow"
    # no session there
    SESSION_LOST = "session_lost"
    SESSION_EXPIRED = "session_expired"
    SESSION_CLOSED = "session_closed"
    # what our side did
    SESSION_FAILED = "session_failed"
    AT_CAPACITY = "at_capacity"
    DRAINING = "draining"
    REPEAT = "repeat"  # what ran does not count, or did not run: the same request, sent again, is answered
    MASKED = "masked"
    INTERNAL = "internal_error"


#: The HTTP status of every code; other wires carry the code alone.
HTTP_STATUS: dict[Code, int] = {
    Code.OK: 200,
    Code.TOOL_ERROR: 400,
    Code.UNKNOWN_TOOL: 404,
    Code.INVALID_ARGUMENTS: 422,
    Code.SESSION_VERIFIED: 409,
    Code.INVALID_REQUEST: 400,
    Code.INVALID_ROW: 422,
    Code.SEED_REFUSED: 409,
    Code.SEED_CONFLICT: 409,
    Code.KEY_REUSED: 422,
    Code.NOT_FOUND: 404,
    Code.METHOD_NOT_ALLOWED: 405,
    Code.TOO_LARGE: 413,
    Code.UNAUTHORIZED: 401,
    Code.FORBIDDEN_HOST: 421,
    Code.FORBIDDEN_ORIGIN: 403,
    Code.FORBIDDEN_SCOPE: 403,
    Code.RATE_LIMITED: 429,
    Code.TOO_SLOW: 408,
    Code.SESSION_LOST: 410,
    Code.SESSION_EXPIRED: 410,
    Code.SESSION_CLOSED: 410,
    Code.SESSION_FAILED: 503,
    Code.AT_CAPACITY: 503,
    Code.DRAINING: 503,
    Code.REPEAT: 503,
    Code.MASKED: 503,
    Code.INTERNAL: 500,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call answered: the result for the policy, and the code for the client."""

    code: Code
    result: ToolResult


class Refused(Exception):
    """A request that no session can serve. `failure` is set where our side broke."""

    def __init__(
        self,
        code: Code,
        text: str,
        *,
        failure: Failure | None = None,
        retry_after_s: int | None = None,
        allow: str = "",
    ) -> None:
        super().__init__(text)
        self.code, self.text, self.failure = code, text, failure
        self.retry_after_s, self.allow = retry_after_s, allow

    @property
    def status(self) -> int:
        return HTTP_STATUS[self.code]

    def as_outcome(self) -> Outcome:
        """What verify answers where no session can: masked, never a score."""
        if self.failure is not None:
            return Outcome.failed(self.failure)
        kind = FailureKind.SESSION_EXPIRED if self.code is Code.SESSION_EXPIRED else FailureKind.SESSION_LOST
        return Outcome.failed(Failure(kind, self.text, Stage.VERIFY))


UNAVAILABLE = Answer(Code.SESSION_FAILED, ToolResult("The tool is unavailable.", is_error=True))
ENDED = Answer(Code.SESSION_VERIFIED, ToolResult("The episode has ended; this call changed nothing.", is_error=True))
KEY_REUSED = Answer(
    Code.KEY_REUSED, ToolResult("This idempotency key belongs to another call of the session.", is_error=True)
)

GONE_TEXTS = {
    Code.SESSION_LOST: "There is no such session here.",
    Code.SESSION_EXPIRED: "The session has expired.",
    Code.SESSION_CLOSED: "The session is closed.",
}


def gone(code: Code) -> Refused:
    return Refused(code, GONE_TEXTS[code])


def policy_error(code: Code, text: str) -> Answer:
    return Answer(code, ToolResult(text, is_error=True))


def unknown_tool(name: str, known: Iterable[str]) -> Answer:
    listed = ", ".join(known) or "none"
    return policy_error(Code.UNKNOWN_TOOL, f"There is no tool called {name[:80]!r}. The tools are: {listed}.")


def invalid_arguments(name: str, why: str) -> Answer:
    return policy_error(Code.INVALID_ARGUMENTS, f"Invalid arguments for {name}: {why}")


#: C0 and C1 control characters and DEL, but not tab and line feed.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def sanitize(text: str) -> str:
    """How clients show a result to a policy: without control characters; CRLF and CR become LF."""
    if _CONTROL.search(text) is None:
        return text
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
