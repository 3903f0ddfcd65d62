"""Who may ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymwire.servers.answers import Code, Refused
from gymwire.servers.auth import Guard, TokenError, read_tokens


def headers(**values: str) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in values.items()]


def code_of(guard: Guard, path: str = "/counter/gym/verify", **values: str) -> Code:
    with pytest.raises(Refused) as caught:
        guard.admit(path, headers(**values))
    return caught.value.code


def test_without_tokens_everybody_is_the_same_nobody() -> None:
    assert Guard().admit("/x", headers(authorization="Bearer whatever")) == ""


def test_a_token_names_its_owner_and_is_not_in_the_name() -> None:
    guard = Guard(["alpha", "beta"])
    one, two = [guard.admit("/x", headers(authorization=f"Bearer {token}")) for token in ("alpha", "beta")]
    assert one != two and "alpha" not in one
    assert guard.admit("/x", headers(authorization="bearer alpha ")) == one


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Bearer ", "Bearer gamma", "Basic alpha", "alpha", "Bearer alpha beta", "Bearer \xff"]
)
def test_anything_else_is_unauthorized(value: str) -> None:
    assert code_of(Guard(["alpha"]), authorization=value) is Code.UNAUTHORIZED


def test_liveness_needs_no_token_but_metrics_do() -> None:
    guard = Guard(["alpha"])
    assert guard.admit("/health", []) == ""
    for path in ("/metrics", "/environments", "/docs", "/openapi.json", "/health/../metrics", "/health/"):
        assert code_of(guard, path) is Code.UNAUTHORIZED


def test_only_listed_hosts_are_served() -> None:
    guard = Guard(hosts=["127.0.0.1", "shop", "[::1]"])
    for host in ("127.0.0.1", "127.0.0.1:8200", "SHOP:80", "[::1]:8200", "[::1]"):
        assert guard.admit("/x", headers(host=host)) == ""
    for host in ("evil", "evil:8200", "", "127.0.0.1.evil", "shop@evil", "127.0.0.1:8200:1"):
        assert code_of(guard, host=host) is Code.FORBIDDEN_HOST
    assert Guard(hosts=["*"]).admit("/x", headers(host="evil")) == ""


def test_a_token_file_has_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# who\n\n alpha \nbeta\n")
    assert read_tokens(file) == ("alpha", "beta")
    file.write_text("# nobody\n\n")
    with pytest.raises(TokenError, match="no token"):
        read_tokens(file)
    with pytest.raises(TokenError, match="cannot be read"):
        read_tokens(tmp_path / "missing")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(TokenError, match="cannot be read"):
        read_tokens(file)
