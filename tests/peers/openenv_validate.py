"""Run in OpenEnv's environment: `openenv validate --json --url URL` for each URL, after importing it once.

    python openenv_validate.py URL ...

Every command runs in a process of its own. Prints one line of JSON for each URL: its exit status and its report.
"""

# pyright: reportMissingImports=false

import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO

from openenv.cli.__main__ import main as openenv


def validated(url: str) -> None:
    """The whole command, as its own script runs it."""
    sys.argv = ["openenv", "validate", "--json", "--url", url]
    printed, status = StringIO(), 0
    try:
        with redirect_stdout(printed):
            openenv()
    except SystemExit as end:
        status = end.code
    print(json.dumps({"status": status, "report": json.loads(printed.getvalue())}), flush=True)


if __name__ == "__main__":
    for url in sys.argv[1:]:
        if (child := os.fork()) == 0:
            validated(url)
            os._exit(0)
        os.waitpid(child, 0)
