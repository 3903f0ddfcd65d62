"""Run in OpenEnv's environment: its runtime graders, over episodes of a server.

    python openenv_grade.py CASES_FILE

A case is {"url", "reset", "actions"}. Prints one line of JSON for each case: what each grader said and why, the steps
that were taken (until done), and what broke them off.
"""

# pyright: reportMissingImports=false

import json
import sys
from pathlib import Path
from types import SimpleNamespace

from openenv.validation.graders.runtime.basic import (
    ObservationSchemaGrader,
    RewardWellFormedGrader,
    StateContractGrader,
)
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import RuntimePlan

GRADERS = (RewardWellFormedGrader, ObservationSchemaGrader, StateContractGrader)


def grade(case: dict) -> dict:
    reset = {"episode_id": "graded", "seed": 7, "options": case["reset"]}
    plan = RuntimePlan.model_validate({"plan_schema_version": "1", "reset": reset, "actions": case["actions"]})
    evidence = collect_runtime_evidence(case["url"], plan, episode_timeout_s=30)
    manifest = SimpleNamespace(reward=SimpleNamespace(range=(0.0, 1.0)))
    subject = SimpleNamespace(runtime_evidence=evidence, manifest=manifest)
    said = [grader().run(subject) for grader in GRADERS]
    steps = sum(1 for exchange in evidence.exchanges if exchange.operation == "step")
    return {
        **{result.check_id.removeprefix("runtime."): [result.status.value, *result.evidence] for result in said},
        "failure": evidence.failure_reason,
        "steps": steps,
    }


if __name__ == "__main__":
    for case in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(grade(case)))
