"""Prints the pairs as JSON: `PAIRS` in this process, and one on the server at `URL`, if one is named."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from contextlib import redirect_stdout

from gymwire.trainer.stack import prepare_process


def main() -> None:
    sessions, pairs, urls = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    logging.disable(logging.INFO)
    prepare_process(offline=True)
    from .pairs import measure  # imports torch and vLLM, which read the environment

    with redirect_stdout(sys.stderr):  # of vLLM's
        measured = asyncio.run(measure(sessions, pairs, urls))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
