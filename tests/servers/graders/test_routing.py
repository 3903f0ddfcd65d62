"""Which graders a row is given, what they are handed, and what their scores come to."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from gymwire.servers.environment import DefinitionError
from gymwire.servers.failures import BadReward
from gymwire.servers.graders import Grader, Router
from gymwire.servers.graders.registry import BUILT_IN, find, load
from gymwire.servers.types import Row, RowError, Transcript


def same(completion: str, target: str) -> bool:
    return completion == target


async def slow(completion: str, patience: float = 0.0) -> float:
    await asyncio.sleep(patience)
    return 0.5


def parts(transcript: Transcript, row: Row) -> dict[str, float]:
    return {"messages": len(transcript.messages), "columns": len(row.data)}


def everything(completion: str, **fields: Any) -> float:
    return float(len(fields))


def broken(completion: str) -> float:
    raise ZeroDivisionError("oh")


def strange(value: Any) -> Any:
    return value


def nothing(completion: str) -> None:
    pass


FUNCTIONS = (same, slow, parts, everything, broken, strange, nothing)
EXTRA = {function.__name__: Grader.of(function.__name__, function) for function in FUNCTIONS}


def grade(row: Row, answer: str = "", **options: Any) -> dict[str, float]:
    made = Router(extra=EXTRA, **options).plan(row).grade(Transcript([{"role": "assistant", "content": answer}]))
    return made if isinstance(made, dict) else asyncio.run(_wait(made))


async def _wait(coroutine: Any) -> dict[str, float]:
    return await coroutine


@pytest.mark.parametrize(
    ("verifier", "components"),
    [
        ("same", {"same": 1.0}),
        ({"name": "same"}, {"same": 1.0}),
        ([{"name": "same", "weight": 0.25}], {"same": 0.25}),
        (["same", {"name": "slow", "weight": -2}], {"same": 1.0, "slow": -1.0}),
        ([{"name": "same", "as": "first", "target": "other"}, "same"], {"first": 0.0, "same": 1.0}),
        ("parts", {"parts.messages": 1.0, "parts.columns": 2.0}),
        ({"name": "parts", "weight": 0.5, "as": "p"}, {"p.messages": 0.5, "p.columns": 1.0}),
        ({"name": "slow", "patience": 0.01}, {"slow": 0.5}),
        ("everything", {"everything": 1.0}),
        ({"name": "everything", "more": 1}, {"everything": 2.0}),
    ],
)
def test_a_verifier_is_a_name_an_entry_or_a_list(verifier: Any, components: dict[str, float]) -> None:
    assert grade(Row.of("?", target="yes", verifier=verifier), "yes") == components


def test_rows_that_name_no_grader_get_the_default() -> None:
    assert grade(Row.of("?", target="yes"), "yes", default="same") == {"same": 1.0}
    assert grade(Row.of("?", target="yes", verifier="slow"), "yes", default="same") == {"slow": 0.5}


def test_columns_are_found_under_other_names_and_in_the_metadata() -> None:
    columns = {"target": ("gold", "label")}
    assert grade(Row.of("?", label="yes"), "yes", default="same", columns=columns) == {"same": 1.0}
    nested = Row.of("?", verifier_metadata={"target": "yes"})
    assert grade(nested, "yes", default="same") == {"same": 1.0}
    assert grade(Row.of("?", target="no", verifier_metadata={"target": "yes"}), "no", default="same")["same"] == 1.0


def test_what_the_policy_said_is_never_the_rows_answer() -> None:
    """A grader that compares `completion` with `answer` must not compare the policy with itself."""
    copycat = Grader.of("copycat", lambda completion, answer: completion == answer)
    router = Router("copycat", {"copycat": copycat})
    with pytest.raises(RowError, match="grader 'copycat' needs 'answer'"):
        router.plan(Row.of("?", solution="4"))
    plan = router.plan(Row.of("?", answer="4", completion="5"))
    assert plan.grade(Transcript([{"role": "assistant", "content": "5"}])) == {"copycat": 0.0}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "no grader is named: give the row a `verifier`, one of same, "),
        ({"verifier": "sam"}, "no grader is called 'sam'. Did you mean 'same'"),
        ({"verifier": "os:system"}, "no grader is called 'os:system'"),
        ({"verifier": 5}, "`verifier` is a grader's name, an entry"),
        ({"verifier": [["same"]]}, "`verifier` is a grader's name, an entry"),
        ({"verifier": {"weight": 1}}, "`verifier` is a grader's name, an entry"),
        ({"verifier": "same", "goal": 1, "k": 2}, "grader 'same' needs 'target', as a column or as its argument; "),
        ({"verifier": "same", "goal": 1, "k": 2}, "the row has: goal, k"),
        ({"verifier": "same", "target": None}, "needs 'target'"),
        ({"verifier": {"name": "same", "targt": 1}}, "takes no argument 'targt'; it takes: target"),
        ({"verifier": {"name": "same", "completion": "x"}}, "'completion' comes from the server"),
        ({"verifier": {"name": "slow", "sandbox": "x"}}, "'sandbox' comes from the server"),
        ({"verifier": {"name": "judge", "judge_endpoint": "http://x"}}, "'judge_endpoint' comes from the server"),
        ({"verifier": "judge", "judge_endpoint": "http://x"}, "needs a judge: --set judge_url="),
        ({"verifier": ["same", "same"], "target": 1}, "two graders have the component 'same'"),
        ({"verifier": {"name": "same", "as": ""}, "target": 1}, "`as` names a grader's component"),
        ({"verifier": {"name": "same", "weight": "1"}, "target": 1}, "the weight of 'same' is a number"),
        ({"verifier": {"name": "same", "weight": math.inf}, "target": 1}, "the weight of 'same' is a number"),
        ({"verifier": "exact"}, "needs 'expected_answer' (or answer, expected, target"),
        ({"verifier": "exact", "answer": {"a": 1}}, "grader 'exact': an expected answer is a text or a number"),
        ({"verifier": "math", "answer": ""}, "grader 'math': the expected answer is empty"),
        ({"verifier": {"name": "math", "tolerance": 2}, "answer": 1}, "`tolerance` is a share from 0 to below 1"),
        ({"verifier": "regex", "pattern": "("}, "grader 'regex': the pattern '(' cannot be used: missing )"),
        ({"verifier": "regex", "pattern": "(?=a)"}, "RE2 has no look-around"),
        ({"verifier": "choice", "answer": "E", "options": ["a", "b"]}, "none of the options A, B"),
        ({"verifier": "choice", "answer": "A", "options": {"one": "a"}}, "called by single letters"),
        ({"verifier": "qa_match", "answer": "the"}, "nothing is left of an expected answer"),
        ({"verifier": {"name": "qa_match", "em": "1"}, "answer": "x"}, "`em` says how much"),
    ],
)
def test_a_row_that_cannot_be_graded_says_why(data: dict[str, Any], says: str) -> None:
    with pytest.raises(RowError) as refusal:
        Router(extra=EXTRA).plan(Row.of("?", **data))
    assert says in str(refusal.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", [1.0], {}, {"a": "b"}, {"a": math.nan}])
def test_a_score_that_is_no_number_is_our_failure(value: Any) -> None:
    with pytest.raises(BadReward):
        grade(Row.of("?", verifier={"name": "strange", "value": value}))


def test_a_grader_that_returns_nothing_is_our_failure() -> None:
    with pytest.raises(BadReward, match="grader 'nothing' returned NoneType"):
        grade(Row.of("?", verifier="nothing"))


@pytest.mark.parametrize("value", [True, False, 1, 0.5, {"a": True}])
def test_a_score_is_a_number_a_bool_or_named_parts(value: Any) -> None:
    assert sum(grade(Row.of("?", verifier={"name": "strange", "value": value})).values()) in (0.0, 0.5, 1.0)


async def test_what_a_grader_raises_comes_out_and_the_others_are_let_go() -> None:
    plan = Router(extra=EXTRA).plan(Row.of("?", verifier=["slow", "broken"]))
    with pytest.raises(ZeroDivisionError):
        plan.grade(Transcript())
    failed: list[str] = []

    async def waits() -> float:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            failed.append("cancelled")
            raise
        return 1.0

    async def raises() -> float:
        await asyncio.sleep(0.01)
        raise ZeroDivisionError

    extra = {"waits": Grader.of("waits", waits), "raises": Grader.of("raises", raises)}
    made = Router(["waits", "raises"], extra).plan(Row()).grade(Transcript())
    assert not isinstance(made, dict)
    with pytest.raises(ZeroDivisionError):
        await made
    await asyncio.sleep(0)
    assert failed == ["cancelled"]


def test_async_graders_wait_beside_each_other() -> None:
    verifier = [{"name": "slow", "as": str(number), "patience": 0.2} for number in range(20)]

    async def timed() -> float:
        started = asyncio.get_running_loop().time()
        made = Router(extra=EXTRA).plan(Row.of("?", verifier=verifier)).grade(Transcript())
        assert not isinstance(made, dict)
        assert sum((await made).values()) == 10.0
        return asyncio.get_running_loop().time() - started

    assert asyncio.run(timed()) < 2.0


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_grader_is_there_and_says_what_it_does(name: str) -> None:
    grader = find(name)
    assert grader.function.__doc__ and "completion" in grader.parameters


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("no_such_module:f", "importing 'no_such_module' failed"),
        ("json:no_such", "json has no function 'no_such'; it has: dump"),
        ("json", "names no function"),
        ("nowhere.py:f", "there is no file nowhere.py"),
    ],
)
def test_a_function_that_is_not_there_is_said(target: str, says: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        load(target)
    assert says in str(refusal.value)


def test_a_grader_takes_its_parameters_by_name() -> None:
    with pytest.raises(DefinitionError, match="cannot be given by name"):
        Grader.of("bad", lambda *answers: 1.0)
