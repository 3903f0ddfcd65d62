"""One run, in a process of its own: vLLM leaves its process as it likes.

python -m tests.learn.process ARM SEED STEPS POLICY URL FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from gymwire.trainer import stack
from gymwire.trainer.checks import Findings, check

from .arms import ARMS, config_of


def main(arguments: Sequence[str]) -> int:
    name, seed, steps, policy, url, folder = arguments
    arm = ARMS[name]
    config = config_of(
        arm, seed=int(seed), steps=int(steps), policy=Path(policy), url=url, folder=Path(folder)
    )  # fmt: skip
    findings = Findings()
    plan = asyncio.run(check(config, findings))
    if findings.faults or plan is None:
        print("\n".join(findings.faults), file=sys.stderr)
        return 1
    stack.prepare_process(offline=True)
    from .run import train

    return train(config, plan, failed_is_zero=arm.failed_is_zero)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
