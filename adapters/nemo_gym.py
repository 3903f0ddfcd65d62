"""The NeMo Gym wire: seed_session, a route a tool, verify; the session is a cookie.

The jar is one rollout's own and merges: servers stop repeating a cookie, and a jar that was replaced by the
last answer's would lose the session. Against gymwire servers every call carries an idempotency key and may be
repeated; against others a request whose delivery is unknown fails the session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isclose
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import hdrs
from yarl import URL

from ..servers import wirejson
from ..servers.answers import Code
from ..servers.types import (
    PARAMS_KEY,
    Ending,
    FailureKind,
    Json,
    Message,
    Outcome,
    Row,
    RowError,
    Stage,
    Tool,
    ToolResult,
)
from .endpoint import Endpoint
from .patience import Busy, delivered
from .pool import Reply
from .responses import response_of
from .session import POLICY_CODES, Session, SessionFailed, Task, WrongRequest, failure_of, read_outcome

_DATE_GONE = re.compile(r";\s*(max-age\s*=\s*(0|-\d+)\s*(;|$)|expires\s*=[^;]*\b19[67]\d\b)", re.IGNORECASE)
#: Credentials, a proxy's, a time-out and a rate: a policy has none of them.
_BEFORE_TOOLS = (401, 407, 408, 429)
_JSON_HEADERS: dict[str, str] = {"Content-Type": "application/json"}


class CookieJar:
    """One rollout's cookies, as names and values exactly as they were set."""

    __slots__ = ("_cookies", "header")

    def __init__(self) -> None:
        self._cookies: dict[str, str] = {}
        self.header = ""

    def merge(self, reply: Reply) -> None:
        """Take what an answer sets; what it does not mention stays. What no header can carry back is no cookie."""
        changed = False
        for line in reply.headers.getall(hdrs.SET_COOKIE, ()):
            pair, _, attributes = line.partition(";")
            name, equals, value = pair.strip().partition("=")
            if not equals or not pair.isprintable():
                continue
            if _DATE_GONE.search(f";{attributes}"):
                changed |= self._cookies.pop(name, None) is not None
            elif self._cookies.get(name) != value:
                self._cookies[name], changed = value, True
        if changed:
            self.header = "; ".join(f"{name}={value}" for name, value in self._cookies.items())

    def __len__(self) -> int:
        return len(self._cookies)


@dataclass(slots=True)
class _Seeded:
    prompt: list[Message]
    tools: list[Tool]
    row: Json  # what strangers want to see again at verify


class NemoGymSession(Session):
    """An episode over NeMo Gym's HTTP routes."""

    wire = "nemo-gym"

    def __init__(self, endpoint: Endpoint, jar: CookieJar, task: Task, seeded: _Seeded) -> None:
        super().__init__(prompt=seeded.prompt, tools=seeded.tools, max_turns=endpoint.max_turns, limit=endpoint.limit)
        self._at, self._jar, self._id, self._row = endpoint, jar, task.session_id, seeded.row
        self._urls = {name: endpoint.url.joinpath(quote(name, safe=""), encoded=True) for name in self._names}

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        reply = await self._post(self._urls[name], arguments, Stage.CALL, self._at.call_timeout_s, key=key)
        if reply.status == 200:
            return ToolResult(reply.text, done="X-Gymwire-Done" in reply.headers)
        code = reply.headers.get("X-Gymwire-Code", "")
        if code in POLICY_CODES or (not self._at.ours and _is_a_result(reply.status)):
            return ToolResult(reply.text, is_error=reply.status >= 400)
        if code == Code.SESSION_FAILED:
            raise await self._why(Stage.CALL)
        raise _failed(reply, Stage.CALL)

    async def _why(self, stage: Stage) -> SessionFailed:
        """The kind and reason of a failed session: a tool's answer carries only what the policy may read."""
        try:
            await self._verify((), Ending.CUT)
        except SessionFailed as failure:
            return SessionFailed(failure.kind, failure.reason, stage)
        return SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, "the session failed without a reason", stage)

    async def _end_turn(self) -> str | None:
        if not self._at.has_end_turn:
            return None
        url, limit_s = self._at.url / "end_turn", self._at.call_timeout_s
        reply = await self._post(url, b"{}", Stage.END_TURN, limit_s, key=self._next_key(), control=True)
        if reply.status != 200:
            raise _failed(reply, Stage.END_TURN)
        prompt = _object(reply, Stage.END_TURN).get("prompt")
        return prompt if isinstance(prompt, str) else None

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        body = self._row | {"response": response_of(messages, ending)}
        text = wirejson.dumps(body)
        reply = await self._post(self._at.url / "verify", text, Stage.VERIFY, self._at.verify_timeout_s, control=True)
        if reply.status != 200:
            raise _failed(reply, Stage.VERIFY)
        return _outcome(_object(reply, Stage.VERIFY), ending)

    async def _close(self) -> None:
        if not self._at.ours or self._lost():
            return  # others reclaim by their idle limit; most have no such route
        body = orjson.dumps({"resources_session_id": self._id, "episode_id": {"rollout_id": self._id, "attempt": 0}})
        await self._post(self._at.url / "close_session", body, Stage.TRANSPORT, 5.0)

    def _lost(self) -> bool:
        return self.failure is not None and self.failure.kind.startswith(("transport_", "session_"))

    async def _post(
        self,
        url: URL,
        body: bytes,
        stage: Stage,
        timeout_s: float,
        *,
        key: str = "",
        control: bool = False,
    ) -> Reply:
        headers = dict(_JSON_HEADERS)
        if self._jar.header:
            headers[hdrs.COOKIE] = self._jar.header
        if self._at.ours:
            if key:
                headers["Idempotency-Key"] = key
            if control:
                headers["X-Gymwire-Control"] = "true"
                headers["X-Gymwire-Masked"] = "flag"
        reply = await _delivered(self._at, url, body, headers, timeout_s, stage)
        self._jar.merge(reply)
        return reply


async def _delivered(
    at: Endpoint, url: URL, body: bytes, headers: Mapping[str, str], timeout_s: float, stage: Stage
) -> Reply:
    """Post; toward servers of ours nothing can act twice: what is no repeat by itself carries a key."""
    pool = at.pool

    async def post() -> Reply:
        return await pool.post(url, body, headers, timeout_s, stage)

    return await delivered(post, stage, repeatable=at.ours, patience_s=pool.patience_s)


async def seed_nemo_gym(endpoint: Endpoint, task: Task) -> NemoGymSession:
    """Begin an episode. Raises `Busy`, `WrongRequest` or `SessionFailed`."""
    jar = CookieJar()
    headers = dict(_JSON_HEADERS)
    if endpoint.ours:
        headers["Idempotency-Key"] = task.session_id
    text = wirejson.dumps(_seed_body(endpoint, task))
    url = endpoint.url / "seed_session"
    reply = await _delivered(endpoint, url, text, headers, endpoint.seed_timeout_s, Stage.SEED)
    if reply.status != 200:
        raise _seed_refused(reply)
    jar.merge(reply)
    return NemoGymSession(endpoint, jar, task, _read_seed(endpoint, task, _object(reply, Stage.SEED)))


def _seed_body(endpoint: Endpoint, task: Task) -> Json:
    if not endpoint.ours:
        if task.row is None:
            raise WrongRequest(f"{endpoint.url} has no rows of its own to offer; give it one with row= (--rows).")
        return task.row.to_json()
    asked: Json = {"split": task.split, "index": task.index, "seed": task.seed}
    if task.row is not None:
        asked["row"] = task.row.to_json()
    return {key: value for key, value in asked.items() if value is not None}


def _read_seed(endpoint: Endpoint, task: Task, answer: Json) -> _Seeded:
    try:
        if isinstance(params := answer.get(PARAMS_KEY), Mapping):
            row = Row.from_json({PARAMS_KEY: params})
        elif task.row is not None:
            row = task.row
        else:
            raise RowError("it names no prompt")
    except RowError as error:
        reason = f"the seed's answer cannot be read: {error}"
        raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, Stage.SEED) from None
    repeated = {PARAMS_KEY: {"input": []}} if endpoint.ours or task.row is None else task.row.to_json()
    tools = list(endpoint.tools) if row.tools is None else endpoint.marked(row.tools)
    return _Seeded(list(row.prompt), tools, repeated)


def _seed_refused(reply: Reply) -> Exception:
    code = reply.headers.get("X-Gymwire-Code", "")
    said = _said(reply)
    if code in (Code.AT_CAPACITY, Code.DRAINING, Code.RATE_LIMITED) or (not code and reply.status in (429, 503)):
        return Busy(said["error"], _seconds(reply.headers.get(hdrs.RETRY_AFTER)))
    if code and reply.status < 500 and code not in (Code.SESSION_LOST, Code.SESSION_EXPIRED):
        return WrongRequest(said["error"])
    return _failed(reply, Stage.SEED)


def _is_a_result(status: int) -> bool:
    """Whether a stranger's tool said it. Some errors are said to whoever asks, by what stands before every tool."""
    return 200 <= status < 300 or (400 <= status < 500 and status not in _BEFORE_TOOLS)


def _failed(reply: Reply, stage: Stage) -> SessionFailed:
    """The failure that an answer means which is neither a result nor the policy's mistake."""
    said = _said(reply)
    if code := reply.headers.get("X-Gymwire-Code"):
        return failure_of(code, said["error"], stage, kind=said["kind"], reason=said["reason"])
    reason = said["reason"] or f"HTTP {reply.status}: {said['error']}"
    return SessionFailed(said["kind"] or FailureKind.PROVIDER_UNAVAILABLE, reason, stage)


def _said(reply: Reply) -> dict[str, str]:
    """What an error answer says: our servers' JSON fields, or its text."""
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        value = None
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    error = fields.get("error") or fields.get("detail") or reply.text
    return {
        "error": str(error)[:500],
        "kind": str(fields.get("failure_kind") or ""),
        "reason": str(fields.get("failure_reason") or ""),
    }


def _seconds(text: str | None) -> float | None:
    try:
        return max(float(text or ""), 0.0)
    except ValueError:
        return None


def _object(reply: Reply, stage: Stage) -> Json:
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        reason = f"the answer is no JSON object: {reply.text[:80]!r}"
        raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, stage)
    return value


def _outcome(answer: Json, ending: Ending) -> Outcome:
    """A failure that is named is one, whether or not the server flags it too: its placeholder 0 is no score."""
    nested, kind = answer.get("instance_config"), answer.get("failure_kind")
    flagged = answer.get("mask_sample") or (isinstance(nested, Mapping) and nested.get("mask_sample"))
    if flagged or kind:
        reason = str(answer.get("failure_reason") or "masked without a reason")
        raise SessionFailed(str(kind or FailureKind.PROVIDER_UNAVAILABLE), reason, Stage.VERIFY)
    reward, parts = answer.get("reward"), answer.get("reward_components")
    if isinstance(parts, Mapping) and not _sums(parts, reward):
        parts = None  # other servers' components may be anything
    return read_outcome(reward, answer.get("ending") or ending, parts, answer.get("transcript_disagreements"))


def _sums(parts: Mapping[str, Any], reward: object) -> bool:
    numbers = [value for value in parts.values() if isinstance(value, int | float)]
    return (
        len(numbers) == len(parts)
        and isinstance(reward, int | float)
        and isclose(fsum(numbers), reward, rel_tol=1e-9, abs_tol=1e-9)
    )
