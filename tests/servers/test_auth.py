"""Who may ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymwire.servers.answers import Code, Refused
from gymwire.servers.auth import Grant, Guard, TokenError, read_grants, read_tokens


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


def test_a_line_says_what_its_token_may_do(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("alpha\nbeta play name=lab\ngamma admin\ndelta play,admin name=lab\n")
    alpha, beta, gamma, delta = read_grants(file)
    assert alpha.scopes == delta.scopes == {"play", "admin"} and beta.scopes == {"play"} and gamma.scopes == {"admin"}
    assert beta.owner == delta.owner and len({alpha.owner, beta.owner, gamma.owner}) == 3
    assert Grant("alpha", frozenset({"play"})).owner == alpha.owner  # another scope keeps its sessions
    guard = Guard(file=file)
    for token, path in (("beta", "/x/mcp"), ("gamma", "/metrics"), ("beta", "/docs"), ("gamma", "/environments")):
        assert guard.admit(path, headers(authorization=f"Bearer {token}"))
    for token, path in (("beta", "/metrics"), ("gamma", "/x/mcp"), ("gamma", "/x/gym/verify"), ("gamma", "/docs/x")):
        assert code_of(guard, path, authorization=f"Bearer {token}") is Code.FORBIDDEN_SCOPE


@pytest.mark.parametrize(
    "line", ["secret-9 root", "secret-9 play name=", "secret-9 name=a name=b", "a\nsecret-9\nsecret-9"]
)
def test_a_line_that_makes_no_sense_is_named_without_its_token(tmp_path: Path, line: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{line}\n")
    with pytest.raises(TokenError) as caught:
        read_grants(file)
    assert "secret-9" not in str(caught.value) and "secret-9" not in repr(Grant("secret-9"))


def test_a_changed_file_is_taken_up_and_a_broken_one_is_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "tokens"
    file.write_text("alpha\n")
    guard = Guard(file=file)
    owner = guard.admit("/x", headers(authorization="Bearer alpha"))
    assert not guard.reread() and guard.may_play(owner)
    for broken in ("", "beta root\n", None):
        file.unlink() if broken is None else file.write_text(broken)
        assert not guard.reread() and "mend the file" in caplog.text
        caplog.clear()
        assert not guard.reread() and not caplog.text  # said once
        assert guard.admit("/x", headers(authorization="Bearer alpha")) == owner
    file.write_text("beta\n")
    assert guard.reread() and not guard.may_play(owner)
    assert code_of(guard, authorization="Bearer alpha") is Code.UNAUTHORIZED


def test_a_browser_that_was_led_astray_is_refused() -> None:
    """A page elsewhere whose name now points here (DNS rebinding) sends its own Host, and its own Origin."""
    guard = Guard(hosts=["127.0.0.1", "localhost", "[::1]"])
    for host in ("rebound.example", "rebound.example:8200", "localhost.rebound.example", "[::2]:8200", "localhost:"):
        assert code_of(guard, host=host) is Code.FORBIDDEN_HOST
    assert code_of(guard) is Code.FORBIDDEN_HOST  # HTTP/1.0 without a Host
    for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example", "http://[", "file://", "x"):
        assert code_of(guard, host="127.0.0.1:8200", origin=origin) is Code.FORBIDDEN_ORIGIN
    assert guard.admit("/x", headers(host="[::1]:8200", origin="http://[::1]:8200")) == ""
    with pytest.raises(Refused, match="one Host"):
        guard.admit("/x", [(b"host", b"127.0.0.1"), (b"host", b"evil.example")])


def test_a_request_names_one_token() -> None:
    """Whoever reads the first of two headers, and whoever reads the last, would see different clients."""
    guard, headers = Guard(["alpha"]), [(b"authorization", b"Bearer alpha"), (b"authorization", b"Bearer x")]
    for order in (headers, headers[::-1]):
        with pytest.raises(Refused, match="one Authorization"):
            guard.admit("/x", order)
