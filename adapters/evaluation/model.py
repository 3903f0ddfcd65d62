"""A chat model behind an OpenAI-compatible endpoint: one request a turn, repeated while the endpoint is in trouble.

What the model wrote is an `Answer`, however odd it is. What its endpoint did is one of three errors: `ContextFull`
(the conversation no longer fits: the episode is cut), `ModelFailed` (this episode has no answer: it is masked, never
scored as 0) and `ModelRefused` (no request will ever be answered: a wrong key, no such model, a spent quota).
The key is sent as a bearer token and never appears in what these errors say.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import uniform
from typing import Any

import aiohttp
import orjson
from yarl import URL

from ...servers.failures import one_line
from ...servers.types import FailureKind, Json, Message, Tool
from ...servers.wording import counted
from ..patience import Undelivered
from ..pool import CONNECT_TIMEOUT_S, Pool, unreachable
from .answer import Answer, Unreadable, answer_of
from .stream import Assembly, Broken, data_lines

#: The most that one answer may hold; `max_tokens` is the limit that a user sets.
MAX_ANSWER_BYTES = 64_000_000
MAX_ERROR_BYTES = 1_000_000
#: Pauses before a repeat double from the first to the last of these.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
#: An endpoint that asks to wait longer than this is given up.
LONGEST_RETRY_AFTER_S = 600.0
SAID_CHARACTERS = 500
DRAIN_S = 0.5
_REPEATED = frozenset((408, 409, 425, 429))
_FATAL = frozenset((401, 402, 403, 404, 405))
_OVERFLOW = re.compile(
    r"context[ _]?(length|window|size)|maximum context|max_model_len|prompt is too long|too many (input )?tokens"
    r"|input (is|length)[^.]* (too long|exceeds)|reduce the length",
    re.IGNORECASE,
)


class ContextFull(Exception):
    """The conversation does not fit the model's context any more."""


class ModelFailed(Exception):
    """The endpoint did not answer this request. `kind` is a `FailureKind`; `rejected`: it never will."""

    def __init__(self, kind: str, reason: str, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.rejected = str(kind), reason, rejected


class ModelRefused(Exception):
    """The endpoint will answer no request at all; one sentence that says why."""


class _Trouble(Exception):
    """What may pass: the request is repeated."""

    def __init__(self, kind: FailureKind, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.kind, self.reason, self.retry_after_s = kind, reason, retry_after_s


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is sent with every request; what is None is left to the endpoint."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def body(self) -> Json:
        named = {"temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens}
        said = {key: value for key, value in named.items() if value is not None}
        return said | ({"stop": list(self.stop)} if self.stop else {})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request may take, and how often it is repeated."""

    timeout_s: float = 600.0
    retries: int = 5
    first_pause_s: float = FIRST_PAUSE_S


class ChatModel:
    """One model on one endpoint, for any number of episodes at once. Close it, or use it as a context manager."""

    def __init__(
        self,
        name: str,
        base_url: URL,
        *,
        key: str | None = None,
        sampling: Sampling | None = None,
        patience: Patience | None = None,
        stream: bool = True,
    ) -> None:
        self.name, self.url = name, chat_url(base_url)
        self._asked = self.url.with_query(base_url.query)  # told nowhere: some endpoints take their key there
        self.sampling, self.patience, self.stream = sampling or Sampling(), patience or Patience(), stream
        #: Requests that were answered, and repeats that were made.
        self.answered = self.repeated = 0
        self._key = key
        self._pool = Pool(ours=False, token=key)

    async def turn(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int | None = None) -> Answer:
        """The model's next turn. Raises `ContextFull`, `ModelFailed` or `ModelRefused`."""
        body = encoded(self._request(messages, tools, seed))
        repeats = 0
        while True:
            try:
                answer = await self._in_time(body)
            except _Trouble as trouble:
                if repeats == self.patience.retries or (trouble.retry_after_s or 0.0) > LONGEST_RETRY_AFTER_S:
                    raise ModelFailed(trouble.kind, _after(trouble, repeats)) from None
                await asyncio.sleep(self._pause_s(trouble, repeats))
                repeats += 1
                self.repeated += 1
                continue
            self.answered += 1
            return answer

    def _request(self, messages: Sequence[Message], tools: Sequence[Tool], seed: int | None) -> Json:
        body: Json = {"model": self.name, "messages": list(messages)}
        if tools:
            body["tools"] = [tool.as_chat() for tool in tools]
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if seed is not None:
            body["seed"] = seed
        return body | self.sampling.body() | dict(self.sampling.extra_body)

    def _pause_s(self, trouble: _Trouble, repeats: int) -> float:
        own = min(self.patience.first_pause_s * 2**repeats, LONGEST_PAUSE_S) * uniform(0.5, 1.5)
        return own if trouble.retry_after_s is None else max(trouble.retry_after_s, own)

    async def _in_time(self, body: bytes) -> Answer:
        limit_s = self.patience.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._ask(body)
        except aiohttp.ConnectionTimeoutError:
            reason = f"no connection to {self.url.origin()} within {CONNECT_TIMEOUT_S:g} s"
            raise _Trouble(FailureKind.TRANSPORT_UNREACHABLE, reason) from None
        except TimeoutError:
            reason = f"no whole answer from {self.url.origin()} within {limit_s:g} s"
            raise _Trouble(FailureKind.AGENT_TIMEOUT, reason) from None
        except aiohttp.ClientConnectorError as error:
            met = unreachable(self.url, error)
            raise _Trouble(met.kind, str(met)) from None
        except (aiohttp.ClientError, ConnectionError, Undelivered) as error:
            reason = f"{self.url.origin()} broke the connection ({type(error).__name__})"
            raise _Trouble(FailureKind.TRANSPORT_PEER_DROP, reason) from None

    async def _ask(self, body: bytes) -> Answer:
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream" if self.stream else "*/*"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        async with self._pool.http().post(
            self._asked, data=body, headers=headers, timeout=timeout, allow_redirects=False
        ) as reply:
            if reply.status != 200:
                raise self._error(reply.status, await _beginning(reply), reply.headers)
            chunks = _bounded(reply)
            if reply.content_type == "text/event-stream":
                return await self._streamed(chunks)
            return self._whole(b"".join([chunk async for chunk in chunks]))

    async def _streamed(self, chunks: AsyncIterator[bytes]) -> Answer:
        assembly = Assembly()
        try:
            async for line in data_lines(chunks):
                if (error := assembly.add(line)) is not None:
                    raise self._error(_status_of(error), encoded({"error": error}), {})
            answer = assembly.answer()
            await _drained(chunks)
            return answer
        except Broken as error:
            raise _Trouble(FailureKind.TRANSPORT_PEER_DROP, self._shown(str(error))) from None

    def _whole(self, body: bytes) -> Answer:
        try:
            return answer_of(body)
        except Unreadable as error:
            if (said := error_in(body)) is not None:
                raise self._error(_status_of(said), encoded({"error": said}), {}) from None
            raise _Trouble(FailureKind.AGENT_REQUEST_FAILED, self._shown(str(error))) from None

    # ---- errors

    def _error(self, status: int, body: bytes, headers: Mapping[str, str]) -> Exception:
        """What an answer that is no 200 means."""
        code, text = map(self._shown, said_in(body))
        said = f"HTTP {status}{f' {code}' if code else ''}: {text}"
        if 300 <= status < 400:
            place = self._shown(headers.get("Location", "elsewhere"))
            return ModelRefused(f"{self.url} redirects to {place}; give that place with --base-url.")
        if status in (400, 413, 422) and (code == "context_length_exceeded" or status == 413 or _OVERFLOW.search(text)):
            return ContextFull(said)
        if code == "insufficient_quota" or status in _FATAL:
            return ModelRefused(f"the endpoint {self.url} refuses: {said}{_hint(status, self._key)}")
        said = f"{self.url.origin()} answers {said}"
        if status in _REPEATED or status >= 500:
            kind = FailureKind.PROVIDER_QUOTA_EXHAUSTED if status == 429 else FailureKind.AGENT_REQUEST_FAILED
            return _Trouble(kind, said, retry_after_s(headers))
        return ModelFailed(FailureKind.AGENT_REQUEST_FAILED, said, rejected=True)

    def _shown(self, text: str) -> str:
        """As much as is told, without the key; it is struck first, so that a cut leaves no part of it."""
        return one_line(text.replace(self._key, "[key]") if self._key else text, SAID_CHARACTERS)

    # ---- life

    async def close(self) -> None:
        await self._pool.close()

    async def __aenter__(self) -> ChatModel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _bounded(reply: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    total = 0
    async for chunk in reply.content.iter_any():
        total += len(chunk)
        if total > MAX_ANSWER_BYTES:
            reason = f"an answer of more than {MAX_ANSWER_BYTES:,} bytes; --max-tokens limits it"
            raise ModelFailed(FailureKind.AGENT_REQUEST_FAILED, reason)
        yield chunk


async def _beginning(reply: aiohttp.ClientResponse) -> bytes:
    """The body of an error, as far as anybody reads one."""
    parts, total = [], 0
    async for chunk in reply.content.iter_any():
        parts.append(chunk)
        total += len(chunk)
        if total > MAX_ERROR_BYTES:
            break
    return b"".join(parts)


async def _drained(chunks: AsyncIterator[bytes]) -> None:
    """Read what follows the answer, so that its connection can be used again. A server may also keep it open, break it
    or say no end of things: the answer is whole."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
    except (TimeoutError, aiohttp.ClientError, ConnectionError, ModelFailed):
        return


def chat_url(base_url: URL) -> URL:
    """Where chat completions are asked for, without a query; the base may be given with or without that path."""
    path = base_url.path.rstrip("/")
    return base_url.with_path(path if path.endswith("/chat/completions") else f"{path}/chat/completions")


def encoded(body: Json) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # integers beyond 64 bits, half of a surrogate pair
        return json.dumps(body).encode()


def said_in(body: bytes) -> tuple[str, str]:
    """(code, message) of an error's body, in the forms in which endpoints write it."""
    text = body.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return "", " ".join(text.split()) or "(no text)"
    inner = value.get("error", value) if isinstance(value, Mapping) else value
    if not isinstance(inner, Mapping):
        return "", str(inner)
    message = inner.get("message") or inner.get("detail") or inner
    return _word(inner.get("code")) or _word(inner.get("type")), " ".join(str(message).split())


def error_in(body: bytes) -> Any:
    """The error that an endpoint answered with a status of 200, if it did."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value.get("error") or None if isinstance(value, Mapping) else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) and not value.isdigit() else ""


def _status_of(error: Any) -> int:
    """The status that an error inside a stream names, else 500: it may pass."""
    for key in ("code", "status", "status_code"):
        value = error.get(key) if isinstance(error, Mapping) else None
        if isinstance(value, int | str) and re.fullmatch("[45][0-9]{2}", str(value)):
            return int(value)
    return 400 if _OVERFLOW.search(str(error)) else 500


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, as an endpoint asks: in seconds, in milliseconds, or until a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("Retry-After", 1.0)):
        text = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text):
            return float(text) / unit
    try:
        until = parsedate_to_datetime(headers.get("Retry-After", ""))
    except (ValueError, OverflowError):  # of a year or a zone that no clock has
        return None
    until = until.replace(tzinfo=until.tzinfo or UTC)
    return max((until - datetime.now(UTC)).total_seconds(), 0.0)


def _after(trouble: _Trouble, repeats: int) -> str:
    return f"{trouble.reason} (after {counted(repeats, 'repeat')})"


def _hint(status: int, key: str | None) -> str:
    if status == 401:
        return (
            ". Is the key right? It is read from the variable that --api-key-env names."
            if key
            else (". It wants a key: put one into OPENAI_API_KEY, or name another variable with --api-key-env.")
        )
    return ". Are --base-url (with its /v1) and --model right?" if status == 404 else ""
