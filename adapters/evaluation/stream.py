"""A chat completion that comes as server-sent events, put together again."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from ...servers.types import Json, text_of
from .answer import MOST_QUOTED, Answer, Unreadable, read_message

DONE = "[DONE]"
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


class Broken(Exception):
    """The stream ended before the answer did, or is none."""


async def data_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The payload of every `data:` line; comments and other fields are left out. Ends at `[DONE]`."""
    begun: list[bytes] = []  # of the line that no line feed has ended yet
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        begun.append(first)
        if not others:
            continue
        lines = [b"".join(begun), *others[:-1]]
        begun = [others[-1]]
        for line in lines:
            if (data := _data(line)) == DONE:
                return
            if data:
                yield data
    if (data := _data(b"".join(begun))) and data != DONE:
        yield data


def _data(line: bytes) -> str:
    line = line.removeprefix(BOM_UTF8)  # a stream may begin with it
    return line[5:].strip().decode("utf-8", "replace") if line.startswith(b"data:") else ""


class Assembly:
    """Collects the deltas of the first choice. Texts and arguments are joined, a call's name and id are said once."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self._calls: list[_Call] = []
        self._at: dict[Any, _Call] = {}  # the last call of each place
        self._last: Any = None  # where a piece without an index belongs
        self._finish_reason: Any = None
        self._usage: Any = None

    def add(self, data: str) -> Any:
        """Take one event; answers the error that it carries, if it does. Raises `Broken`."""
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise Broken(f"an event of the stream is no JSON: {data[:MOST_QUOTED]!r}") from None
        if not isinstance(event, Mapping):
            raise Broken(f"an event of the stream is no object: {data[:MOST_QUOTED]!r}")
        if event.get("error"):
            return event["error"]
        if event.get("usage"):
            self._usage = event["usage"]
        for choice in _listed(event, "choices"):
            if not choice.get("index"):
                self._take(choice)
        return None

    def _take(self, choice: Mapping[str, Any]) -> None:
        self._finish_reason = choice.get("finish_reason") or self._finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            if "message" in choice:
                raise Broken("an event of the stream holds a message in place of a delta; --no-stream may do")
            return
        if not isinstance(delta.get("content"), str | list | None):
            raise Broken("the content of an event is neither text nor a list of parts")
        for name, texts in self._texts.items():
            texts.append(text_of(delta.get(name)))
        for piece in _listed(delta, "tool_calls"):
            self._call_at(piece).add(piece)

    def _call_at(self, piece: Mapping[str, Any]) -> _Call:
        """The call that a piece belongs to: by index, else by a new id, else the last one.

        Some endpoints give every call of a turn the same index: a name under another id begins a call there.
        """
        place = piece.get("index")
        if not isinstance(place, int):
            place = piece.get("id") or self._last
            place = place if isinstance(place, str | int) else "first"
        self._last = place
        call = self._at.get(place)
        if call is None or call.ends_before(piece):
            call = self._at[place] = _Call()
            self._calls.append(call)
        return call

    def answer(self) -> Answer:
        """The whole turn. Raises `Broken` where its end never came."""
        if self._finish_reason is None:
            raise Broken("the stream ended before the answer did")
        message: Json = {name: "".join(texts) for name, texts in self._texts.items()}
        message["tool_calls"] = [call.whole() for call in self._calls]
        try:
            return read_message(message, self._finish_reason, self._usage)
        except Unreadable as error:
            raise Broken(str(error)) from None


def _listed(holder: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """The objects of a list. Raises `Broken` where something else stands."""
    items = holder.get(name) or []
    if not isinstance(items, list):
        raise Broken(f"the {name} of an event are no list")
    return (item for item in items if isinstance(item, Mapping))


def _function(piece: Mapping[str, Any]) -> Mapping[str, Any]:
    function = piece.get("function")
    return function if isinstance(function, Mapping) else {}


class _Call:
    """The pieces of one call."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self._arguments: list[str] = []

    def ends_before(self, piece: Mapping[str, Any]) -> bool:
        """Whether a piece names a function under another id. An id alone says nothing: some are new in every piece."""
        named, call_id = _function(piece).get("name"), piece.get("id")
        return bool(self.name and self.id and named and isinstance(call_id, str) and call_id not in ("", self.id))

    def add(self, piece: Mapping[str, Any]) -> None:
        function = _function(piece)
        if isinstance(call_id := piece.get("id"), str):
            self.id = self.id or call_id
        if isinstance(name := function.get("name"), str) and name != self.name:
            self.name += name
        arguments = function.get("arguments")
        if isinstance(arguments, Mapping | list):
            self._arguments.append(json.dumps(arguments))
        elif isinstance(arguments, str):
            self._arguments.append(arguments)

    def whole(self) -> Json:
        return {"id": self.id, "function": {"name": self.name, "arguments": "".join(self._arguments)}}
