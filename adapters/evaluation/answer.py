"""One turn as a chat endpoint answered it, before anybody acts on it. However odd it is, reading it never guesses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...servers.results import clean_text
from ...servers.types import Json, text_of

#: What servers name an answer that they could not finish.
BROKEN_OFF = ("error", "abort")
#: What an error quotes of an answer; whoever shows it strikes keys first, and cuts it then.
MOST_QUOTED = 10_000
#: A larger count of tokens is none.
MOST_TOKENS = 1 << 53


class Unreadable(Exception):
    """The endpoint's answer is no chat completion."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counts them; None where it does not say."""

    prompt: int | None = None
    completion: int | None = None
    reasoning: int | None = None


@dataclass(frozen=True, slots=True)
class NativeCall:
    """A tool call as the endpoint handed it over; `arguments` is JSON text, or what stood in its place."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model said. `refusal` marks text from the endpoint's own field for it."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[NativeCall, ...] = ()
    finish_reason: str = ""
    usage: Usage = Usage()
    refusal: bool = False


def answer_of(body: bytes) -> Answer:
    """A completion that came in one piece. Raises `Unreadable`."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Unreadable(f"the answer is no JSON: {body[:MOST_QUOTED].decode('utf-8', 'replace')!r}") from None
    choices = value.get("choices") if isinstance(value, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or not isinstance(message, Mapping):
        raise Unreadable(f"the answer has no message: {body[:MOST_QUOTED].decode('utf-8', 'replace')!r}")
    return read_message(message, choice.get("finish_reason"), value.get("usage"))


def read_message(message: Mapping[str, Any], finish_reason: Any, usage: Any) -> Answer:
    """An assistant's message with what stands beside it. Raises `Unreadable` where that is the endpoint's doing."""
    _check(message, finish_reason)
    content, refusal = text_of(message.get("content")), text_of(message.get("refusal"))
    reasoning = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    return Answer(
        clean_text(content or refusal),
        clean_text(reasoning),
        _calls(message),
        clean_text(finish_reason) if isinstance(finish_reason, str) else "",
        read_usage(usage),
        refusal=bool(refusal and not content),
    )


def _check(message: Mapping[str, Any], finish_reason: Any) -> None:
    """No model can choose what stands here: an answer that is none, or half of one, is never scored as its words."""
    if not isinstance(message.get("content"), str | list | None):
        raise Unreadable("the answer's content is neither text nor a list of parts")
    if not isinstance(message.get("tool_calls"), list | None):
        raise Unreadable("the answer's tool_calls are no list")
    if finish_reason in BROKEN_OFF:
        raise Unreadable(f"the endpoint ended its answer with {finish_reason!r}")


def _calls(message: Mapping[str, Any]) -> tuple[NativeCall, ...]:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return tuple(_call(item) for item in calls)
    old = message.get("function_call")  # the form before tools
    return (_call({"function": old}),) if isinstance(old, Mapping) else ()


def _call(item: Any) -> NativeCall:
    inner = item.get("function") if isinstance(item, Mapping) else None
    function: Json = dict(inner) if isinstance(inner, Mapping) else {}
    name, call_id = function.get("name"), item.get("id") if isinstance(item, Mapping) else None
    return NativeCall(
        call_id if isinstance(call_id, str) else "", name if isinstance(name, str) else "", function.get("arguments")
    )


def read_usage(usage: Any) -> Usage:
    if not isinstance(usage, Mapping):
        return Usage()
    details = usage.get("completion_tokens_details")
    reasoning = details.get("reasoning_tokens") if isinstance(details, Mapping) else None
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(reasoning))


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
