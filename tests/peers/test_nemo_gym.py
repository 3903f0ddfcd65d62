"""NeMo Gym's own agent, its `gym eval run` and its session check, against a server of ours.

Each run is made once and covers all environments: two that work, and one that breaks in every second row.
"""

from __future__ import annotations

import json
from math import fsum, isclose
from pathlib import Path

import pytest
from gymwire.servers.environments.battery import Battery
from gymwire.servers.environments.ledger import Ledger
from gymwire.servers.types import Json

from tests.peers.broken import BrokenLedger
from tests.peers.gym_eval import GymEval, Result
from tests.peers.parts import Part, parts_of, played
from tests.peers.processes import finished
from tests.peers.venvs import peer_env, peer_python, required

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

HEALTHY = {"battery": parts_of(Battery, 4), "ledger": parts_of(Ledger, 8)}
BROKEN = parts_of(BrokenLedger, 4, split="eval")
ALL = [*HEALTHY["battery"], *HEALTHY["ledger"], *BROKEN]
REPEATS = 2
#: How a run seeds and who runs it: 0.7.0 both ways, and 0.4.0.
PEERS = {"legacy": "nemo_gym_0_7", "typed": "nemo_gym_0_7", "old": "nemo_gym_0_4"}


@pytest.fixture(scope="module", params=PEERS)
def result(request: pytest.FixtureRequest, breaking_server: str, tmp_path_factory: pytest.TempPathFactory) -> Result:
    python = required(peer_python, PEERS[request.param])
    return GymEval(python, request.param, breaking_server, ALL, tmp_path_factory.mktemp(request.param), REPEATS).run()


@pytest.mark.parametrize("environment", HEALTHY)
async def test_its_agent_earns_what_the_same_policies_earn_in_process(result: Result, environment: str) -> None:
    own = await played(HEALTHY[environment])
    rewards = _rewards(result, environment)
    assert rewards == [outcome.reward for outcome in own for _ in range(REPEATS)], result.log
    assert len(set(rewards)) > 1  # oracle and rule can be told apart


@pytest.mark.parametrize("environment", HEALTHY)
async def test_its_agents_verdict_is_whole(result: Result, environment: str) -> None:
    own = await played(HEALTHY[environment])
    for line, outcome in zip(_in_order(result, environment)[::REPEATS], own, strict=True):
        assert not line.get("mask_sample")
        assert line["ending"] == "finished"
        assert line["reward_components"] == dict(outcome.components)
        assert "transcript_disagreements" not in line


def test_its_means_are_ours(result: Result) -> None:
    for environment in HEALTHY:
        rewards = _rewards(result, environment)
        metrics = result.metrics[environment]
        assert isclose(metrics["key_metrics"]["mean/reward"], fsum(rewards) / len(rewards))
        assert not any(key.startswith("coverage/") for key in metrics["agent_metrics"])


async def test_a_broken_session_is_masked(result: Result) -> None:
    own = await played(BROKEN)
    assert [outcome.masked for outcome in own] == [False, True, False, True]
    for line, outcome in zip(_in_order(result, "broken_ledger")[::REPEATS], own, strict=True):
        assert bool(line.get("mask_sample")) == outcome.masked
        if outcome.masked:
            assert line["failure_kind"] == outcome.failure_kind == "broken_ledger:exception"
            assert "the ledger's disk is gone" in line["failure_reason"]
        else:
            assert line["reward"] == outcome.reward


async def test_a_broken_session_is_never_averaged_as_zero(result: Result) -> None:
    scored = [outcome.reward for outcome in await played(BROKEN) if outcome.reward is not None]
    metrics = result.metrics["broken_ledger"]
    for measured in (metrics["agent_metrics"], metrics["key_metrics"]):
        assert isclose(measured["mean/reward"], fsum(scored) / len(scored))
        assert measured["coverage/masked_rollouts"] == 2 * REPEATS
        assert measured["coverage/measured_rollouts"] == 2 * REPEATS
        assert measured["coverage/fully_masked_tasks"] == 2


def test_its_session_check_holds(breaking_server: str, tmp_path: Path) -> None:
    """With the task in the seed's data, and with the place of one of the server's own rows."""
    python = required(peer_python, "nemo_gym_0_7")
    cases = [_case(breaking_server, parts[0], by_place) for parts in HEALTHY.values() for by_place in (False, True)]
    command = [python, Path(__file__).with_name("gym_contract.py"), *map(json.dumps, cases)]
    status, output = finished(command, tmp_path / "check.log", peer_env(python), tmp_path, timeout_s=60)
    assert status == 0, output
    assert output.count(" holds\n") == len(cases)


def _case(url: str, part: Part, by_place: bool) -> Json:
    name = part.environment.name
    return {
        "url": f"{url}/{name}/gym",
        "session": f"checked-{name}-{by_place}",
        "task": {"taskset": "train" if by_place else name, "task_id": "3"},
        "data": {} if by_place else dict(part.row.data),
    }


def _in_order(result: Result, environment: str) -> list[Json]:
    lines = result.lines[environment]
    return sorted(lines, key=lambda line: (line["_ng_task_index"], line["_ng_rollout_index"]))


def _rewards(result: Result, environment: str) -> list[float]:
    return [line["reward"] for line in _in_order(result, environment)]
