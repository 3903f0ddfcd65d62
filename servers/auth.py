"""Who may ask: bearer tokens, and the hosts a browser may have been sent to, or its page may have come from.

A token's owner name is a digest of it, so that sessions can be bound to their token without keeping it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from .answers import Code, Refused

#: Paths that answer without a token: liveness alone.
OPEN_PATHS = frozenset({"/health", "/healthz", "/livez", "/readyz"})
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


class TokenError(ValueError):
    """A token file that cannot be used; the message names the fix."""


def read_tokens(path: Path) -> tuple[str, ...]:
    """One token a line; blank lines and `#` comments are skipped."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TokenError(f"token file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TokenError(f"token file {path} cannot be read: it is not UTF-8") from None
    tokens = tuple(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    if not tokens:
        raise TokenError(f"token file {path} holds no token; write one a line")
    return tokens


class Guard:
    """Checks every request before a handler sees it."""

    def __init__(self, tokens: Iterable[str] = (), hosts: Iterable[str] = ()) -> None:
        self._owners = {_digest(token): _digest(token).hex()[:16] for token in tokens}
        self._hosts = frozenset(host.lower() for host in hosts)

    def admit(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The owner's name, empty where no token is asked for. Raises `Refused`."""
        host = authorization = origin = b""
        for name, value in headers:
            if name == b"host":
                host = value
            elif name == b"authorization":
                authorization = value
            elif name == b"origin":
                origin = value.strip(b" \t")
        if self._hosts and "*" not in self._hosts and _name_of(host) not in self._hosts:
            name = _name_of(host)[:80]
            raise Refused(Code.FORBIDDEN_HOST, f"Host {name!r} is not allowed here; allow it with --allow-host.")
        if origin and "*" not in self._hosts and not self._is_ours(origin, host):
            raise Refused(Code.FORBIDDEN_ORIGIN, "Requests from this origin are refused.")
        if not self._owners or path in OPEN_PATHS:
            return ""
        scheme, _, token = authorization.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        owner = ""
        for known, name in self._owners.items():
            if hmac.compare_digest(known, digest):
                owner = name
        if not owner or scheme.lower() != b"bearer":
            raise Refused(Code.UNAUTHORIZED, "This server asks for a token: send `Authorization: Bearer TOKEN`.")
        return owner

    def _is_ours(self, origin: bytes, host: bytes) -> bool:
        """Whether a page's origin is this host, the machine itself, or a host that was allowed."""
        try:
            name = urlsplit(origin.decode("latin-1")).hostname
            return name is not None and (name in LOOPBACK or name in self._hosts or name == _hostname(host))
        except ValueError:
            return False


def _hostname(host: bytes) -> str | None:
    return urlsplit(f"//{host.decode('latin-1')}").hostname


def _name_of(host: bytes) -> str:
    """The host without its port, lower case."""
    text = host.decode("latin-1").lower()
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdigit() else text


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
