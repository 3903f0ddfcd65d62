"""Strangers, other tenants and slow or huge requests, toward a real server: refused, written down without secrets,
and an honest episode is served right after."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gymwire.adapters import SessionFailed, WrongRequest, connect
from gymwire.servers.answers import Code
from yarl import URL

from tests.servers.faces.mcp_clients import META, VERSION
from tests.serving import Running, serving
from tests.wires import WIRES
from tests.worlds import PLACES

PLAYER, OTHER, ADMIN = "player-token-0123456789", "other-token-0123456789", "admin-token-0123456789"
LIMIT_BYTES, PATIENCE_S, CONNECTIONS = 100_000, 1.0, 40
SEED = {"split": "eval", "index": 0}


@dataclass
class Target:
    """The server under attack, and what an honest tenant sees of it."""

    server: Running
    tokens: Path

    @property
    def url(self) -> str:
        return self.server.url

    async def honest(self, wire: str = "nemo-gym", token: str = PLAYER) -> None:
        """A whole episode, as if nothing had happened."""
        opening = connect(self.url, env="kit", wire=wire, token=token)
        async with opening as connection, connection.session(**SEED) as session:
            assert (await session.call("count")).text == "0"
            assert (await session.verify()).reward is not None

    def raw(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("guarded")
    tokens = folder / "tokens"
    tokens.write_text(f"{PLAYER} play name=lab\n{OTHER} play\n{ADMIN} admin\n")
    tokens.chmod(0o600)
    words = ["--token-file", str(tokens), "--max-body", str(LIMIT_BYTES), "--body-timeout", str(PATIENCE_S)]
    words += ["--max-connections", str(CONNECTIONS), "--max-sessions-per-token", "8", "--queue-timeout", "4"]
    with serving(folder / "log", "counter", *PLACES, *words) as running:
        yield Target(running, tokens)
        text = running.log_text()
        assert "Traceback" not in text and "Exception in ASGI" not in text, text[-4000:]
        for secret in (PLAYER, OTHER, ADMIN, "made-up-secret", "Bearer"):
            assert secret not in text
        for event in ("unauthorized", "forbidden_scope", "body_too_large", "body_too_slow", "foreign_handle"):
            assert event in text


@pytest.fixture
async def target(server: Target) -> AsyncIterator[Target]:
    """Serves an honest episode after each test, whatever was done to it."""
    yield server
    await server.honest()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as made:
        yield made


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


# ---- tokens


@pytest.mark.parametrize("token", ["", "made-up-secret", PLAYER[:-1], PLAYER + "x", PLAYER.upper(), "\xff"])
async def test_a_forged_token_opens_nothing(target: Target, http: aiohttp.ClientSession, token: str) -> None:
    headers = bearer(token) if token else {}
    for path in ("gym/seed_session", "gym/count", "gym/verify", "openenv/reset", "mcp"):
        async with http.post(f"{target.url}/kit/{path}", json=SEED, headers=headers) as answer:
            assert (answer.status, answer.headers["X-Gymwire-Code"]) == (401, Code.UNAUTHORIZED)
    for path in ("openenv/ws", "openenv/mcp"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await http.ws_connect(f"{target.url}/kit/{path}", headers=headers)
        assert caught.value.status == 401


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_scope_opens_its_own_paths_alone(target: Target, http: aiohttp.ClientSession, wire: str) -> None:
    await target.honest(wire)
    opened = [("/metrics", PLAYER, 403), ("/metrics", ADMIN, 200), ("/environments", ADMIN, 200)]
    aliases = ("/metrics%0A", "/%6Detrics%0a", "/metrics%0D", "/metrics%00", "/metrics%20", "//metrics", "/metrics/")
    for path, token, status in [*opened, *((alias, PLAYER, 404) for alias in aliases)]:
        address = URL(target.url + path, encoded=True)
        async with http.get(address, headers=bearer(token), allow_redirects=True) as answer:
            assert answer.status == (403 if path.endswith("/") else status), path
    with pytest.raises((SessionFailed, WrongRequest)):
        await target.honest(wire, ADMIN)


async def test_tokens_are_taken_up_and_taken_back_without_a_restart(
    target: Target, http: aiohttp.ClientSession
) -> None:
    before, later = target.tokens.read_text(), "later-token-0123456789"
    url = f"{target.url}/kit/gym"

    async def status(token: str) -> int:
        async with http.get(f"{target.url}/environments", headers=bearer(token)) as answer:
            return answer.status

    async def until(token: str, wanted: int) -> None:
        deadline = time.monotonic() + 10
        while await status(token) != wanted:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    async with http.post(f"{url}/seed_session", json=SEED, headers=bearer(PLAYER)) as answer:
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
    async with http.ws_connect(f"{target.url}/kit/openenv/ws", headers=bearer(OTHER)) as open_socket:
        target.tokens.write_text(f"{later} play name=lab\n{ADMIN} admin\n")
        await until(later, 200)
        assert (await status(PLAYER), await status(OTHER)) == (401, 401)
        await open_socket.send_json({"type": "reset", "data": SEED})
        assert (await open_socket.receive(timeout=5)).type is aiohttp.WSMsgType.CLOSE
        async with http.post(f"{url}/count", json={}, headers=bearer(later, Cookie=cookie)) as answer:
            assert (answer.status, await answer.text()) == (200, "0")  # the name's session goes on
        for broken in ("", f"{later} play root\n"):
            target.tokens.write_text(broken)
            await asyncio.to_thread(_until_logged, target.server, "line 1" if broken else "holds no token")
            assert await status(later) == 200
    target.tokens.write_text(before)
    await until(PLAYER, 200)
    assert later not in target.server.log_text()


def _until_logged(server: Running, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in server.log_text():
        assert time.monotonic() < deadline, server.log_text()[-2000:]
        time.sleep(0.05)


# ---- handles


def _mcp_call(handle: str, name: str = "count", **arguments: Any) -> tuple[bytes, dict[str, str]]:
    params = {"name": name, "arguments": arguments, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}
    return body, headers | ({"X-Gymwire-Session": handle} if handle else {})


async def test_no_handle_but_ones_own_leads_to_a_session(target: Target, http: aiohttp.ClientSession) -> None:
    """Forged, closed, of another token, of another environment: lost, on the cookie and in the header alike."""
    url = target.url

    async def seeded(token: str, env: str = "kit") -> str:
        async with http.post(f"{url}/{env}/gym/seed_session", json=SEED, headers=bearer(token)) as answer:
            assert answer.status == 200, await answer.text()
            return answer.headers["Set-Cookie"].partition(";")[0].partition("=")[2]

    own, others, elsewhere = await seeded(PLAYER), await seeded(OTHER), await seeded(PLAYER, "counter")
    name, _, signature = own.partition(".")
    forged = ["made-up.00", f"{name}.{'0' * len(signature)}", f"{name}x.{signature}", name, "." + signature, "x" * 5000]
    for handle in [*forged, others, elsewhere]:
        cookie = {"Cookie": f"gymwire_kit={handle}"}
        async with http.post(f"{url}/kit/gym/count", json={}, headers=bearer(PLAYER, **cookie)) as answer:
            assert (answer.status, answer.headers["X-Gymwire-Code"]) == (410, Code.SESSION_LOST), handle
        verify = {"responses_create_params": {"input": []}, "response": {"output": []}}
        async with http.post(f"{url}/kit/gym/verify", json=verify, headers=bearer(PLAYER, **cookie)) as answer:
            said = await answer.json()
            assert said["mask_sample"] is True and said["failure_kind"] == "session_lost"
        body, headers = _mcp_call(handle)
        async with http.post(f"{url}/kit/mcp", data=body, headers=bearer(PLAYER, **headers)) as answer:
            text = await answer.text()
            assert Code.SESSION_LOST in text and '"isError":true' in text.replace(" ", ""), text[:300]
        async with http.ws_connect(f"{url}/kit/openenv/ws?session_id={handle}", headers=bearer(PLAYER)) as talk:
            assert "SESSION_ERROR" in (await talk.receive_str(timeout=5))
    for handle, token in ((own, PLAYER), (others, OTHER)):
        cookie = {"Cookie": f"gymwire_kit={handle}"}
        async with http.post(f"{url}/kit/gym/count", json={}, headers=bearer(token, **cookie)) as answer:
            assert (answer.status, await answer.text()) == (200, "0")
    log = target.server.log_text()
    assert own not in log and others not in log and name not in log.replace("session " + name, "")


async def test_an_id_that_another_tenant_chose_is_free_and_closes_nothing(
    target: Target, http: aiohttp.ClientSession
) -> None:
    url, keyed = f"{target.url}/kit/gym", {"Idempotency-Key": "episode-1"}
    cookies = []
    for token in (PLAYER, OTHER):
        async with http.post(f"{url}/seed_session", json=SEED, headers=bearer(token, **keyed)) as answer:
            assert answer.status == 200
            cookies.append(answer.headers["Set-Cookie"].partition(";")[0])
    assert cookies[0] != cookies[1]
    body = {"resources_session_id": "episode-1"}
    async with http.post(f"{url}/close_session", json=body, headers=bearer(OTHER)) as answer:
        assert answer.status == 200
    for token, cookie, status in ((PLAYER, cookies[0], 200), (OTHER, cookies[1], 410)):
        async with http.post(f"{url}/count", json={}, headers=bearer(token, Cookie=cookie)) as answer:
            assert answer.status == status
    async with http.post(f"{url}/seed_session", json=SEED, headers=bearer(OTHER, **keyed)) as answer:
        assert answer.headers["X-Gymwire-Code"] == Code.SEED_REFUSED  # a replayed seed of an ended session


async def test_one_tenant_cannot_take_every_session(target: Target) -> None:
    async with connect(target.url, env="kit", wire="openenv", token=OTHER, patience_s=0.0) as connection:
        opened = [await connection.session(**SEED) for _ in range(7)]
        with pytest.raises(SessionFailed):
            for _ in range(2):  # one more may be alive: the test before leaves none behind, others might
                opened.append(await connection.session(**SEED))
        await target.honest()
        await asyncio.gather(*(session.close() for session in opened))
    await target.honest("openenv", OTHER)


# ---- bytes

HEAD = f"POST /kit/gym/count HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {PLAYER}\r\n".encode()
FLOODS: dict[str, tuple[bytes, bytes]] = {
    "many headers": (HEAD + b"".join(b"X-%d: x\r\n" % n for n in range(5_000)) + b"\r\n", b"431"),
    "a long header": (HEAD + b"X: " + b"x" * 5_000_000, b"431"),
    "a long path": (b"GET /" + b"x" * 5_000_000, b"431"),
    "headers of a socket": (
        b"GET /kit/openenv/ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        + b"".join(b"X-%d: x\r\n" % n for n in range(5_000))
        + b"\r\n",
        b"431",
    ),
    "trailers": (
        HEAD
        + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
        + b"".join(b"X-%d: x\r\n" % n for n in range(50_000)),
        b"431",
    ),
    "chunk extensions": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 5_000_000, b"431"),
    "a long body": (HEAD + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000, b"413"),
    "an endless body": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"2710\r\n" + b"x" * 10_000 + b"\r\n") * 40,
        b"413",
    ),
    "no HTTP": (b"\x16\x03\x01" + b"\x00" * 1000, b"400"),
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
    "a length and chunks": (HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_is_cut_off(target: Target, flood: str) -> None:
    sent, status = FLOODS[flood]
    assert status in await asyncio.to_thread(_exchange, target, sent)


def _exchange(target: Target, sent: bytes) -> bytes:
    """The status line; where the server resets the rest of a flood, its log says which."""
    written = len(target.server.log_text())
    with target.raw() as talk:
        try:
            talk.sendall(sent)
            if line := talk.recv(4096).partition(b"\r\n")[0]:
                return line
        except ConnectionError:
            pass
    time.sleep(0.1)
    assert "body_too_large" in target.server.log_text()[written:], target.server.log_text()[-500:]
    return b"400 413 431"


SLOW: dict[str, bytes] = {
    "says nothing": b"",
    "half a line": b"POST /kit/gym/count HT",
    "half a head": HEAD,
    "no body": HEAD + b"Content-Length: 1000\r\n\r\n",
    "a refused one's body": b"POST /kit/gym/count HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
    "a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
    "a socket's head": b"GET /kit/openenv/ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
    "empty lines": b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n\r\n",
}


@pytest.mark.parametrize("start", SLOW)
async def test_a_drip_is_ended(target: Target, start: str) -> None:
    took = await asyncio.to_thread(_drip, target, SLOW[start])
    assert took < PATIENCE_S + 5


def _drip(target: Target, start: bytes) -> float:
    """Send a start, then a byte now and then until the server hangs up; answers the seconds that it took."""
    began = time.monotonic()
    with target.raw() as talk:
        talk.sendall(start)
        talk.settimeout(0.2)
        while time.monotonic() - began < 20:
            try:
                if talk.recv(65536) == b"":
                    break
            except TimeoutError:
                try:
                    if start:
                        talk.sendall(b"\n" if start.endswith(b"\r\n\r\n\r\n") else b"1")
                except ConnectionError:
                    break
            except ConnectionError:
                break
    return time.monotonic() - began


async def test_connections_past_the_limit_are_told_and_closed(target: Target) -> None:
    held = [target.raw() for _ in range(CONNECTIONS)]
    try:
        answered = await asyncio.to_thread(_exchange, target, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"503" in answered
    finally:
        for talk in held:
            talk.close()
    deadline = time.monotonic() + 5
    while b"200" not in await asyncio.to_thread(_exchange, target, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"):
        assert time.monotonic() < deadline


# ---- how often


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_past_the_rate_a_client_is_told_when_to_come_back_and_ours_does(tmp_path: Path, wire: str) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{PLAYER}\n")
    with serving(tmp_path / "log", "counter", *PLACES, "--token-file", str(tokens), "--rate-limit", "20") as server:
        async with aiohttp.ClientSession() as http:
            for _ in range(40):
                async with http.get(f"{server.url}/environments", headers=bearer("made-up")) as answer:
                    if answer.status == 429:
                        assert answer.headers["X-Gymwire-Code"] == Code.RATE_LIMITED
                        assert int(answer.headers["Retry-After"]) >= 1
                        break
            else:
                raise AssertionError("never refused")
        target = Target(server, tokens)
        await asyncio.gather(*(target.honest(wire) for _ in range(6)))
