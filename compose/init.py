"""Make the deployment's secrets as files in volumes, each once; what is there already stays as it is.

    tokens/tokens     what clients send: one token that may play, one that may read figures (0400)
    signing/key       what the environments' servers sign handles with, for them alone (0400)
    sandbox/token     between the environments' servers and the sandbox (0440: the sandbox service is of the group);
                      beside it the one for figures
    metrics/token     the one for figures alone, for Prometheus, whose user is another one (0444)

A file is complete or not there: it is written beside its place and linked to it.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from gymwire.servers.auth import ADMIN, read_grants

ROOT = Path("/run/gymwire")


def main() -> int:
    os.umask(0o077)
    play, figures = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    made = [
        make(ROOT / "tokens/tokens", f"{play} play name=players\n{figures} admin name=metrics\n", 0o400),
        make(ROOT / "signing/key", f"{secrets.token_hex(32)}\n", 0o400),
    ]
    figures = admin_token(ROOT / "tokens/tokens")
    made += [
        make(ROOT / "metrics/token", figures, 0o444),
        make(ROOT / "sandbox/token", f"{secrets.token_urlsafe(32)} play\n{figures} admin\n", 0o440),
    ]
    print("secrets: made" if any(made) else "secrets: there already")
    return 0


def make(path: Path, text: str, mode: int) -> bool:
    """Whether the file was made; False where there is one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # of a start that was killed: in a container every one has the same number
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.link(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink()
    return True


def admin_token(path: Path) -> str:
    """The first token of the file that may read figures."""
    found = next((grant.token for grant in read_grants(path) if ADMIN in grant.scopes), None)
    if found is None:
        sys.exit(f"{path} has no token that may read figures: add a line `TOKEN admin`")
    return found


if __name__ == "__main__":
    sys.exit(main())
