"""Who may ask: bearer tokens, and the hosts a browser may have been sent to, or its page may have come from.

A token file has one token a line, then what it may do and what to call it:

    TOKEN
    TOKEN play name=lab-a
    TOKEN admin

A token alone may do both. `play` is every wire, `admin` the figures of all tenants (`/metrics`); what is served
and the documentation are open to either, liveness to everybody. Sessions belong to their token's *owner*: a digest
of the token, or of its name, so that tokens of one name take over each other's sessions when one replaces the other.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .answers import Code, Refused

logger = logging.getLogger("gymwire.auth")
READ_EVERY_S = 0.5
PLAY, ADMIN = "play", "admin"
SCOPES = frozenset((PLAY, ADMIN))
#: Paths that answer without a token: liveness alone.
OPEN_PATHS = frozenset({"/health", "/healthz", "/livez", "/readyz"})
ADMIN_PATHS = frozenset({"/metrics"})
#: What either scope may read.
COMMON_PATHS = frozenset({"/environments", "/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect"})
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


class TokenError(ValueError):
    """A token file that cannot be used; the message names the fix and never a token."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A token and what it may do."""

    token: str = field(repr=False)
    scopes: frozenset[str] = SCOPES
    name: str = ""

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.token.encode()).digest()

    @property
    def owner(self) -> str:
        """What its sessions are bound to, alike on every replica; no token can be read from it."""
        digest = hashlib.sha256(f"name={self.name}".encode()).digest() if self.name else self.digest
        return digest.hex()[:16]


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens of a file alone, as a client needs them. Raises `TokenError`."""
    return tuple(grant.token for grant in read_grants(path))


def read_grants(path: Path) -> tuple[Grant, ...]:
    """The tokens of a file; blank lines and `#` comments are skipped. Raises `TokenError`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TokenError(f"token file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise TokenError(f"token file {path} cannot be read: it is not UTF-8") from None
    grants = tuple(
        _grant(line.split(), f"token file {path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    )
    if not grants:
        raise TokenError(f"token file {path} holds no token; write one a line, or make one with `gymwire token new`")
    if len({grant.token for grant in grants}) < len(grants):
        raise TokenError(f"token file {path} holds a token twice; keep one of its lines")
    return grants


def _grant(words: list[str], where: str) -> Grant:
    token, *more = words
    names = [word[5:] for word in more if word.startswith("name=")]
    scopes = {part for word in more if not word.startswith("name=") for part in word.split(",") if part}
    if not scopes <= SCOPES or len(names) > 1 or not all(names):
        raise TokenError(f"{where}: after the token come only {PLAY}, {ADMIN} and one name=NAME")
    return Grant(token, frozenset(scopes) or SCOPES, *names)


class Guard:
    """Checks every request before a handler sees it. With a file, `reread` takes up what changed in it."""

    def __init__(self, tokens: Iterable[str | Grant] = (), hosts: Iterable[str] = (), file: Path | None = None) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self.file, self._seen = file, _stamp(file)
        self._asks = False
        self._take(read_grants(file) if file else [item if isinstance(item, Grant) else Grant(item) for item in tokens])

    def _take(self, grants: Iterable[Grant]) -> None:
        self._grants = {grant.digest: (grant.owner, grant.scopes) for grant in grants}
        self._players = frozenset(owner for owner, scopes in self._grants.values() if PLAY in scopes)
        self._asks = bool(self._grants)

    def reread(self) -> bool:
        """Take up a changed file: whether there was one. A file that cannot be used changes nothing but the log."""
        stamp = _stamp(self.file)
        if self.file is None or stamp == self._seen:
            return False
        self._seen = stamp
        try:
            self._take(read_grants(self.file))
        except TokenError as error:
            logger.error(
                "%s. The tokens from before stay valid; mend the file, it is read again when it changes", error
            )
            return False
        logger.info("token file %s was read again: %d tokens", self.file, len(self._grants))
        return True

    async def keep_reading(self) -> None:
        """Take up changes of the file, for ever; returns at once where there is none."""
        while self.file is not None:
            await asyncio.sleep(READ_EVERY_S)
            self.reread()

    def may_play(self, owner: str) -> bool:
        """Whether an owner whose socket was admitted before still has a token for it."""
        return not self._asks or owner in self._players

    def admit(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The owner's name, empty where no token is asked for. Raises `Refused`."""
        host = authorization = origin = b""
        for name, value in headers:
            if name == b"host":
                if host:
                    raise Refused(Code.FORBIDDEN_HOST, "A request has one Host header.")
                host = value
            elif name == b"authorization":
                if authorization:
                    raise Refused(Code.UNAUTHORIZED, "A request has one Authorization header.")
                authorization = value
            elif name == b"origin":
                origin = value.strip(b" \t")
        if self._hosts and "*" not in self._hosts and _name_of(host) not in self._hosts:
            name = _name_of(host)[:80]
            raise Refused(Code.FORBIDDEN_HOST, f"Host {name!r} is not allowed here; allow it with --allow-host.")
        if origin and "*" not in self._hosts and not self._is_ours(origin, host):
            raise Refused(Code.FORBIDDEN_ORIGIN, "Requests from this origin are refused.")
        if not self._asks or path in OPEN_PATHS:
            return ""
        owner, scopes = self._known(authorization)
        if path in ADMIN_PATHS:
            if ADMIN not in scopes:
                raise Refused(Code.FORBIDDEN_SCOPE, f"This token may not read {path}: that needs the scope {ADMIN}.")
        elif PLAY not in scopes and path not in COMMON_PATHS:
            raise Refused(Code.FORBIDDEN_SCOPE, f"This token may not play: that needs the scope {PLAY}.")
        return owner

    def _known(self, authorization: bytes) -> tuple[str, frozenset[str]]:
        """Compared with every token, so that the time tells nothing about any. Raises `Refused`."""
        scheme, _, token = authorization.partition(b" ")
        digest = hashlib.sha256(token.strip()).digest()
        found = None
        for known, granted in self._grants.items():
            if hmac.compare_digest(known, digest):
                found = granted
        if found is not None and scheme.lower() == b"bearer":
            return found
        raise Refused(Code.UNAUTHORIZED, "This server asks for a token: send `Authorization: Bearer TOKEN`.")

    def _is_ours(self, origin: bytes, host: bytes) -> bool:
        """Whether a page's origin is this host, the machine itself, or a host that was allowed."""
        try:
            name = urlsplit(origin.decode("latin-1")).hostname
            return name is not None and (name in LOOPBACK or name in self._hosts or name == _hostname(host))
        except ValueError:
            return False


def _stamp(file: Path | None) -> tuple[int, ...]:
    """Tells a file that was written or replaced; a mounted secret is replaced by a link elsewhere."""
    try:
        found = file.stat() if file else None
    except OSError:
        return (-1,)
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else ()


def _hostname(host: bytes) -> str | None:
    return urlsplit(f"//{host.decode('latin-1')}").hostname


def _name_of(host: bytes) -> str:
    """The host without its port, lower case."""
    text = host.decode("latin-1").lower()
    name, colon, port = text.rpartition(":")
    return name if colon and port.isdigit() else text
