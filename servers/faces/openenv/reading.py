"""Reading OpenEnv's messages (0.10.0) without losing a digit.

A call's arguments are checked to be JSON, and handed on as the slice of text that was sent: integers of any
size, lone surrogates and repeated keys reach the tool's own check.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ... import wirejson
from ...seeding import SeedRequest
from ...session import MAX_ID_CHARACTERS as MAX_KEY_CHARACTERS
from ...types import Ending, Json, Message, Row, RowError

NO_ARGUMENTS = b"{}"
MAX_ID_CHARACTERS = 255
#: Fields of a message, and of the objects in it that are read one by one.
MAX_MEMBERS = 1_000


class WireError(Exception):
    """A message that is answered by an error of OpenEnv's: a code of its own, a text, further fields."""

    def __init__(self, code: str, text: str, **details: Any) -> None:
        super().__init__(text)
        self.code, self.text, self.details = code, text, details


def invalid_json(why: str) -> WireError:
    return WireError("INVALID_JSON", f"Invalid JSON: {why}")


def invalid(location: Sequence[str], why: str, kind: str = "value_error", given: Any = None) -> WireError:
    """A message whose fields do not fit: where, and what was expected."""
    where = ".".join(location)
    shown = given if given is None or isinstance(given, int | float) else repr(given)[:80]
    errors = [{"type": kind, "loc": list(location), "msg": why, "input": shown}]
    text = f"Invalid message: {where}: {why}" if where else f"Invalid message: {why}"
    return WireError("VALIDATION_ERROR", text, errors=errors)


def forbid_others(given: Mapping[str, Any], known: frozenset[str], location: Sequence[str] = ()) -> None:
    for name in given:
        if name not in known:
            raise invalid([*location, name], "Extra inputs are not permitted", "extra_forbidden")


class Members(dict[str, tuple[Any, int, int]]):
    """An object's members: the value, and where its text begins and ends."""

    def value(self, name: str, default: Any = None) -> Any:
        found = self.get(name)
        return default if found is None else found[0]

    def plain(self) -> Json:
        """The object, decoded."""
        return {name: item[0].plain() if isinstance(item[0], Members) else item[0] for name, item in self.items()}


def read_text(raw: bytes) -> str:
    """A body as text. Raises `WireError`."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise invalid_json(f"not UTF-8 at byte {error.start}") from None


_NOT_SPACE = re.compile(r"[^ \t\r\n]")
#: A string that does not end is one token too: to look for its end again from every quote in it is quadratic.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_scan = json.JSONDecoder().raw_decode
_scan_long_numbers = json.JSONDecoder(parse_int=str).raw_decode  # int() refuses more than 4,300 digits


def read_object(text: str, path: Sequence[str] = ()) -> Members:
    """A message as an object; along `path`, objects inside it are given as `Members` too. Raises `WireError`."""
    start = _after_space(text, 0)
    try:
        if not text.startswith("{", start):
            value, end = _value(text, start)
        else:
            value, end = _members(text, start, path)
        if _after_space(text, end) != len(text):
            raise invalid_json(f"extra data at character {end}")
    except json.JSONDecodeError as error:
        raise invalid_json(f"{error.msg} at character {error.pos}") from None
    except IndexError:
        raise invalid_json("the text ends too early") from None
    if not isinstance(value, Members):
        raise invalid((), "Input should be an object", "dict_type", value)
    return value


def _members(text: str, at: int, path: Sequence[str]) -> tuple[Members, int]:
    """The object whose brace stands at `at`, and where it ends."""
    found = Members()
    at = _after_space(text, at + 1)
    if text[at] == "}":
        return found, at + 1
    while True:
        if text[at] != '"':
            raise json.JSONDecodeError("expecting a name in double quotes", text, at)
        name, at = _scan(text, at)
        at = _after_space(text, at)
        if text[at] != ":":
            raise json.JSONDecodeError("expecting ':'", text, at)
        start = _after_space(text, at + 1)
        if path and name == path[0] and text[start] == "{":
            value, at = _members(text, start, path[1:])
        else:
            value, at = _value(text, start)
        found[name] = (value, start, at)
        if len(found) > MAX_MEMBERS:
            raise invalid((), f"an object here may have {MAX_MEMBERS} fields", "too_long")
        at = _after_space(text, at)
        if text[at] == "}":
            return found, at + 1
        if text[at] != ",":
            raise json.JSONDecodeError("expecting ',' or '}'", text, at)
        at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _NOT_SPACE.search(text, at)
    return len(text) if found is None else found.start()


def _value(text: str, at: int) -> tuple[Any, int]:
    try:
        return _scan(text, at)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _scan_long_numbers(text, at)
    except RecursionError:  # the policy may nest as deep as it likes; the tool's check says what is wrong with it
        return None, _end_of_nested(text, at)


def _end_of_nested(text: str, at: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in "[{":
            depth += 1
        elif token[0] in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    raise IndexError


class Action(NamedTuple):
    """A step: a call with the JSON text of its arguments; without a tool, the wish to list them."""

    tool: str | None
    arguments: bytes = NO_ARGUMENTS
    key: str | None = None
    control: bool = False
    decoded: Any = None  # a control call's arguments


_HEAD = re.compile(
    r'\{"type": ?"step", ?"data": ?\{"type": ?"call_tool", ?"tool_name": ?"([^"\\\x00-\x1f]*)", ?"arguments": ?(?=\{)'
)
_KEY = re.compile(r', ?"metadata": ?\{"idempotency_key": ?"([^"\\\x00-\x1f]{1,512})"\}\}\}')


def usual_step(text: str) -> tuple[str, bytes, str | None] | None:
    """Tool, arguments and key of a call as every client writes it; None for whatever else the message may be.

    Between head and tail stands one JSON object, so no other reading of the text is possible.
    """
    head = _HEAD.match(text)
    if head is None or text.endswith("true}}}"):
        return None
    start = head.end()
    try:
        end = _scan(text, start)[1]
    except (ValueError, RecursionError):
        return None
    if text[end:] == "}}":
        return head[1], text[start:end].encode(), None
    key = _KEY.fullmatch(text, end)
    return None if key is None else (head[1], text[start:end].encode(), key[1])


CONTROLS = frozenset(("verify", "end_turn"))


def usual_control(text: str) -> Action | None:
    """A control call as clients write it; its transcript, which may be long, is decoded once and nowhere copied."""
    if not text.endswith("true}}}") or _HEAD.match(text) is None:
        return None
    try:
        message = wirejson.loads(text)
    except ValueError:
        return None
    match message:
        case {
            "type": "step",
            "data": {
                "type": "call_tool",
                "tool_name": "verify" | "end_turn" as tool,
                "arguments": arguments,
                "metadata": {"control": True, **others},
                **fields,
            },
            **members,
        } if not (others or fields or members):
            return Action(tool, control=True, decoded=arguments)
    return None


_ACTION_FIELDS = {
    "list_tools": frozenset(("type", "metadata")),
    "call_tool": frozenset(("type", "metadata", "tool_name", "arguments")),
}


def read_action(text: str, data: Any, location: Sequence[str]) -> Action:
    """An action from its members. Raises `WireError`."""
    if not isinstance(data, Members):
        raise invalid(location, "Input should be an object", "dict_type", data)
    kind = data.value("type", "call_tool")
    known = _ACTION_FIELDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise invalid([*location, "type"], "Input should be 'call_tool' or 'list_tools'", "literal_error", kind)
    forbid_others(data, known, location)
    metadata = data.value("metadata", {})
    if not isinstance(metadata, Mapping):
        raise invalid([*location, "metadata"], "Input should be an object", "dict_type", metadata)
    if kind == "list_tools":
        return Action(None)
    return read_call(text, data, "tool_name", metadata, location)


def read_call(
    text: str, data: Members, name_field: str, metadata: Mapping[str, Any], location: Sequence[str]
) -> Action:
    """A call; whatever its arguments are is the policy's affair, and goes to the tool's check."""
    name, key = data.value(name_field), metadata.get("idempotency_key")
    if not isinstance(name, str):
        kind = "string_type" if name_field in data else "missing"
        raise invalid([*location, name_field], "Input should be a string", kind, name)
    if key is not None and not (isinstance(key, str) and len(key) <= MAX_KEY_CHARACTERS):
        why = f"Input should be a string of at most {MAX_KEY_CHARACTERS} characters"
        raise invalid([*location, "metadata", "idempotency_key"], why, "string_type", key)
    found = data.get("arguments")
    arguments, decoded = NO_ARGUMENTS, None
    if found is not None and not text.startswith("null", found[1]):
        arguments, decoded = text[found[1] : found[2]].encode(), found[0]
    return Action(name, arguments, key or None, metadata.get("control") is True, decoded)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a reset asked for."""

    request: SeedRequest
    episode_id: str | None = None
    #: The client can go on over another socket, and names this reset so that a repeat begins nothing new.
    resume: str | None = None


def read_reset(data: Any, location: Sequence[str] = ("data",)) -> Beginning:
    """`seed`, `episode_id`, and which row: `row`, or `split` and `index`. Other fields are nobody's here."""
    if not isinstance(data, Mapping):
        raise invalid(location, "Input should be an object", "dict_type", data)
    episode_id = _text(data, "episode_id", location)
    request = SeedRequest(
        row=_row(data.get("row"), location),
        split=_text(data, "split", location),
        index=_whole_number(data, "index", location),
        seed=_whole_number(data, "seed", location),
        episode_id=episode_id or "",
    )
    return Beginning(request, episode_id, _text(data, "resume", location))


def read_resume(data: Any) -> str:
    """The handle of the session to go on with."""
    handle = data.get("session") if isinstance(data, Mapping) else None
    if not isinstance(handle, str) or len(handle) > MAX_ID_CHARACTERS:
        raise invalid(("data", "session"), "Input should be the handle that reset answered", "string_type", handle)
    return handle


def _row(raw: Any, location: Sequence[str]) -> Row | None:
    try:
        return None if raw is None else Row.from_json(raw)
    except RowError as error:
        raise invalid([*location, "row"], str(error)) from None


def _text(data: Mapping[str, Any], name: str, location: Sequence[str]) -> str | None:
    value = data.get(name)
    if value is None or (isinstance(value, str) and len(value) <= MAX_ID_CHARACTERS):
        return value
    why = f"Input should be a string of at most {MAX_ID_CHARACTERS} characters"
    raise invalid([*location, name], why, "string_type", value)


def _whole_number(data: Mapping[str, Any], name: str, location: Sequence[str]) -> int | None:
    return None if data.get(name) is None else whole_number(data[name], [*location, name])


def whole_number(value: Any, location: Sequence[str]) -> int:
    """A number of at least 0 without a fraction: JSON tells 3.0 and 3 not apart. Raises `WireError`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise invalid(location, "Input should be a whole number of at least 0", "greater_than_equal", value)


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    messages: Sequence[Message]
    ending: Ending


def read_verify(arguments: Any) -> VerifyRequest:
    """Arguments of the control call verify: `messages` or `answer`, and `ending`."""
    location = ("data", "arguments")
    given = {} if arguments is None else arguments
    if not isinstance(given, Mapping):
        raise invalid(location, "Input should be an object", "dict_type", given)
    forbid_others(given, frozenset(("messages", "answer", "ending")), location)
    messages, answer = given.get("messages"), given.get("answer")
    if messages is not None and not isinstance(messages, list):
        raise invalid([*location, "messages"], "Input should be a list", "list_type", messages)
    if answer is not None and not isinstance(answer, str):
        raise invalid([*location, "answer"], "Input should be a string", "string_type", answer)
    ending = given.get("ending") or "finished"
    if ending not in ("finished", "cut"):
        raise invalid([*location, "ending"], "Input should be 'finished' or 'cut'", "literal_error", ending)
    if messages is None:
        messages = [{"role": "assistant", "content": answer}] if answer is not None else []
    return VerifyRequest(messages, Ending(ending))
