"""What a URL means, and one clear sentence for each wrong input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from gymwire.adapters import McpOptions, OpenEnvOptions, WrongRequest, connect
from gymwire.servers.catalog import Served
from gymwire.servers.environments.counter import Counter

from tests.serving import free_port, serving


@pytest.mark.parametrize(
    ("path", "options", "wire"),
    [
        ("", {"env": "counter"}, "nemo-gym"),
        ("/", {"env": "counter", "wire": "mcp"}, "mcp"),
        ("/counter", {}, "nemo-gym"),
        ("/counter/", {"wire": "openenv"}, "openenv"),
        ("/counter", {"env": "counter"}, "nemo-gym"),
        ("/counter/gym", {}, "nemo-gym"),
        ("/counter/openenv", {"wire": "openenv"}, "openenv"),
        ("/counter/mcp/", {}, "mcp"),
        ("/counter/mcp?x=1#y", {}, "mcp"),
    ],
)
async def test_a_url_is_a_root_an_environment_or_a_face(
    server: str, path: str, options: dict[str, Any], wire: str
) -> None:
    async with connect(server + path, **options) as env:
        assert (env.wire, env.info.name, env.info.max_turns) == (wire, "counter", 8)
        async with env.session(split="eval", index=0) as session:
            assert [tool.name for tool in session.tools] == ["add", "read"]


async def test_a_websocket_url_is_read_as_http(server: str) -> None:
    async with connect(server.replace("http", "ws") + "/counter/openenv") as env:
        assert env.wire == "openenv"


@pytest.mark.parametrize("target", ["counter", "gymwire.servers.environments.counter:Counter", Counter])
async def test_what_is_no_url_runs_in_this_process(target: Any) -> None:
    async with connect(target) as env:
        assert (env.wire, env.info.name, env.info.splits) == ("local", "counter", {"train": 64, "eval": 32})


@pytest.mark.parametrize(
    ("path", "options", "sentence"),
    [
        ("", {}, "serves several environments; name one with env= (--env): battery, "),
        ("", {"env": "countr"}, "no environment 'countr'. Did you mean 'counter'?"),
        ("/nosuch", {}, "no environment 'nosuch'"),
        ("/counter", {"env": "battery"}, "the URL names the environment 'counter', but env= (--env) says 'battery'"),
        ("/counter/gym", {"wire": "mcp"}, "the URL names the nemo-gym face, but wire= (--wire) asks for mcp"),
        ("/counter/gym/mcp", {}, "MCP door"),
        ("/counter", {"mcp": McpOptions("open")}, "is a gymwire server, on all wires already; a bridge, and mcp= and"),
        ("/counter", {"wire": "local"}, "'local' runs an environment in this process"),
        ("/counter", {"wire": "grpc"}, "there is no wire 'grpc'; the wires are: nemo-gym, openenv, mcp, local"),
    ],
)
async def test_a_wrong_input_is_one_clear_sentence(
    server: str, path: str, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(WrongRequest) as caught:
        await connect(server + path, **options).open()
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        ("nosuch", {}, "no environment is called 'nosuch'"),
        ("no.such:Thing", {}, "there is no module"),
        ("such.py:Thing", {}, "there is no module 'such' to import: write package.module:Class, and no file"),
        ("counter", {"wire": "mcp"}, "needs the URL of a server"),
        ("counter", {"env": "battery"}, "env= (--env) 'battery' belongs to a URL; 'counter' is an environment already"),
        (Counter, {"env": "battery"}, "'counter' is an environment already"),
        (Served(Counter), {"env": "battery"}, "'counter' is an environment already"),
        ("counter", {"openenv": OpenEnvOptions()}, "'counter' runs in this process; a bridge, and mcp= and openenv="),
        ("counter", {"settings": {"depth": 3}}, "takes no setting 'depth'"),
        ("ftp://example.org/x", {}, "is no URL of a server"),
        ("http://", {}, "is no URL of a server"),
        ("http://[::1", {}, "is no URL"),
        (["cat"], {"wire": "openenv"}, "for wire='mcp'"),
        ("http://127.0.0.1:9", {"wire": "openenv", "mcp": McpOptions("open")}, "mcp= belongs to wire='mcp', not to"),
        ("http://127.0.0.1:9", {"wire": "mcp", "openenv": OpenEnvOptions()}, "openenv= belongs to wire='openenv', not"),
    ],
)
async def test_a_wrong_target_is_one_clear_sentence(target: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(WrongRequest) as caught:
        await connect(target, **options).open()
    assert sentence in str(caught.value)


async def test_nobody_there() -> None:
    with pytest.raises(WrongRequest, match=r"nothing answers at .*Connection refused; is the server running\?"):
        await connect(f"http://127.0.0.1:{free_port()}/counter").open()


async def test_a_stranger_needs_a_wire() -> None:
    app = web.Application()
    async with TestServer(app) as stranger:
        with pytest.raises(WrongRequest, match="is no gymwire server"):
            await connect(str(stranger.make_url("/shop"))).open()


async def test_a_connection_must_be_open() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        _ = connect("counter").info


async def test_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("right-token-0123456789\n")
    with serving(tmp_path / "log", "counter", "--token-file", str(tokens)) as running:
        with pytest.raises(WrongRequest, match=r"asks for a token: pass token= \(--token\)"):
            await connect(running.url).open()
        with pytest.raises(WrongRequest, match="does not accept this token"):
            await connect(running.url, token="wrong").open()
        for wire in ("nemo-gym", "openenv", "mcp"):
            connection = connect(running.url, wire=wire, token="right-token-0123456789")
            async with connection as env, env.session(split="train", index=0) as session:
                assert not (await session.call("read")).is_error
