"""The trainer's tests, in a virtual environment that holds its stack: `python -m tests.trainer_stack [pytest options]`.

The stack is large, so it is cached like a peer's; this clone is installed into it anew each time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.peers.venvs import PeerMissing, peer_env, peer_python

ROOT = Path(__file__).parent.parent
RUNNER = ("pytest>=8.3,<10", "pytest-asyncio>=1.0,<2", "pytest-timeout>=2.3,<3")


def main(arguments: Sequence[str]) -> int:
    print("trainer: preparing its stack (2.7 GB the first time) ...", flush=True)
    try:
        python = peer_python("trainer_cpu")
    except PeerMissing as missing:
        print(f"trainer: not tested here: {missing}", flush=True)
        return 1 if os.environ.get("REQUIRE_PEERS") == "1" else 0
    environment = peer_env(python)
    install = [str(python), "-m", "pip", "install", "--no-input", "--quiet", "-e", str(ROOT), *RUNNER]
    subprocess.run(install, env=environment, cwd=ROOT, check=True)
    tests = [str(python), "-m", "pytest", *(arguments or ["tests/trainer"])]
    return subprocess.run(tests, env=environment, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
