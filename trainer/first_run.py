"""A whole run on this machine: serve codebook, warm-start the tiny policy, train it, evaluate, write the report.

python -m gymwire.trainer.first_run [FOLDER [OPTION ...]]        (`make train` installs what it needs first)

The options are those of `gymwire train`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from time import strftime

from ..adapters.demo_server import NotServing, serving

CONFIG = Path(__file__).parent / "configs" / "tiny-cpu.yaml"


def main(arguments: Sequence[str]) -> int:
    folder = Path(arguments[0]) if arguments else Path("runs") / strftime("first-%Y%m%d-%H%M%S")
    try:
        return asyncio.run(_run(folder, arguments[1:]))
    except NotServing as error:
        print(f"gymwire: {error}", file=sys.stderr)
        return 1


async def _run(folder: Path, options: Sequence[str]) -> int:
    policy = folder / "policy"
    async with serving(["codebook"]) as url:
        print(f"codebook is served at {url}; the run goes to {folder}", flush=True)
        if status := await _gymwire("policy", "tiny", str(policy)):
            return status
        settings = {"model.path": policy, "environment.url": url, "log.dir": folder / "run"}
        given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        status = await _gymwire("train", str(CONFIG), *given, *options)
    if status == 0:
        print(f"The report: {folder / 'run' / 'report.html'}; its tokens checked again: gymwire audit {folder / 'run'}")
    return status


async def _gymwire(*words: str) -> int:
    """A command of ours, in a process of its own: vLLM leaves its process as it likes."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "gymwire.servers.cli", *words)
    return await process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
