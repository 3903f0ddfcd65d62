"""Handles that cannot be guessed, and a memory of what is gone that cannot grow."""

from __future__ import annotations

import re

import pytest
from gymwire.servers.store import HANDLE_PATTERN, MemoryStore, Remembered, Signer


def test_handles_differ_and_fit_every_wire() -> None:
    signer = Signer()
    handles = {signer.new_handle() for _ in range(1000)}
    assert len(handles) == 1000
    assert all(re.fullmatch(HANDLE_PATTERN, handle.encode()) for handle in handles)


def test_a_handle_shows_whose_it_is() -> None:
    mine, other = Signer(), Signer()
    handle = mine.new_handle()
    assert mine.is_ours(handle) and not other.is_ours(handle)
    assert Signer(b"same key").is_ours(Signer(b"same key").new_handle())


@pytest.mark.parametrize("forged", ["", ".", "x", "x.", ".x", "ä.ö", "\ud800.00", "a" * 10_000, "a.b.c"])
def test_forgeries_are_refused_without_a_fuss(forged: str) -> None:
    assert not Signer().is_ours(forged)


def test_the_oldest_is_forgotten_first() -> None:
    remembered: Remembered[int] = Remembered(size=3)
    for number in range(5):
        remembered.put(f"k{number}", number)
    assert len(remembered) == 3
    assert [remembered.get(f"k{number}") for number in range(5)] == [None, None, 2, 3, 4]


def test_sessions_are_found_by_handle_and_by_their_callers_id() -> None:
    store: MemoryStore[str] = MemoryStore()
    caller = ("counter", "ann", "id")
    store.put("h", "session", caller)
    assert store.get("h") == store.of_caller(caller) == "session" and list(store) == ["session"]
    assert store.of_caller(("counter", "bob", "id")) is None
    store.drop("h", caller)
    assert store.get("h") is None and store.of_caller(caller) is None and len(store) == 0
    store.drop("h", caller)
