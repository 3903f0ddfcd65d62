"""What holds for every bundled environment: its rows, its datasets, its scripted policies.

swe has a suite of its own: its rows are all there are, in an order by the seed, and its `rule` never mends anything.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from gymwire.servers import Environment, Row
from gymwire.servers.environments.battery import Battery
from gymwire.servers.environments.checkout import Checkout
from gymwire.servers.environments.code_tests import CodeTests
from gymwire.servers.environments.codebook import Codebook
from gymwire.servers.environments.counter import Counter
from gymwire.servers.environments.exam import Exam
from gymwire.servers.environments.graded import Graded
from gymwire.servers.environments.ledger import Ledger
from gymwire.servers.environments.math_python import MathPython
from gymwire.servers.environments.qa_search import QaSearch
from gymwire.servers.rows import generated_lines, read_rows

from tests.sandboxes import settings_of

DATASETS = Path(__file__).parents[3] / "datasets"
SIZES = {
    Counter: {"train": 64, "eval": 32},
    Battery: {"train": 2048, "eval": 256},
    Ledger: {"train": 512, "eval": 128},
    Checkout: {"train": 512, "eval": 128},
    Codebook: {"train": 512, "eval": 128},
    Graded: {"train": 128, "eval": 64},
    Exam: {"train": 512, "eval": 128},
    QaSearch: {"train": 512, "eval": 64},
    MathPython: {"train": 2048, "eval": 256},
    CodeTests: {"train": 384, "eval": 96},
}
ENVIRONMENTS = list(SIZES)
SPLITS = [(environment, split) for environment in ENVIRONMENTS for split in environment.splits]
#: Its programs take their time (half a minute for the rows of eval, which stand for all).
SLOW = {CodeTests: (pytest.mark.slow, pytest.mark.timeout(400))}
PLAYED = [
    pytest.param(environment, split, marks=SLOW.get(environment, ()))
    for environment, split in SPLITS
    if split == "eval" or environment not in SLOW
]
STATED = [pytest.param(environment, marks=SLOW.get(environment, ())) for environment in ENVIRONMENTS]
MOST_ROWS = 256
#: The least that a policy's mean must lie above the mean of the next weaker one, over any 64 rows.
GAP = 0.15


def task_of(row: Row) -> str:
    return json.dumps([list(row.prompt), dict(row.data)], sort_keys=True)


_rewards: dict[tuple[type[Environment], str], dict[str, list[float]]] = {}


async def rewards_of(play: Any, environment: type[Environment], split: str) -> dict[str, list[float]]:
    """What each policy earns in the split's rows, 256 at most; played once."""
    if (environment, split) not in _rewards:
        rows = list(environment.rows(split, min(SIZES[environment][split], MOST_ROWS), 0))
        few = asyncio.Semaphore(4)  # nobody waits long for a place to run a program
        async with settings_of(environment) as settings:

            async def earned(index: int) -> list[float]:
                async with few:
                    played = [
                        await play(environment, rows[index], one, index, **settings) for one in environment.policies
                    ]
                    return [await episode.reward() for episode in played]

            by_row = await asyncio.gather(*(earned(index) for index in range(len(rows))))
        by_policy = zip(environment.policies, zip(*by_row, strict=True), strict=True)
        _rewards[environment, split] = {policy: list(rewards) for policy, rewards in by_policy}
    return _rewards[environment, split]


@pytest.mark.parametrize(("environment", "split"), SPLITS)
def test_datasets_are_what_the_generators_write(environment: type[Environment], split: str) -> None:
    lines = list(generated_lines(environment, split))
    assert len(lines) == SIZES[environment][split]
    assert (DATASETS / environment.name / f"{split}.jsonl").read_bytes() == b"".join(lines)


@pytest.mark.parametrize(("environment", "split"), SPLITS)
def test_datasets_read_back_as_the_generated_rows(environment: type[Environment], split: str) -> None:
    tools = tuple(replace(spec.tool, read_only=False) for spec in environment.tool_specs.values())  # no mark in rows
    read = read_rows(DATASETS / environment.name / f"{split}.jsonl")
    for row, made in zip(read, environment.rows(split, None, 0), strict=True):
        assert (row.prompt, row.data, row.tools) == (made.prompt, made.data, tools)


@pytest.mark.parametrize(("environment", "split"), SPLITS)
def test_a_smaller_count_gives_the_first_rows_and_another_seed_gives_others(
    environment: type[Environment], split: str
) -> None:
    standard = list(islice(environment.rows(split, None, 0), 20))
    assert list(environment.rows(split, 20, 0)) == standard
    assert {task_of(row) for row in environment.rows(split, 20, 1)} != {task_of(row) for row in standard}


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_train_and_eval_share_no_task_whatever_their_seeds(environment: type[Environment]) -> None:
    train, held_out = (list(environment.rows(split, None, 0)) for split in ("train", "eval"))
    more = list(environment.rows("train", 200, 7))
    tasks = {task_of(row) for row in train}
    assert len(tasks) == len(train)
    assert len({task_of(row) for row in held_out}) == len(held_out)
    assert not (tasks | {task_of(row) for row in more}) & {task_of(row) for row in held_out}


@pytest.mark.parametrize(("environment", "split"), PLAYED)
async def test_policies_are_ordered_over_any_64_rows(play: Any, environment: type[Environment], split: str) -> None:
    assert list(environment.policies) == ["random", "rule", "oracle"]
    rewards = await rewards_of(play, environment, split)
    assert set(rewards["oracle"]) == {1.0}
    for start in range(max(1, len(rewards["oracle"]) - 63)):
        random, rule = (mean(rewards[policy][start : start + 64]) for policy in ("random", "rule"))
        assert 1.0 >= rule + GAP >= random + 2 * GAP


@pytest.mark.parametrize("environment", STATED)
async def test_the_readme_states_what_the_policies_score(play: Any, environment: type[Environment]) -> None:
    readme = (DATASETS / environment.name / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `(random|rule|oracle)` \| ([0-9.]+) \|", readme, flags=re.MULTILINE))
    assert SIZES[environment]["eval"] <= MOST_ROWS
    for policy, rewards in (await rewards_of(play, environment, "eval")).items():
        assert stated[policy] == f"{mean(rewards):.3f}"


@pytest.mark.parametrize("environment", ENVIRONMENTS)
async def test_two_episodes_of_one_row_share_nothing(Episode: Any, play: Any, environment: type[Environment]) -> None:
    row = next(environment.rows("train", 1, 0))
    async with settings_of(environment) as settings:
        untouched = Episode(environment, row, **settings)
        before = await untouched.parts()
        assert await (await play(environment, row, "oracle", **settings)).reward() == 1.0
        assert await untouched.parts() == before
        assert await Episode(environment, row, **settings).parts() == before


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_tool_and_argument_is_described(environment: type[Environment]) -> None:
    for spec in environment.tool_specs.values():
        assert spec.tool.description
        assert all(about.get("description") for about in spec.tool.parameters["properties"].values())


def test_sync_and_async_tools_are_both_in_use() -> None:
    kinds = {spec.is_async for environment in ENVIRONMENTS for spec in environment.tool_specs.values()}
    assert kinds == {True, False}
