"""verifiers' `vf-eval` on the environments that grade answers and run programs, and where their sandbox has gone.

Every run is made once, two at a time, with a row for either policy: most of each is the start of the peer's processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

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

ENVIRONMENTS: list[type[Environment]] = [Graded, MathPython, CodeTests, Exam, QaSearch, Swe]
#: The run whose sandbox has gone; of an environment that needs it in a call, and in what decides the score.
GONE = "gone"
Runs = Mapping[str, "Future[list[Rollout]]"]


def parts(environment: type[Environment]) -> list[Part]:
    return parts_of(environment, 2, policies=("oracle", "random"))


@pytest.fixture(scope="module")
def without_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server with swe whose shared sandbox has ended since; empty where none can run here."""
    if not can_run(Swe):
        yield ""
        return
    folder = tmp_path_factory.mktemp("without")
    token = folder / "token"
    token.write_text("a-token-of-the-tests\n")
    with serving(folder / "sandbox.log", "serve", "--token-file", str(token), command="sandbox") as sandbox:
        shared = ("--sandbox-url", sandbox.url, "--sandbox-token-file", str(token))
        with serving(folder / "server.log", "swe", *shared) as server:
            sandbox.process.terminate()
            sandbox.process.wait(30)
            yield server.url


@pytest.fixture(scope="module")
def runs(without_sandbox: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """A run on every environment that can run here, against one server of them all, and the one without."""
    python = required(peer_python, "verifiers")
    here = [environment for environment in ENVIRONMENTS if can_run(environment)]
    log = tmp_path_factory.mktemp("graders") / "server.log"
    with serving(log, *(environment.name for environment in here)) as server, ThreadPoolExecutor(2) as pool:

        def start(name: str, environment: type[Environment], url: str) -> Future[list[Rollout]]:
            folder = tmp_path_factory.mktemp(name)
            run = VfEval(python, f"{url}/{environment.name}/gym", parts(environment), folder, errors=name == GONE)
            return pool.submit(run.run)

        started = {environment.name: start(environment.name, environment, server.url) for environment in here}
        if without_sandbox:
            started[GONE] = start(GONE, Swe, without_sandbox)
        yield started


@pytest.mark.parametrize("environment", ENVIRONMENTS)
async def test_its_rewards_are_those_of_the_same_policies_in_process(
    runs: Runs, environment: type[Environment]
) -> None:
    skip_without(environment)
    rollouts, own = runs[environment.name].result(), await played(parts(environment))
    right, wrong = (rollout.reward for rollout in rollouts)
    assert [right, wrong] == [outcome.reward for outcome in own]
    assert right == 1.0 and wrong is not None and wrong < 1.0
    for rollout, outcome in zip(rollouts, own, strict=True):
        assert rollout.ok and not rollout.errors
        components = {"reward_components": dict(outcome.components)} if outcome.components else {}
        assert rollout.info == {"ending": "finished", **components}


def test_where_the_sandbox_has_gone_a_rollout_is_an_error_and_not_a_zero(runs: Runs) -> None:
    """Neither the policy that would have earned 1 nor the one that would have earned 0 is scored."""
    skip_without(Swe)
    for rollout in runs[GONE].result():
        assert (rollout.ok, rollout.reward) == (False, None)
        assert [error["type"] for error in rollout.errors] == ["TaskError"]
        assert "503" in rollout.errors[0]["message"] and "/verify" in rollout.errors[0]["message"]
        assert rollout.tool_texts[-1] == "The tool is unavailable."
