"""What is written into the store comes back as it was; what another version wrote is said to be unreadable."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest
from gymwire.servers.environments.counter import Counter
from gymwire.servers.shared.records import FORMAT, Head, Meta, Record, Unreadable, thaw
from gymwire.servers.types import Row, SessionState

HEAD = Head(SessionState.ACTIVE, None, None, False).dumps()


def meta(row: Row, caller_id: str | None = None) -> Meta:
    return Meta("counter", "owner", "openenv", row, 7, None, caller_id, b"\x00\xff")


@pytest.mark.parametrize("value", [None, "\ud800", "a\u2028b", 10**400, 1e-320, {"null": [None]}, "null"])
def test_meta_comes_back(value: Any) -> None:
    written = meta(Row.of("Hello", value=value), "id \udfff" if value == "\ud800" else "null")
    read = Meta.loads(written.dumps())
    assert read.row.data == written.row.data and read.caller_id == written.caller_id
    assert read.row.prompt == written.row.prompt


def test_numbers_that_are_none_come_back() -> None:
    read = Meta.loads(meta(Row.of("Hello", value=math.nan, most=math.inf)).dumps())
    assert math.isnan(read.row.data["value"]) and read.row.data["most"] == math.inf


OF_OTHERS = {
    "a newer form": (orjson.dumps([FORMAT + 1, {"all": "else"}]), HEAD, []),
    "an older form": (orjson.dumps([0]), HEAD, []),
    "more fields": (orjson.dumps([*orjson.loads(meta(Row()).dumps()), "more"]), HEAD, []),
    "no JSON": (b"\x80\x04", HEAD, []),
    "nothing": (b"", HEAD, []),
    "another state": (meta(Row()).dumps(), b'["paused",null,null,false]', []),
    "a failure with more to it": (meta(Row()).dumps(), b'["failed",null,[1,2,3,4,5],false]', []),
    "a call of another code": (meta(Row()).dumps(), HEAD, [b'["add",null,true,"new_code","",false,false,[]]\n{}']),
    "no call": (meta(Row()).dumps(), HEAD, [b"{}"]),
}


@pytest.mark.parametrize("what", OF_OTHERS)
def test_what_another_version_wrote_is_unreadable(what: str) -> None:
    written, head, log = OF_OTHERS[what]
    with pytest.raises(Unreadable):
        Record.read([1, written, head, b"", log])


@pytest.mark.parametrize("snapshot", [b"", b"\x80\x04", b"[1]\n", b'[9,"j",null]\n1'])
def test_a_snapshot_of_another_version_is_unreadable(snapshot: bytes) -> None:
    with pytest.raises(Unreadable):
        thaw(Counter(), snapshot)
