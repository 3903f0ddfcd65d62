"""Hidden tests: what a repository's probes return, in a job of its own.

The job gets the files under test and the probes, and answers what each probe returned; what they should return is
known to our side alone, which asked the right files in another job. So a program that ends early, patches the test
framework, prints verdicts or compares equal to everything gains nothing: it has to return the right values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...sandbox.jobs import PYTHON, Job, Limits, Result, Sandbox, Verdict
from .repositories import Repository

PROBES, RUNNER, ANSWERS = "hidden_probes.py", "hidden_runner.py", "hidden_answers.json"
LIMITS = Limits(wall_s=20.0, cpu_s=20.0)
#: Paths a change cannot reach: the visible tests, and whatever the hidden ones bring.
TESTS, HIDDEN = "tests", "hidden_"

_RUNNER = f"""\
import json, sys
sys.path.insert(0, "")
import {PROBES.removesuffix(".py")} as probes

answers = {{}}
for name in [name for name in vars(probes) if name.startswith("probe_")]:
    try:
        answers[name] = ["value", getattr(probes, name)()]
    except Exception as error:
        answers[name] = ["raised", type(error).__name__]
with open("{ANSWERS}", "w", encoding="utf-8") as file:
    json.dump(answers, file, sort_keys=True)
"""


class ReferenceBroken(Exception):
    """The right files do not pass their own hidden tests here: our side's failure."""


_expected: dict[str, dict[str, str]] = {}


async def passes(sandbox: Sandbox, repository: Repository, files: Mapping[str, bytes]) -> bool:
    """Whether the files do all that the right ones do. Raises `SandboxUnavailable`, `ReferenceBroken`."""
    expected = await _reference(sandbox, repository)
    return _answers(await sandbox.run(_job(repository, files))) == expected


def under_test(given: Mapping[str, bytes], now: Mapping[str, bytes]) -> dict[str, bytes]:
    """A clean copy of what was given, plus the workspace's changes, without those to tests."""
    kept = {path: data for path, data in given.items() if _is_reserved(path)}
    changed = {path: data for path, data in now.items() if not _is_reserved(path)}
    return kept | changed


def _is_reserved(path: str) -> bool:
    return path.split("/")[0] == TESTS or path.startswith(HIDDEN)


async def _reference(sandbox: Sandbox, repository: Repository) -> dict[str, str]:
    """What the right files answer; asked once a process."""
    if repository.name not in _expected:
        result = await sandbox.run(_job(repository, repository.files))
        answers = _answers(result)
        if not answers:
            raise ReferenceBroken(f"{repository.name}: {result.verdict.value}: {result.stderr[-300:].decode()}")
        _expected[repository.name] = answers
    return _expected[repository.name]


def _job(repository: Repository, files: Mapping[str, bytes]) -> Job:
    hidden = {PROBES: repository.probes, RUNNER: _RUNNER.encode()}
    return Job((PYTHON, RUNNER), {**files, **hidden}, limits=LIMITS, collect=True)


def _answers(result: Result) -> dict[str, str]:
    """Each probe's answer as JSON text, in which 1, 1.0 and true differ; nothing when the job did not finish."""
    if result.verdict is not Verdict.COMPLETED:
        return {}
    try:
        said = json.loads(result.files.get(ANSWERS, b""))
    except (ValueError, RecursionError):
        return {}
    return {name: json.dumps(value, sort_keys=True) for name, value in said.items()} if isinstance(said, dict) else {}
