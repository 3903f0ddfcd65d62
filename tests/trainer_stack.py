"""The trainer's stack for a machine without a GPU, in a virtual environment of its own, cached like a peer's.

    python -m tests.trainer_stack pytest [OPTION ...]     its tests (default: tests/trainer)
    python -m tests.trainer_stack MODULE [ARGUMENT ...]   a module, as `python -m` runs it

This clone is installed into it anew each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.peers.venvs import PeerMissing, beside_peer, peer_env

ROOT = Path(__file__).parent.parent
#: What runs the tests, and the tracker that one of them reads.
RUNNER = (
    "pytest>=8.3,<10",
    "pytest-asyncio>=1.0,<2",
    "pytest-timeout>=2.3,<3",
    "pytest-xdist>=3,<4",
    "tensorboard>=2.19,<3",
)


def main(arguments: Sequence[str]) -> int:
    module, *options = arguments or ("pytest",)
    print("trainer: preparing its stack (2.7 GB the first time) ...", flush=True)
    try:
        python = stack_python()
    except PeerMissing as missing:
        print(f"trainer: not to be had here: {missing}", flush=True)
        return 1 if module != "pytest" or os.environ.get("REQUIRE_PEERS") == "1" else 0
    if module == "pytest" and not options:
        options = ["tests/trainer", "-n", "2", "--dist", "loadfile"]
    return subprocess.run([str(python), "-m", module, *options], env=peer_env(python), cwd=ROOT).returncode


def stack_python() -> Path:
    """The stack's interpreter, this clone installed into it. Raises `PeerMissing`, or `CalledProcessError` of pip."""
    return beside_peer("trainer_cpu", *RUNNER)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
