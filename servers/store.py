"""Where sessions live: by handle, by the id their caller chose, and, once gone, by how they went.

An unknown handle is an error that says what became of it; it never becomes a fresh session.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

S = TypeVar("S")
CallerKey = tuple[str, str, str]  # environment, owner, the id the caller chose

#: How many gone sessions are remembered (each about 150 bytes).
REMEMBERED = 65_536
#: What a handle looks like on a wire: cookie- and header-safe.
HANDLE_PATTERN = rb"[A-Za-z0-9_-]{1,64}\.[0-9a-f]{1,64}"


class Remembered(Generic[S]):
    """A bounded memory: the oldest entry is forgotten first."""

    def __init__(self, size: int = REMEMBERED) -> None:
        self._size = size
        self._entries: OrderedDict[str | CallerKey, S] = OrderedDict()

    def put(self, key: str | CallerKey, value: S) -> None:
        self._entries[key] = value
        if len(self._entries) > self._size:
            self._entries.popitem(last=False)

    def get(self, key: str | CallerKey) -> S | None:
        return self._entries.get(key)

    def __len__(self) -> int:
        return len(self._entries)


class MemoryStore(Generic[S]):
    """Sessions of one process."""

    def __init__(self) -> None:
        self._by_handle: dict[str, S] = {}
        self._by_caller: dict[CallerKey, S] = {}

    def put(self, handle: str, session: S, caller: CallerKey | None = None) -> None:
        self._by_handle[handle] = session
        if caller is not None:
            self._by_caller[caller] = session

    def get(self, handle: str) -> S | None:
        return self._by_handle.get(handle)

    def of_caller(self, caller: CallerKey) -> S | None:
        return self._by_caller.get(caller)

    def drop(self, handle: str, caller: CallerKey | None = None) -> None:
        self._by_handle.pop(handle, None)
        if caller is not None:
            self._by_caller.pop(caller, None)

    def __iter__(self) -> Iterator[S]:
        return iter(list(self._by_handle.values()))

    def __len__(self) -> int:
        return len(self._by_handle)
