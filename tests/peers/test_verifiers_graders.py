"""verifiers' `vf-eval` on the environments that grade answers and run programs, and where their sandbox has gone.

Every run is made once, two at a time, each with a row for every policy: a rollout costs the peer seconds of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gymwire.servers import Environment
from gymwire.servers.environments.code_tests import CodeTests
from gymwire.servers.environments.exam import Exam
from gymwire.servers.environments.graded import Graded
from gymwire.servers.environments.math_python import MathPython
from gymwire.servers.environments.qa_search import QaSearch
from gymwire.servers.environments.swe.environment import Swe

from tests.peers.parts import Part, parts_of, played
from tests.peers.venvs import peer_python, required
from tests.peers.vf_eval import Rollout, VfEval
from tests.sandboxes import can_run, skip_without
from tests.serving import serving

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

#: The oracle, and policies that fall short of it; `rule` is the one of code_tests that has a tool's answer.
POLICIES: Mapping[type[Environment], tuple[str, ...]] = {
    Graded: ("oracle", "random"),
    MathPython: ("oracle", "random"),
    CodeTests: ("oracle", "rule", "random"),
    Exam: ("oracle", "random"),
    QaSearch: ("oracle", "random"),
    Swe: ("oracle", "random"),
}
Runs = Mapping[type[Environment], "Future[list[Rollout]]"]


def parts(environment: type[Environment]) -> list[Part]:
    policies = POLICIES[environment]
    return parts_of(environment, len(policies), policies=policies)


@pytest.fixture(scope="module")
def python() -> Path:
    return required(peer_python, "verifiers")


@pytest.fixture(scope="module")
def runs(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A run on every environment that can run here, against one server of them all."""
    folder = tmp_path_factory.mktemp("graders")
    here = [environment for environment in POLICIES if can_run(environment)]
    with (
        serving(folder / "server.log", *(environment.name for environment in here)) as server,
        ThreadPoolExecutor(2) as pool,
    ):
        started = {}
        for environment in here:
            work = tmp_path_factory.mktemp(environment.name)
            run = VfEval(python, f"{server.url}/{environment.name}/gym", parts(environment), work)
            started[environment] = pool.submit(run.run)
        yield started


@pytest.mark.parametrize("environment", POLICIES)
async def test_its_rewards_are_those_of_the_same_policies_in_process(
    runs: Runs, environment: type[Environment]
) -> None:
    skip_without(environment)
    rollouts, own = runs[environment].result(), await played(parts(environment))
    assert [rollout.reward for rollout in rollouts] == [outcome.reward for outcome in own]
    assert rollouts[0].reward == 1.0 > min(rollout.reward or 0.0 for rollout in rollouts)
    for rollout, outcome in zip(rollouts, own, strict=True):
        assert rollout.ok and not rollout.errors
        components = {"reward_components": dict(outcome.components)} if outcome.components else {}
        assert rollout.info == {"ending": "finished", **components}


def test_where_the_sandbox_has_gone_a_rollout_is_an_error_and_not_a_zero(python: Path, tmp_path: Path) -> None:
    """The shared sandbox ends after the server has found it. A policy that runs no program is scored as ever."""
    skip_without(MathPython)
    token = tmp_path / "token"
    token.write_text("a-token-of-the-tests\n")
    with serving(tmp_path / "sandbox.log", "serve", "--token-file", str(token), command="sandbox") as sandbox:
        shared = ("--sandbox-url", sandbox.url, "--sandbox-token-file", str(token))
        with serving(tmp_path / "server.log", "math_python", "code_tests", *shared) as server:
            sandbox.process.terminate()
            sandbox.process.wait(30)
            ran, guessed = _run(python, server.url, tmp_path, parts(MathPython))
            (graded,) = _run(python, server.url, tmp_path, parts(CodeTests)[:1])
    for broken in (ran, graded):
        assert (broken.ok, broken.reward) == (False, None)
        assert "503" in broken.errors[0]["message"] and "/verify" in broken.errors[0]["message"]
    assert ran.tool_texts[0] == "The tool is unavailable."
    assert (guessed.ok, guessed.reward) == (True, 0.0)


def _run(python: Path, url: str, folder: Path, chosen: list[Part]) -> list[Rollout]:
    name = chosen[0].environment.name
    (folder / name).mkdir()
    return VfEval(python, f"{url}/{name}/gym", chosen, folder / name, errors=True).run()
