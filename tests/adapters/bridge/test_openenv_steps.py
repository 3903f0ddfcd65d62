"""Whose fault it is that a step of an OpenEnv class went wrong; without the extra, which only its own tests need."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.adapters import SessionFailed, connect
from gymwire.adapters.bridge.openenv_class import HostedAsyncOpenEnv, HostedOpenEnv, _act, _act_async
from gymwire.servers import Row
from gymwire.servers.catalog import Served
from gymwire.servers.environment import DefinitionError, passed_on
from gymwire.servers.types import Tool
from pydantic import BaseModel


class Act(BaseModel):
    number: float


class Seen(BaseModel):
    reward: float | None = None
    done: bool = False


class Theirs:
    def reset(self) -> Seen:
        return Seen()

    def step(self, action: Act) -> Seen:
        if action.number < 0:
            raise RuntimeError("too low")
        return Seen(reward=action.number)

    async def reset_async(self) -> Seen:
        return self.reset()

    async def step_async(self, action: Act) -> Seen:
        return self.step(action)

    def close(self) -> None:
        pass


TOOL = Tool("act", "Act.", {"type": "object", "properties": {"number": {}}})


class Blocking(HostedOpenEnv):
    theirs, action, tools = Theirs, Act, (passed_on(TOOL, _act),)


class Waiting(HostedAsyncOpenEnv):
    theirs, action, tools = Theirs, Act, (passed_on(TOOL, _act_async),)


@pytest.mark.parametrize("hosted", [Blocking, Waiting])
async def test_a_reward_that_is_no_number_is_ours_whatever_the_policy_is_told(hosted: Any) -> None:
    async with connect(Served(hosted, {"on_error": "tell"})) as connection, connection.session(row=Row()) as session:
        assert not (await session.call("act", {"number": 1.0})).is_error
        assert (await session.call("act", {"number": -1.0})).text == "RuntimeError: too low"
        with pytest.raises(SessionFailed):
            await session.call("act", {"number": "nan"})
        with pytest.raises(SessionFailed):
            await session.verify()


async def test_a_setting_that_the_class_does_not_take_is_said_at_the_start() -> None:
    with pytest.raises(DefinitionError, match="'size'; --set KEY=VALUE gives Theirs its arguments"):
        await Served(Blocking, {"size": 3, "reward": "sum"}).prepare()
