"""verifiers' `vf-eval @ eval.toml` with its NeMo Gym taskset, against a server of ours.

The four runs are made once, two at a time: most of each is the start of the peer's own processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from gymwire.servers.environments.battery import Battery
from gymwire.servers.environments.ledger import Ledger
from gymwire.servers.types import text_of

from tests.adapters.evaluating import evaluate, lines_in
from tests.peers.broken import BrokenLedger
from tests.peers.parts import Part, parts_of, played
from tests.peers.scripted_model import scripted_model
from tests.peers.venvs import peer_python, required
from tests.peers.vf_eval import Rollout, VfEval

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

PARTS: dict[str, Sequence[Part]] = {
    "battery": parts_of(Battery, 4),
    "ledger": parts_of(Ledger, 4),
    "broken": parts_of(BrokenLedger, 2, split="eval"),
    "door": parts_of(BrokenLedger, 2, split="eval"),
}
Runs = Mapping[str, "Future[list[Rollout]]"]


@pytest.fixture(scope="module")
def runs(breaking_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    python = required(peer_python, "verifiers")
    with ThreadPoolExecutor(2) as pool:
        started = {}
        for name, parts in PARTS.items():
            url = f"{breaking_server}/{parts[0].environment.name}/gym"
            errors, door = name in ("broken", "door"), name == "door"
            run = VfEval(python, url, parts, tmp_path_factory.mktemp(name), errors=errors, door=door)
            started[name] = pool.submit(run.run)
        yield started


@pytest.mark.parametrize("name", ["battery", "ledger"])
async def test_its_rewards_are_those_of_the_same_policies_in_process(runs: Runs, name: str) -> None:
    rollouts, own = runs[name].result(), await played(PARTS[name])
    assert [rollout.reward for rollout in rollouts] == [outcome.reward for outcome in own]
    assert len({rollout.reward for rollout in rollouts}) > 1  # oracle and rule can be told apart


@pytest.mark.parametrize("name", ["battery", "ledger"])
async def test_its_traces_hold_the_whole_verdict(runs: Runs, name: str) -> None:
    for rollout, outcome in zip(runs[name].result(), await played(PARTS[name]), strict=True):
        assert rollout.ok and not rollout.errors
        assert rollout.info == {"ending": "finished", "reward_components": dict(outcome.components)}


@pytest.mark.parametrize("name", ["broken", "door"])
async def test_a_broken_session_is_an_error_and_not_a_zero(runs: Runs, name: str) -> None:
    healthy, broken = runs[name].result()
    assert (broken.ok, broken.reward) == (False, None)
    assert [error["type"] for error in broken.errors] == ["TaskError"]
    assert "503" in broken.errors[0]["message"] and "/verify" in broken.errors[0]["message"]
    assert set(broken.tool_texts) == {"The tool is unavailable."}
    own, _ = await played(PARTS[name])
    assert (healthy.ok, healthy.reward) == (True, own.reward)


def test_its_calls_over_the_mcp_door_answer_as_over_the_routes(runs: Runs) -> None:
    over_routes, over_door = runs["broken"].result(), runs["door"].result()
    assert [rollout.tool_texts for rollout in over_door] == [rollout.tool_texts for rollout in over_routes]
    assert over_door[0].info == over_routes[0].info


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
@pytest.mark.parametrize("name", ["battery", "ledger", "broken"])
def test_gymwire_eval_finds_what_it_finds(
    runs: Runs, breaking_server: str, name: str, wire: str, tmp_path: Path
) -> None:
    """The same rows of the same server by the same model: rewards, what tools said, and errors where we mask."""
    rollouts, parts = runs[name].result(), PARTS[name]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(part.to_json()) + "\n" for part in parts))
    url = f"{breaking_server}/{parts[0].environment.name}"
    with scripted_model(parts) as model:
        options = ("--wire", wire, "--rows", str(rows), "--out", str(tmp_path), "--max-failed", "1")
        done = evaluate(url, f"{model.url}/v1", *options)
    assert done.exit_code == 0, done.output
    lines = lines_in(tmp_path)
    assert [line["reward"] for line in lines] == [rollout.reward for rollout in rollouts]
    assert [line["failure"] is None for line in lines] == [rollout.ok for rollout in rollouts]
    for line, rollout in zip(lines, rollouts, strict=True):
        assert line["components"] == rollout.info.get("reward_components", {})
        if rollout.ok:
            said = [text_of(message["content"]) for message in line["messages"] if message["role"] == "tool"]
            assert said == list(rollout.tool_texts)
