"""Run in OpenEnv's environment: `openenv validate --json` for each URL or folder, after importing it once.

    python openenv_validate.py URL|FOLDER ...

Of a folder it is asked for what needs no image.

Every command runs in a process of its own. Prints one line of JSON for each: its exit status and its report.
"""

# pyright: reportMissingImports=false

import json
import os
import sys
from contextlib import redirect_stdout
from io import StringIO

from openenv.cli.__main__ import main as openenv


def validated(target: str) -> None:
    """The whole command, as its own script runs it."""
    what = ["--url", target] if "://" in target else [target, "--level", "static", "--skip-build"]
    sys.argv = ["openenv", "validate", "--json", *what]
    printed, status = StringIO(), 0
    try:
        with redirect_stdout(printed):
            openenv()
    except SystemExit as end:
        status = end.code
    print(json.dumps({"status": status, "report": json.loads(printed.getvalue())}), flush=True)


if __name__ == "__main__":
    for target in sys.argv[1:]:
        if (child := os.fork()) == 0:
            validated(target)
            os._exit(0)
        os.waitpid(child, 0)
