"""A policy's JSON is an action only where it is one as it stands: nothing is converted, cut or made infinite."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.adapters.bridge.gymnasium import _action
from gymwire.servers.environment import ToolError

gymnasium = pytest.importorskip("gymnasium")
spaces = gymnasium.spaces
BOX = spaces.Box(float("-inf"), float("inf"), (2,))
NAMED = spaces.Dict({"turn": spaces.Discrete(3, start=-1), "gas": spaces.Box(0.0, 1.0, (1,))})

REFUSED: list[tuple[Any, Any]] = [
    (spaces.MultiDiscrete([3, 3]), [1.7, 0]),
    (spaces.MultiDiscrete([3, 3]), ["1", "2"]),
    (spaces.MultiDiscrete([3, 3]), [1]),
    (spaces.MultiDiscrete([3, 3]), [3, 0]),
    (spaces.MultiBinary(2), [True, False]),
    (spaces.MultiBinary(2), [1, 10**400]),
    (BOX, ["0.5", 1.0]),
    (BOX, [True, 1.0]),
    (BOX, [float("inf"), 0.0]),
    (BOX, [float("nan"), 0.0]),
    (BOX, [[0.0], [1.0]]),
    (BOX, [1e308, 0.0]),
    (spaces.Box(0, 255, (1,), "uint8"), [256.0]),
    (spaces.Box(0, 255, (1,), "uint8"), [-1]),
    (BOX, None),
    (BOX, {"0": 1.0, "1": 2.0}),
    (NAMED, {"turn": 0}),
    (NAMED, {"turn": 0, "gas": [0.5], "brake": 1}),
    (NAMED, {"turn": 0, "gas": [1.5]}),
    (NAMED, [0, [0.5]]),
    (spaces.Tuple((spaces.Discrete(2),)), [0, 1]),
    (spaces.Discrete(3), 10**400),
    (spaces.Text(3), 1),
    (spaces.Text(3), "far too long"),
]
TAKEN: list[tuple[Any, Any]] = [
    (spaces.MultiDiscrete([3, 3]), [2, 0.0]),
    (spaces.MultiBinary(2), [1, 0]),
    (BOX, [-1, 2.5]),
    (NAMED, {"gas": [0.5], "turn": -1}),
    (spaces.Dict({"a": spaces.Tuple((spaces.Discrete(2), BOX))}), {"a": [1, [0, 0]]}),
    (spaces.Text(3), "abc"),
]


@pytest.mark.parametrize("space, value", REFUSED)
def test_what_is_no_action_is_the_policys_mistake(space: Any, value: Any) -> None:
    with pytest.raises(ToolError, match="is no action"):
        _action(space, value)


@pytest.mark.parametrize("space, value", TAKEN)
def test_what_is_an_action_is_taken(space: Any, value: Any) -> None:
    assert space.contains(_action(space, value))
