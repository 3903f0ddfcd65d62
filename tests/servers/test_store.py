"""Sessions found by their names, and a memory of what is gone that cannot grow."""

from __future__ import annotations

from gymwire.servers.store import MemoryStore, Remembered


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
