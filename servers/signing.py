"""The signature of handles: names that cannot be guessed, and whose origin can be told after their session is gone.

The key is random, or read from a file: a key a line, at least 32 bytes each. The first signs, all are believed, so that
a new one can take over while sessions named by the old one live.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import stat
from pathlib import Path

logger = logging.getLogger("gymwire.signing")
#: Bytes of a key: as many as its digest has.
MIN_KEY_BYTES = 32


class SigningKeyError(ValueError):
    """A key file that cannot be used; the message names the fix and never a key."""


class Signer:
    """Makes handles with its first key, and knows those of all its keys; without any, with a random one."""

    def __init__(self, *keys: bytes) -> None:
        self._keys = tuple(dict.fromkeys(keys)) or (secrets.token_bytes(32),)

    def new_handle(self) -> str:
        return self.handle_of(secrets.token_urlsafe(16))

    def handle_of(self, name: str) -> str:
        return f"{name}.{_signature(self._keys[0], name)}"

    def is_ours(self, handle: str) -> bool:
        name, _, text = handle.partition(".")
        signature = text.encode("utf-8", "replace")
        return any(hmac.compare_digest(signature, _signature(key, name).encode()) for key in self._keys)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """What tells keys apart without telling them, in their order."""
        return tuple(hmac.new(key, b"gymwire: fingerprint", hashlib.sha256).hexdigest()[:16] for key in self._keys)


def _signature(key: bytes, name: str) -> str:
    return hmac.new(key, name.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:32]


def read_keys(path: Path) -> tuple[bytes, ...]:
    """The keys of a file, in order; blank lines and `#` comments are skipped. Raises `SigningKeyError`."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise SigningKeyError(f"signing key file {path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise SigningKeyError(f"signing key file {path} is not text: `openssl rand -hex 32` makes a key") from None
    numbered = [(number, line.encode()) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not numbered:
        raise SigningKeyError(f"signing key file {path} holds no key: `openssl rand -hex 32` makes one")
    for number, key in numbered:
        if len(key) < MIN_KEY_BYTES:
            text = f"signing key file {path}, line {number}: a key has at least {MIN_KEY_BYTES} bytes, not {len(key)}"
            raise SigningKeyError(f"{text}; `openssl rand -hex 32` makes one")
    return tuple(key for _, key in numbered)


def warn_if_anybody_reads(path: Path) -> None:
    """Say so where every user of the machine could sign handles."""
    if path.stat().st_mode & stat.S_IROTH:
        logger.warning("signing key file %s can be read by every user of this machine: chmod 600 %s", path, path)
