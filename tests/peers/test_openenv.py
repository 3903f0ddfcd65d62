"""OpenEnv's own clients, validator and runtime graders, against a server of ours with all environments.

Each of the peer's programs runs once, two at a time: most of each is the start of the peer's own processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from gymwire.servers.catalog import find, installed
from gymwire.servers.policies import Call
from gymwire.servers.types import Json

from tests.peers.broken import BrokenLedger
from tests.peers.openenv_runs import CLIENTS, OpenEnvRuns, Played
from tests.peers.parts import parts_of
from tests.peers.venvs import peer_python, required
from tests.sandboxes import can_run
from tests.serving import serving

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]
SPLIT = "eval"
ENVIRONMENTS = {name: environment for name in installed() if can_run(environment := find(name))}
ALL = {**ENVIRONMENTS, BrokenLedger.name: BrokenLedger}
GRADERS = ("reward_well_formed", "observation_schema", "state_contract")
#: What two clients do in the same row at the same time, a move each in turn.
ADDING = (Call("add", {"n": 3}), Call("read"))
READING = (Call("read"), Call("read"))


@dataclass
class Runs:
    """The plays (by environment: the oracle's row, the rule's row), and what the peer's programs make of them."""

    plays: Mapping[str, Sequence[Played]]
    seen: Future[list[Json]]
    graded: Future[list[Json]]
    validated: Future[list[Json]]

    def of(self, client: str, name: str) -> list[tuple[Played, Json]]:
        """Each play of one environment, and what the client saw of it."""
        seen, place = self.seen.result(), len(ALL) * CLIENTS.index(client) + list(ALL).index(name)
        return list(zip(self.plays[name], seen[2 * place : 2 * place + 2], strict=True))

    def side_by_side(self, client: str) -> tuple[Json, Json]:
        place = 2 * (len(ALL) * len(CLIENTS) + CLIENTS.index(client))
        adding, reading = self.seen.result()[place : place + 2]
        return adding, reading


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    log = tmp_path_factory.mktemp("openenv") / "server.log"
    with serving(log, *ENVIRONMENTS, "tests.peers.broken:BrokenLedger") as running:
        yield running.url


@pytest.fixture(scope="module")
def runs(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    python = required(peer_python, "openenv")
    plays = {
        name: [Played(SPLIT, index, part) for index, part in enumerate(parts_of(environment, 2, SPLIT))]
        for name, environment in ALL.items()
    }
    with ThreadPoolExecutor(2) as pool:
        peer = OpenEnvRuns(python, server, tmp_path_factory.mktemp("runs"), pool)
        cases = [peer.case(client, played) for client in CLIENTS for pair in plays.values() for played in pair]
        for client in CLIENTS:
            first = plays["counter"][0]
            child = {"parent": len(cases)}
            cases += [peer.case(client, first, ADDING), peer.case(client, first, READING) | child]
        graded = peer.grade([plays[name][0] for name in ENVIRONMENTS])
        yield Runs(plays, peer.play(cases), graded, peer.validate(list(ENVIRONMENTS)))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_its_clients_earn_what_the_same_policies_earn_in_process(runs: Runs, name: str, client: str) -> None:
    for played, seen in runs.of(client, name):
        outcome = played.own.outcome
        assert (seen["reward"], seen["done"]) == (outcome.reward, True)
        assert seen["verdict"] == {
            "code": "ok",
            "ending": "finished",
            "components": dict(outcome.components),
            "disagreements": [],
        }


def test_the_policies_can_be_told_apart(runs: Runs) -> None:
    rewards = {(oracle.own.outcome.reward, rule.own.outcome.reward) for oracle, rule in runs.plays.values()}
    assert all(oracle == 1.0 for oracle, _ in rewards)
    assert any(rule not in (1.0, None) for _, rule in rewards)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_its_clients_see_what_the_policies_see_in_process(runs: Runs, name: str, client: str) -> None:
    for played, seen in runs.of(client, name):
        assert seen["first"] == [0.0, False]
        assert seen["prompt"] == list(played.part.row.prompt)
        assert seen["tools"] == played.own.tools
        assert seen["texts"] == played.own.texts
        assert seen["state"]["step_count"] == len(seen["steps"]) + 1  # verify is one; JSON-RPC's calls are none


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_healthy_step_is_worth_nothing_until_the_episode_ends(runs: Runs, name: str, client: str) -> None:
    for played, seen in runs.of(client, name):
        ended = [played.own.outcome.reward, True, None]
        for step in seen["steps"]:
            assert step in ([0.0, False, None], ended)
        assert ended not in seen["steps"][:-1]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broken_session_is_done_without_a_reward(runs: Runs, client: str) -> None:
    (healthy, seen), (_, broken) = runs.of(client, BrokenLedger.name)
    assert seen["reward"] == healthy.own.outcome.reward
    assert (broken["reward"], broken["done"]) == (None, True)
    assert broken["verdict"]["code"] == "masked"
    assert broken["verdict"]["failure_kind"] == "broken_ledger:exception"
    assert "the ledger's disk is gone" in broken["verdict"]["failure_reason"]
    assert set(broken["texts"]) == {"The tool is unavailable."}
    assert all(step == [None, True, "broken_ledger:exception"] for step in broken["steps"])


@pytest.mark.parametrize("client", CLIENTS)
def test_two_clients_at_once_share_nothing(runs: Runs, client: str) -> None:
    start = runs.plays["counter"][0].part.row.data["start"]
    adding, reading = runs.side_by_side(client)
    assert adding["prompt"] == reading["prompt"]
    assert adding["texts"] == ["added", str(start + 3)]
    assert reading["texts"] == [str(start), str(start)]
    assert adding["state"]["episode_id"] != reading["state"]["episode_id"]


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_its_validator_passes(runs: Runs, name: str) -> None:
    said = runs.validated.result()[list(ENVIRONMENTS).index(name)]
    assert said["status"] == 0, said
    assert said["report"]["passed"] is True and said["report"]["summary"]["failed_criteria"] == [], said


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_its_runtime_graders_pass(runs: Runs, name: str) -> None:
    played, said = runs.plays[name][0], runs.graded.result()[list(ENVIRONMENTS).index(name)]
    assert {grader: said[grader][0] for grader in GRADERS} == dict.fromkeys(GRADERS, "pass"), said
    assert said["failure"] is None and said["steps"] >= 2 + len(played.own.calls), said
