"""The conformance suite's fixture tools as a gymwire environment, callable without naming a session.

    python -m tests.peers.mcp_fixture [--face gymwire|sdk] --port PORT

The suite knows no handles, so the app here seeds one session and puts its handle into every request's headers, as a
proxy in front of a single episode would. `--face sdk` serves the same tools by the bare SDK, to compare with.
"""

from __future__ import annotations

import argparse
import base64
import os
import struct
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from gymwire.servers import Environment, Media, Row, Tool, ToolError, ToolResult, Transcript, report_progress, tool
from gymwire.servers.app import App
from gymwire.servers.auth import LOOPBACK, Guard
from gymwire.servers.catalog import Served
from gymwire.servers.faces.mcp.sdk import server_of
from gymwire.servers.faces.mcp.tools import McpTools
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Limits, Sessions
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.serving import ROOT, free_port

from .processes import answers, started, wait_until

RICH_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def png() -> str:
    """A red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")
    return base64.b64encode(image).decode()


def wav() -> str:
    """A moment of silence."""
    samples = bytes(8)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(samples)) + samples
    return base64.b64encode(struct.pack("<4sI", b"RIFF", len(body)) + body).decode()


def in_header(name: str) -> Any:
    return Field(json_schema_extra={"x-mcp-header": name})


class Fixture(Environment):
    """The tools that the conformance suite asks for by name."""

    def tools_for(self, row: Row) -> list[str | Tool]:
        rich = Tool("json_schema_2020_12_tool", "Tool with JSON Schema 2020-12 features", RICH_SCHEMA)
        return [rich if name == rich.name else name for name in self.tool_specs]

    @tool
    async def test_simple_text(self) -> str:
        """Tests simple text content response"""
        return "This is a simple text response for testing."

    @tool
    async def test_image_content(self) -> Media:
        """Tests image content response"""
        return Media("image", png(), "image/png")

    @tool
    async def test_audio_content(self) -> Media:
        """Tests audio content response"""
        return Media("audio", wav(), "audio/wav")

    @tool
    async def test_embedded_resource(self) -> Media:
        """Tests embedded resource content response"""
        text = "This is an embedded resource content."
        return Media("resource", text, "text/plain", "test://embedded-resource")

    @tool
    async def test_multiple_content_types(self) -> ToolResult:
        """Tests response with multiple content types (text, image, resource)"""
        resource = Media("resource", '{"test":"data","value":123}', "application/json", "test://mixed-content-resource")
        return ToolResult("Multiple content types test:", media=(Media("image", png(), "image/png"), resource))

    @tool
    async def test_error_handling(self) -> str:
        """Tests error response handling"""
        raise ToolError("This tool intentionally returns an error for testing")

    @tool
    async def test_tool_with_progress(self) -> str:
        """Tests tool that reports progress notifications"""
        for done in (0, 50, 100):
            report_progress(done, 100, f"Completed step {done} of 100")
        return "done"

    @tool
    async def json_schema_2020_12_tool(self, name: str = "", phone: str = "", email: str = "") -> str:
        """Tool with JSON Schema 2020-12 features"""
        return name or phone or email

    @tool
    async def test_header_parameter(self, region: Annotated[str, in_header("Region")]) -> str:
        """A tool whose argument is repeated in a header"""
        return region

    def verify(self, transcript: Transcript) -> float:
        return 0.0


class Pinned:
    """An app whose requests all belong to one session."""

    def __init__(self, app: ASGIApp, sessions: Sessions, served: Served, path: str) -> None:
        self.app, self.sessions, self.served, self.path = app, sessions, served, path
        self._handle = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if not self._handle:
                session = await self.sessions.seed(self.served, SeedRequest())
                self._handle = session.handle.encode()
            headers = [*scope["headers"], (b"x-gymwire-session", self._handle)]
            scope = {**scope, "path": self.path, "headers": headers}
        await self.app(scope, receive, send)


def gymwire_app(environment: type[Environment] = Fixture) -> Pinned:
    """What gymwire serves, at every path."""
    sessions, served = Sessions(Limits()), Served(environment)
    app: Any = App([served], sessions, guard=Guard(hosts=LOOPBACK))
    return Pinned(app, sessions, served, f"/{served.name}/mcp")


def sdk_app(environment: type[Environment] = Fixture) -> Pinned:
    """The bare SDK's app over the same tools, at every path."""
    sessions, served = Sessions(Limits()), Served(environment)
    app = server_of(McpTools(sessions, served)).streamable_http_app(streamable_http_path="/mcp")
    return Pinned(app, sessions, served, "/mcp")


@contextmanager
def serving_fixture(log: Path, face: str = "gymwire") -> Iterator[str]:
    """The fixture environment served by a process of its own; its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, "-m", "tests.peers.mcp_fixture", "--face", face, "--port", str(port)]
    with started(command, log, os.environ, ROOT) as process:
        wait_until(lambda: answers(url), process, log)
        yield url


def config(app: ASGIApp, port: int) -> uvicorn.Config:
    return uvicorn.Config(app, port=port, http="httptools", log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--face", choices=("gymwire", "sdk"), default="gymwire")
    options.add_argument("--port", type=int, required=True)
    given = options.parse_args()
    uvicorn.Server(config(gymwire_app() if given.face == "gymwire" else sdk_app(), given.port)).run()
