"""Odd requests, our mounted face beside the bare SDK's app over the same tools: both must answer alike.

Left out on purpose, being our own: methods that no MCP endpoint knows (405 of the app), white space around a header
(the SDK keeps what its HTTP parser left), and the wording where a host or an origin is refused.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from .mcp_fixture import serving_fixture

pytestmark = pytest.mark.peers
TIMEOUT_S = 20
VERSION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
META = {VERSION_KEY: VERSION, CLIENT_KEY: {"name": "odd", "version": "1"}, CAPABILITIES_KEY: {}}
CALL = {"name": "json_schema_2020_12_tool", "arguments": {"name": "Ada"}, "_meta": META}
HEADERS = {
    "Host": "127.0.0.1",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Mcp-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": "json_schema_2020_12_tool",
}
LEFT = "(left out)"


@dataclass(frozen=True, slots=True)
class Odd:
    """One request; `body` is sent in the pieces given, or chunked."""

    headers: tuple[tuple[str, str], ...] = tuple(HEADERS.items())
    body: bytes = b""
    method: str = "POST"
    chunked: bool = False
    pieces: int = 1

    def with_header(self, name: str, value: str) -> Odd:
        kept = tuple(pair for pair in self.headers if pair[0] != name)
        return replace(self, headers=kept if value == LEFT else (*kept, (name, value)))

    def again(self, name: str, value: str) -> Odd:
        return replace(self, headers=(*self.headers, (name, value)))


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: Any
    headers: dict[str, str]

    def comparable(self) -> tuple[int, str, Any]:
        return self.status, self.content_type, self.body


def message(method: str, params: Any, **others: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **others}).encode()


def call_with(**params: Any) -> bytes:
    return message("tools/call", {**CALL, **params})


def meta_with(**meta: Any) -> bytes:
    return call_with(_meta={**META, **meta})


PLAIN = Odd(body=message("tools/call", CALL))
LISTING = replace(
    PLAIN.with_header("Mcp-Method", "tools/list").with_header("Mcp-Name", LEFT),
    body=message("tools/list", {"_meta": META}),
)


def named(name: str) -> Odd:
    return replace(PLAIN.with_header("Mcp-Name", name), body=call_with(name=name, arguments={}))


HEADER_VALUES = {
    "Accept": (
        *(LEFT, "", "*/*", "application/json", "text/event-stream", "application/*", "text/*, application/*"),
        *("text/html", "application/json;q=0.1, text/event-stream;q=0.9", "APPLICATION/JSON, TEXT/EVENT-STREAM"),
    ),
    "Content-Type": (
        *(LEFT, "", "text/plain", "application/json; charset=utf-8", "Application/JSON", "application/jsonx"),
        "multipart/form-data",
    ),
    "Mcp-Protocol-Version": (LEFT, "", "2025-11-25", "2024-11-05", "1999-01-01", "2026-07-28,2026-07-28", "DRAFT"),
    "Mcp-Method": (LEFT, "", "tools/list", "TOOLS/CALL", "initialize"),
    "Mcp-Name": (LEFT, "", "other", "=?base64?anNvbl9zY2hlbWFfMjAyMF8xMl90b29s?=", "=?base64?!?=", "=?base64??="),
}
EXTRA_HEADERS = (
    ("Mcp-Session-Id", "unheard"),
    ("Last-Event-ID", "1"),
    ("Mcp-Param-Region", "eu"),
    ("Origin", "http://localhost:1234"),
    ("X-Unheard-Of", "1"),
    ("Authorization", "Bearer nothing"),
    ("Cookie", "a=b"),
    ("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
)
META_CHANGES: dict[str, Any] = {
    "progress": {"progressToken": "p"},
    "number progress": {"progressToken": 5},
    "odd progress": {"progressToken": {"a": 1}},
    "log level": {"io.modelcontextprotocol/logLevel": "debug"},
    "odd log level": {"io.modelcontextprotocol/logLevel": 5},
    "trace": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    "own key": {"example.com/key": [1]},
    "wrong version": {VERSION_KEY: "2025-11-25"},
    "number version": {VERSION_KEY: 2026},
    "null version": {VERSION_KEY: None},
    "null client": {CLIENT_KEY: None},
    "client without version": {CLIENT_KEY: {"name": "x"}},
    "client with more": {CLIENT_KEY: {"name": "x", "version": "1", "title": "X", "extra": 1}},
    "client of numbers": {CLIENT_KEY: {"name": 1, "version": 2}},
    "client as text": {CLIENT_KEY: "x"},
    "capabilities": {CAPABILITIES_KEY: {"sampling": {}, "roots": {}, "elicitation": {"form": {}}}},
    "unknown capability": {CAPABILITIES_KEY: {"flying": {}}},
    "capabilities as list": {CAPABILITIES_KEY: []},
    "null capabilities": {CAPABILITIES_KEY: None},
    "odd capability": {CAPABILITIES_KEY: {"sampling": 5}},
}
PARAMS_CHANGES: dict[str, Any] = {
    "null arguments": {"arguments": None},
    "list arguments": {"arguments": [1]},
    "text arguments": {"arguments": "{}"},
    "empty arguments": {"arguments": {}},
    "unknown argument": {"arguments": {"unheard": 1}},
    "wrong type": {"arguments": {"name": 5}},
    "null argument": {"arguments": {"name": None}},
    "unicode": {"arguments": {"name": "ünï\u2028\U0001f600"}},
    "null name": {"name": None},
    "number name": {"name": 5},
    "empty name": {"name": ""},
    "other name": {"name": "test_simple_text"},
    "task": {"task": {"ttl": 1}},
    "extra": {"extra": 1},
    "input responses": {"inputResponses": {}},
    "odd input responses": {"inputResponses": 5},
    "request state": {"requestState": "s"},
    "null meta": {"_meta": None},
    "list meta": {"_meta": []},
    "empty meta": {"_meta": {}},
    "only version": {"_meta": {VERSION_KEY: VERSION}},
    "only the pair": {"_meta": {VERSION_KEY: VERSION, CAPABILITIES_KEY: {}}},
}
IDS: tuple[Any, ...] = (0, -1, 2**70, "", "a", "ü", "\u2028", 1.0, 1.5, True, None, [], {})
METHODS = (
    "initialize",
    "ping",
    "server/discover",
    "resources/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "notifications/cancelled",
    "notifications/initialized",
    "tasks/get",
    "unheard/of",
    "",
)
RAW_BODIES = {
    "empty": b"",
    "no json": b"{bad",
    "list": b"[]",
    "null": b"null",
    "number": b"5",
    "batch": b"[" + PLAIN.body + b"]",
    "empty object": b"{}",
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.body,
    "utf-16": PLAIN.body.decode().encode("utf-16"),
    "broken utf-8": PLAIN.body.replace(b"Ada", b"\xff\xfe"),
    "white space": b"\n\t " + PLAIN.body + b" \r\n",
    "more after it": PLAIN.body + b"{}",
    "control character": PLAIN.body.replace(b"Ada", b"A\x01"),
    "lone surrogate": PLAIN.body.replace(b"Ada", b"\\ud800"),
    "repeated key": PLAIN.body.replace(b'"arguments"', b'"name": "test_simple_text", "arguments"'),
    "repeated argument": PLAIN.body.replace(b'"Ada"', b'"Ada", "name": "Bo"'),
    "NaN": PLAIN.body.replace(b'"Ada"', b"NaN"),
    "NaN id": PLAIN.body.replace(b'"id": 1', b'"id": NaN'),
    "huge integer": PLAIN.body.replace(b'"Ada"', b"9" * 5000),
    "deep": PLAIN.body.replace(b'"Ada"', b"[" * 300 + b"]" * 300),
    "deepest": PLAIN.body.replace(b'"Ada"', b"[" * 100_000 + b"]" * 100_000),
    "no jsonrpc": PLAIN.body.replace(b'"jsonrpc": "2.0", ', b""),
    "jsonrpc 1.0": PLAIN.body.replace(b'"2.0"', b'"1.0"'),
    "number jsonrpc": PLAIN.body.replace(b'"2.0"', b"2.0"),
    "no id": PLAIN.body.replace(b'"id": 1, ', b""),
    "no method": PLAIN.body.replace(b'"method": "tools/call", ', b""),
    "number method": PLAIN.body.replace(b'"method": "tools/call"', b'"method": 5'),
    "a response": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "an error": b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}',
    "extra member": PLAIN.body.replace(b'"id": 1', b'"id": 1, "extra": 1'),
}
ODD_PARAMS: tuple[Any, ...] = (None, [], "x", 5, {})
LISTINGS: dict[str, Any] = {
    "cursor": {"cursor": "x"},
    "empty cursor": {"cursor": ""},
    "null cursor": {"cursor": None},
    "number cursor": {"cursor": 5},
    "extra": {"extra": 1},
}


def cases() -> Iterator[tuple[str, Odd]]:
    yield "plain call", PLAIN
    yield "plain list", LISTING
    for name, values in HEADER_VALUES.items():
        for value in values:
            yield f"{name}: {value}", PLAIN.with_header(name, value)
            if name != "Mcp-Name":
                yield f"list, {name}: {value}", LISTING.with_header(name, value)
    for name, value in HEADERS.items():
        if name != "Host":
            yield f"repeated {name}", PLAIN.again(name, value)
            yield f"repeated otherwise {name}", PLAIN.again(name, "other")
    for name, value in EXTRA_HEADERS:
        yield f"{name}: {value[:20]}", PLAIN.again(name, value)
    yield "list with a name", LISTING.again("Mcp-Name", "x")
    yield "chunked", replace(PLAIN, chunked=True)
    yield "chunked in pieces", replace(PLAIN, chunked=True, pieces=3)
    yield "in pieces", replace(PLAIN, pieces=3)
    for tool in ("test_simple_text", "test_image_content", "test_multiple_content_types", "test_error_handling"):
        yield f"tool {tool}", named(tool)
    yield "unknown tool", named("unheard_of")
    region = replace(
        PLAIN.with_header("Mcp-Name", "test_header_parameter"),
        body=call_with(name="test_header_parameter", arguments={"region": "eu"}),
    )
    yield "annotated without header", region
    yield "annotated with header", region.again("Mcp-Param-Region", "eu")
    yield "annotated with another header", region.again("Mcp-Param-Region", "us")
    yield (
        "progress",
        replace(
            PLAIN.with_header("Mcp-Name", "test_tool_with_progress"),
            body=call_with(name="test_tool_with_progress", arguments={}, _meta={**META, "progressToken": "p"}),
        ),
    )
    yield from bodies()


def bodies() -> Iterator[tuple[str, Odd]]:
    for label, meta in META_CHANGES.items():
        yield f"meta: {label}", replace(PLAIN, body=meta_with(**meta))
        yield f"list meta: {label}", replace(LISTING, body=message("tools/list", {"_meta": {**META, **meta}}))
    for label, params in PARAMS_CHANGES.items():
        yield f"params: {label}", replace(PLAIN, body=call_with(**params))
    for value in IDS:
        yield f"id {value!r}", replace(PLAIN, body=message("tools/call", CALL, id=value))
    for method in METHODS:
        odd = replace(PLAIN.with_header("Mcp-Method", method), body=message(method, {"_meta": META}))
        yield f"method {method}", odd.with_header("Mcp-Name", LEFT)
        yield (
            f"notified {method}",
            replace(odd, body=json.dumps({"jsonrpc": "2.0", "method": method, "params": {"_meta": META}}).encode()),
        )
    for label, body in RAW_BODIES.items():
        yield f"body: {label}", replace(PLAIN, body=body)
    for params in ODD_PARAMS:
        yield f"params {params!r}", replace(PLAIN, body=message("tools/call", params))
        yield f"list params {params!r}", replace(LISTING, body=message("tools/list", params))
    for label, params in LISTINGS.items():
        yield f"list: {label}", replace(LISTING, body=message("tools/list", {**params, "_meta": META}))
    for method in ("GET", "DELETE"):
        yield method, replace(PLAIN, method=method, body=b"")


CASES = dict(cases())


@dataclass(frozen=True, slots=True)
class Pair:
    ours: str
    theirs: str

    def both(self, odd: Odd) -> tuple[Answer, Answer]:
        return ask(self.ours, odd), ask(self.theirs, odd)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    logs = tmp_path_factory.mktemp("pair")
    with serving_fixture(logs / "ours") as ours, serving_fixture(logs / "theirs", "sdk") as theirs:
        yield Pair(ours, theirs)


def ask(url: str, odd: Odd) -> Answer:
    """Send exactly these bytes; read to the end of the connection."""
    place = urlsplit(url)
    assert place.hostname is not None and place.port is not None
    with socket.create_connection((place.hostname, place.port), timeout=TIMEOUT_S) as connection:
        for part in as_sent(odd, f"{place.hostname}:{place.port}"):
            connection.sendall(part)
        received = b"".join(iter(lambda: connection.recv(65536), b""))
    return read(received)


def as_sent(odd: Odd, host: str) -> Iterator[bytes]:
    headers = [(name, host if name == "Host" else value) for name, value in odd.headers]
    headers.append(("Transfer-Encoding", "chunked") if odd.chunked else ("Content-Length", str(len(odd.body))))
    lines = [f"{odd.method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "Connection: close"]
    yield "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
    size = -(-len(odd.body) // odd.pieces) or 1
    for start in range(0, len(odd.body), size):
        piece = odd.body[start : start + size]
        yield b"%x\r\n%s\r\n" % (len(piece), piece) if odd.chunked else piece
    if odd.chunked:
        yield b"0\r\n\r\n"


def read(received: bytes) -> Answer:
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join(_chunks(body))
    content_type = headers.get("content-type", "").partition(";")[0]
    return Answer(int(first.split(" ")[1]), content_type, _decoded(content_type, body), headers)


def _chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, body = body.partition(b"\r\n")
        yield body[: int(size, 16)]
        body = body[int(size, 16) + 2 :]


def _decoded(content_type: str, body: bytes) -> Any:
    """The JSON messages of an answer; JSON-RPC error words that name a session id lose it."""
    text = re.sub(r"[0-9a-f]{32}", "ID", body.decode())
    if content_type == "application/json" and text:
        return json.loads(text)
    if content_type == "text/event-stream":
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return text


@pytest.mark.parametrize("label", CASES)
def test_both_answer_alike(pair: Pair, label: str) -> None:
    ours, theirs = pair.both(CASES[label])
    assert ours.comparable() == theirs.comparable()
    assert ours.status < 500


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1.evil.example"])
def test_both_refuse_a_page_of_another_origin(pair: Pair, origin: str) -> None:
    ours, theirs = pair.both(PLAIN.again("Origin", origin))
    assert ours.status == theirs.status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_both_refuse_a_foreign_host(pair: Pair, host: str) -> None:
    odd = replace(PLAIN, headers=(*(pair for pair in PLAIN.headers if pair[0] != "Host"), ("host", host)))
    ours, theirs = pair.both(odd)
    assert ours.status == theirs.status == 421


# ---- sessions of the older revisions

OLD = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
OLD_HEADERS = tuple((name, value) for name, value in HEADERS.items() if not name.startswith("Mcp"))
STEPS: tuple[tuple[str, str, Any], ...] = (
    ("POST", "notifications/initialized", None),
    ("POST", "ping", {}),
    ("POST", "tools/list", {}),
    ("POST", "tools/list", {"cursor": "x"}),
    ("POST", "tools/call", {"name": "test_simple_text"}),
    ("POST", "tools/call", {"name": "test_simple_text", "arguments": {"a": 1}}),
    ("POST", "tools/call", {"name": "unheard_of", "arguments": {}}),
    ("POST", "tools/call", {"name": "test_multiple_content_types", "arguments": {}}),
    ("POST", "tools/call", {"name": "test_tool_with_progress", "arguments": {}, "_meta": {"progressToken": 7}}),
    ("POST", "tools/call", {"name": 5}),
    ("POST", "tools/call", {}),
    ("POST", "server/discover", {}),
    ("POST", "resources/list", {}),
    ("POST", "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}),
    ("DELETE", "", None),
    ("POST", "ping", {}),
    ("DELETE", "", None),
    ("GET", "", None),
)


def walk(url: str, version: str) -> Iterator[tuple[int, str, Any]]:
    """Open a session and take every step in it; what each answered."""
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "odd", "version": "1"}}
    begun = ask(url, Odd(OLD_HEADERS, message("initialize", hello)))
    yield begun.comparable()
    headers = (*OLD_HEADERS, ("Mcp-Session-Id", begun.headers["mcp-session-id"]), ("Mcp-Protocol-Version", version))
    for method, name, params in STEPS:
        if name.startswith("notifications/"):
            body = json.dumps({"jsonrpc": "2.0", "method": name}).encode()
        else:
            body = message(name, params) if name else b""
        yield ask(url, Odd(headers, body, method)).comparable()


@pytest.mark.parametrize("version", OLD)
def test_a_session_goes_alike(pair: Pair, version: str) -> None:
    ours, theirs = (list(walk(url, version)) for url in (pair.ours, pair.theirs))
    assert ours == theirs
    assert [status for status, _, _ in ours[:6]] == [200, 202, 200, 200, 200, 200]


def without_session() -> Sequence[tuple[str, Odd]]:
    return [
        ("call", Odd(OLD_HEADERS, message("tools/call", {"name": "test_simple_text"}))),
        ("list at a version", Odd((*OLD_HEADERS, ("Mcp-Protocol-Version", "2025-11-25")), message("tools/list", {}))),
        ("unknown session", Odd((*OLD_HEADERS, ("Mcp-Session-Id", "unheard")), message("ping", {}))),
        ("initialize without params", Odd(OLD_HEADERS, message("initialize", None))),
        ("initialize oddly", Odd(OLD_HEADERS, message("initialize", {"protocolVersion": 5}))),
        ("initialize in the future", Odd(OLD_HEADERS, message("initialize", {**_hello("2099-01-01")}))),
        ("no json", Odd(OLD_HEADERS, b"{bad")),
        ("get", Odd(OLD_HEADERS, b"", "GET")),
        ("delete", Odd(OLD_HEADERS, b"", "DELETE")),
    ]


def _hello(version: str) -> dict[str, Any]:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "odd", "version": "1"}}


@pytest.mark.parametrize(("label", "odd"), without_session())
def test_without_a_session_both_answer_alike(pair: Pair, label: str, odd: Odd) -> None:
    ours, theirs = pair.both(odd)
    assert ours.comparable() == theirs.comparable()
    assert ours.status < 500


def test_the_table_is_long() -> None:
    assert len(CASES) >= 200
