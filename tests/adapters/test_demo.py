"""The demo: what it plays, what it checks by itself, and that it ends what it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from gymwire.adapters.demo import bundled
from gymwire.adapters.demo_faults import breaks, broken_twin
from gymwire.adapters.demo_rounds import BROKEN_POLICY, EPISODES, POLICIES, WIRES, Round, complaints

DEMO = [sys.executable, "-m", "gymwire.adapters.demo"]


def good_rounds() -> list[Round]:
    """One environment, as it should come out."""
    rewards = {"random": 0.25, "rule": 0.5, "oracle": 1.0}
    clean = [
        Round("maze", wire, policy, False, (rewards[policy],) * EPISODES, (), 1.0)
        for wire in WIRES
        for policy in POLICIES
    ]
    scored = tuple(None if breaks(index) else rewards[BROKEN_POLICY] for index in range(EPISODES))
    failures = ("maze:exception at call: broken",) * scored.count(None)
    return clean + [Round("maze", wire, BROKEN_POLICY, True, scored, failures, 1.0) for wire in WIRES]


def spoiled(wire: str, policy: str, broken: bool, rewards: Sequence[float | None]) -> list[str]:
    """What the demo says when one round came out otherwise."""
    wanted = ("maze", wire, policy, broken)
    rounds = [
        replace(item, rewards=tuple(rewards), failures=("some kind at call: why",))
        if (item.environment, item.wire, item.policy, item.broken) == wanted
        else item
        for item in good_rounds()
    ]
    return list(complaints(rounds))


def test_a_good_run_gives_no_reason_to_complain() -> None:
    assert list(complaints(good_rounds())) == []


def test_a_wire_that_scores_otherwise_is_named_with_the_row() -> None:
    said = spoiled("mcp", "random", False, [0.25] * 10 + [0.2] + [0.25] * (EPISODES - 11))
    assert len(said) == 1 and "mcp scored" in said[0] and said[0].endswith("the first row that differs is 10")


def test_equal_means_of_different_rows_are_not_equal() -> None:
    assert spoiled("mcp", "random", False, [0.2, 0.3] + [0.25] * (EPISODES - 2))


def test_a_policy_that_earns_more_than_a_better_one_is_named() -> None:
    said = spoiled("openenv", "random", False, [0.75] * EPISODES)
    assert any("maze over openenv: random earned 0.7500, more than rule" in sentence for sentence in said)


def test_a_masked_session_of_the_clean_round_is_told_with_its_reason() -> None:
    said = spoiled("local", "oracle", False, [None] + [1.0] * (EPISODES - 1))
    assert any("1 session failed though none was broken; the first: some kind" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ([0.5] * EPISODES, "no session is masked"),
        ([0.0 if breaks(index) else 0.5 for index in range(EPISODES)], "7 sessions not masked though broken"),
        ([None] * EPISODES, "57 sessions masked though not broken"),
        ([None if breaks(index) else 0.4 for index in range(EPISODES)], "57 sessions changed"),
    ],
)
def test_a_broken_round_that_masks_wrongly_is_told(rewards: list[float | None], said: str) -> None:
    assert any(said in sentence for sentence in spoiled("nemo-gym", BROKEN_POLICY, True, rewards))


def test_the_broken_twin_is_the_environment_with_numbered_rows() -> None:
    twin, sound = broken_twin("counter"), broken_twin("counter").__mro__[1]
    assert twin.name == "counter_broken" and twin is broken_twin("counter")
    plain = [row.to_json() for row in sound.rows("train", 3, 0)]  # type: ignore[attr-defined]
    assert [row.to_json() for row in twin.rows("train", 3, 0)] == [
        {**row, "_ng_task_index": index} for index, row in enumerate(plain)
    ]


@pytest.mark.slow
def test_the_demo_plays_everything_and_writes_its_table_as_data(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    done = subprocess.run([*DEMO, "--json", str(file)], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    records = json.loads(file.read_text())
    keys = {"environment", "wire", "policy", "round", "episodes", "mean_reward", "masked", "episodes_per_s"}
    assert all(set(record) == keys for record in records)
    clean = {(r["environment"], r["wire"], r["policy"]) for r in records if r["round"] == "clean"}
    assert clean == {(name, wire, policy) for name in bundled() for wire in WIRES for policy in POLICIES}
    for record in records:
        assert record["episodes"] == 64 and (record["masked"] > 0) == (record["round"] == "broken")
    for name in bundled():
        assert name in done.stdout


@pytest.mark.slow
def test_a_terminated_demo_ends_its_server() -> None:
    demo = subprocess.Popen(DEMO, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        server = wait_for_child(demo.pid)
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(30) == 130
        assert not is_running(server)
    finally:
        demo.kill()
        demo.wait()


def wait_for_child(pid: int) -> int:
    """The process id of its first child, once that answers to its name."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("needs /proc to see a process's children")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for child in map(int, children.read_text().split()):
            if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
        time.sleep(0.05)
    raise AssertionError("the demo started no server")


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
