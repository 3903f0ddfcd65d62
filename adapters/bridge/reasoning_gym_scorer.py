"""The process that scores: `{"family", "seed", "config", "answer"}` a line in, `{"score"}` or `{"error"}` a line out.

An answer that is null stands for the expected one.
"""

from __future__ import annotations

import json
import os
import resource
import sys

from gymwire.adapters.bridge.reasoning_gym import dataset

MEMORY_BYTES = 4 << 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a scorer prints is no answer
    for line in sys.stdin:
        task = json.loads(line)
        answers.write(json.dumps(scored(**task) if task else {}) + "\n")
        answers.flush()


def scored(family: str, seed: int, config: dict[str, object], answer: str | None) -> dict[str, object]:
    tasks = dataset(family, seed, config)
    task = tasks[0]
    try:
        return {"score": float(tasks.score_answer(task["answer"] if answer is None else answer, task))}
    except Exception as error:  # the boundary of a scorer: whose fault it is, is found out by the expected answer
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
