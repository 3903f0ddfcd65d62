"""A chat completion that comes as server-sent events, put together again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from ...servers.types import Json, text_of
from .answer import Answer, Unreadable, read_message

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
    return line[5:].strip().decode("utf-8", "replace") if line.startswith(b"data:") else ""


class Assembly:
    """Collects the deltas of the first choice. Texts and arguments are joined, a call's name and id are said once."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self._calls: dict[Any, _Call] = {}
        self._last: Any = None  # where a piece without an index belongs
        self._finish_reason: Any = None
        self._usage: Any = None

    def add(self, data: str) -> Any:
        """Take one event; answers the error that it carries, if it does. Raises `Broken`."""
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise Broken(f"an event of the stream is no JSON: {data[:80]!r}") from None
        if not isinstance(event, Mapping):
            raise Broken(f"an event of the stream is no object: {data[:80]!r}")
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
            return
        for name, texts in self._texts.items():
            texts.append(text_of(delta.get(name)))
        for piece in _listed(delta, "tool_calls"):
            self._call_at(piece).add(piece)

    def _call_at(self, piece: Mapping[str, Any]) -> _Call:
        """The call that a piece belongs to: by index, else by a new id, else the last one."""
        place = piece.get("index")
        if not isinstance(place, int):
            place = piece.get("id") or self._last
            place = place if isinstance(place, str | int) else "first"
        self._last = place
        return self._calls.setdefault(place, _Call())

    def answer(self) -> Answer:
        """The whole turn. Raises `Broken` where its end never came."""
        if self._finish_reason is None:
            raise Broken("the stream ended before the answer did")
        message: Json = {name: "".join(texts) for name, texts in self._texts.items()}
        message["tool_calls"] = [call.whole() for call in self._calls.values()]
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


class _Call:
    """The pieces of one call."""

    def __init__(self) -> None:
        self.id = self.name = ""
        self._arguments: list[str] = []

    def add(self, piece: Mapping[str, Any]) -> None:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
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
