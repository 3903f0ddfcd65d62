"""The client's transcript beside the server's own log: reading it, and saying where the two disagree."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from .answers import sanitize
from .failures import one_line
from .types import CallRecord, Json, Message, text_of
from .wording import counted

MAX_DISAGREEMENTS = 10
MAX_NAME_CHARACTERS = 80
#: A shorter text is no cut one: it would agree with too much.
SHORTEST_CUT = 40


def chat_messages(items: Iterable[Any]) -> list[Message]:
    """Chat messages from chat messages or Responses API items (which may be mixed).

    Token ids and log-probabilities are left behind; consecutive function calls become one assistant message.
    """
    messages: list[Message] = []
    calls: list[Any] | None = None  # of the message at the end, while function calls follow each other
    for item in items:
        if not isinstance(item, Mapping):
            continue
        kind = item.get("type")
        if kind == "function_call":
            calls = _calls_at_the_end(messages) if calls is None else calls
            calls.append(_call_of(item))
        elif kind == "function_call_output":
            output = item.get("output")
            text = output if isinstance(output, str) else text_of(output)
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
            calls = None
        elif isinstance(item.get("role"), str):
            messages.append({key: value for key, value in item.items() if key in _MESSAGE_KEYS})
            calls = None
    return messages


_MESSAGE_KEYS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


def _call_of(item: Mapping[str, Any]) -> Message:
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": item.get("call_id"), "type": "function", "function": function}


def _calls_at_the_end(messages: list[Message]) -> list[Any]:
    """The list that takes the next call: the Responses form says a turn's text and its calls in separate items."""
    if not messages or messages[-1].get("role") != "assistant":
        messages.append({"role": "assistant", "content": ""})
    calls = messages[-1]["tool_calls"] = list(_calls_of(messages[-1]))
    return calls


def _calls_of(message: Mapping[str, Any]) -> list[Any]:
    calls = message.get("tool_calls")
    return calls if isinstance(calls, list) else []


def calls_in(message: Mapping[str, Any]) -> list[Json]:
    """A message's tool calls that are some; a client or a row may have put anything there."""
    calls = [call for call in _calls_of(message) if isinstance(call, Mapping)]
    return [dict(call) for call in calls if isinstance(call.get("function"), Mapping)]


def disagreements(
    messages: Sequence[Message], calls: Sequence[CallRecord], read_only: Container[str] = ()
) -> tuple[str, ...]:
    """Where the client's messages and the server's log differ; empty when the client sent no calls at all.

    Calls that never reach a server (a name that was not listed, arguments that were no object) are the
    client's own affair; a call or a result that only one side knows is said. Calls of `read_only` tools that
    follow each other may have arrived in any order.
    """
    claimed = _claimed(messages)
    if not claimed:
        return ()
    found: list[str] = []
    taken: set[int] = set()
    start = end = 0  # where the next call may be claimed at the earliest, and where the claims that were found end
    any_order = False
    for number, call in enumerate(calls, 1):
        if len(found) == MAX_DISAGREEMENTS:  # each that is looked for in vain costs a walk through all that is claimed
            return tuple(found)
        if not (any_order and call.name in read_only):
            start = end
        any_order = call.name in read_only
        while start in taken:
            start += 1
        index = _find(claimed, start, taken, call)
        name = one_line(call.name, MAX_NAME_CHARACTERS)
        if index is None:
            found.append(f"call {number} ({name}) is in the server's log but not in the transcript")
            continue
        taken.add(index)
        end = max(end, index + 1)
        shown = claimed[index][2]
        if shown is not None and not _same_text(shown, call.result.plain()):
            found.append(f"the result of call {number} ({name}) differs from the server's")
    known = {call.name for call in calls}
    made = sum(1 for name, said, _ in claimed if name in known and isinstance(said, Mapping))
    logged = len(calls)
    if made > logged:
        found.append(f"the transcript claims {counted(made, 'call')}, the server logged {logged}")
    return tuple(found[:MAX_DISAGREEMENTS])


def _claimed(messages: Sequence[Message]) -> list[tuple[str, Any, str | None]]:
    """(name, arguments, result text or None) of every call in the messages, in order."""
    results = {
        str(message.get("tool_call_id")): text_of(message.get("content"))
        for message in messages
        if message.get("role") == "tool"
    }
    claimed = []
    for message in messages:
        for call in calls_in(message):
            function, text = call["function"], results.get(str(call.get("id")))
            claimed.append((str(function.get("name")), _decoded(function.get("arguments")), text))
    return claimed


def _find(
    claimed: Sequence[tuple[str, Any, str | None]], start: int, taken: Container[int], call: CallRecord
) -> int | None:
    arguments = call.arguments or {}
    for index in range(start, len(claimed)):
        name, said, _ = claimed[index]
        if name == call.name and (said or {}) == arguments and index not in taken:
            return index
    return None


def _decoded(arguments: Any) -> Any:
    """Arguments as an object, as the adapters read them: nothing means `{}`, a double encoding is unwrapped once."""
    for _ in range(2):
        if not isinstance(arguments, str):
            break
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return None
    return {} if arguments is None else arguments


def _same_text(shown: str, logged: str) -> bool:
    """Equal but for control characters; or the client cut a long result: its beginning or end must be the server's."""
    if shown == logged:
        return True
    shown, logged = sanitize(shown), sanitize(logged)
    if shown == logged:
        return True
    if not SHORTEST_CUT <= len(shown) < len(logged):
        return False
    edge = min(len(shown), 200) // 4
    return shown[:edge] == logged[:edge] or shown[-edge:] == logged[-edge:]
