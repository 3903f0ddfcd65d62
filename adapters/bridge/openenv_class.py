"""`--from openenv-class package.module:Class`: an OpenEnv environment's class, hosted in this process.

Its actions become one tool, `act`; where the class lists tools of its own (`ListToolsAction`), it belongs behind its
own server and `--from openenv`. `--set reward=sum|last|max` says how the steps' rewards become one, `--set
on_error=tell` shows the policy what a step raised, instead of failing the session. Other settings are the class's.

Needs the extra `openenv` (openenv-core 0.3, the last that stands beside this package's MCP SDK).
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, get_type_hints

from pydantic import BaseModel, ValidationError

from ...servers.environment import DefinitionError, Environment, ToolError, passed_on, snake_case
from ...servers.results import finite_number
from ...servers.schema import explain
from ...servers.settings import accepted, load_function
from ...servers.types import Row, Tool, ToolResult, Transcript
from ..foreign import COMBINED
from ..foreign_openenv import action_parameters, shown_observation

ON_ERROR = ("fail", "tell")


def environment(target: str) -> type[Environment]:
    """The environment of a class. Raises `DefinitionError`."""
    try:
        from openenv.core.env_server.interfaces import (  # pyright: ignore[reportMissingImports]
            Environment as Theirs,
        )
    except ImportError:
        raise DefinitionError("--from openenv-class needs the extra: pip install 'gymwire[openenv]'") from None
    found = load_function(target)
    if not (isinstance(found, type) and issubclass(found, Theirs)):
        raise DefinitionError(f"{target} is no OpenEnv environment (openenv.core.env_server.interfaces.Environment)")
    action = _action(found)
    about = (inspect.getdoc(action) or "Take one step in the environment.").strip()
    tool = Tool("act", about, action_parameters(action.model_json_schema()))
    is_async = found.step_async is not Theirs.step_async
    body = {
        "__doc__": inspect.getdoc(found),
        "name": snake_case(found.__name__),
        "theirs": found,
        "action": action,
        "tools": (passed_on(tool, _act_async if is_async else _act),),
    }
    base = HostedAsyncOpenEnv if is_async else HostedOpenEnv
    made: Any = type(base.__name__, (base,), body)
    return made


def _action(theirs: type[Any]) -> type[BaseModel]:
    """What `step` takes, by its type hint."""
    hint = get_type_hints(theirs.step).get("action")
    if isinstance(hint, type) and issubclass(hint, BaseModel) and {"tool_name"}.isdisjoint(hint.model_fields):
        return hint
    raise DefinitionError(
        f"{theirs.__name__}.step does not say what an action is: hint it as `step(self, action: MyAction)`; "
        "an environment of tools is bridged from its server (--from openenv)"
    )


def _act(environment: HostedOpenEnv, arguments: bytes) -> ToolResult:
    action = environment.read(arguments)
    with environment.blamed():
        observation = environment.env.step(action)
    return environment.seen(observation)


async def _act_async(environment: HostedOpenEnv, arguments: bytes) -> ToolResult:
    action = environment.read(arguments)
    with environment.blamed():
        observation = await environment.env.step_async(action)
    return environment.seen(observation)


class HostedOpenEnv(Environment):
    """Base of what `environment` makes; of a class whose steps block."""

    theirs: ClassVar[type[Any]]
    action: ClassVar[type[BaseModel]]

    def __init__(self, reward: str = "last", on_error: str = "fail", **settings: Any) -> None:
        self._combine, self._tell = COMBINED[reward], on_error == "tell"
        self.env = self.theirs(**settings)
        self._rewards: list[float] = []
        self._steps = 0

    @classmethod
    def setup(cls, reward: str = "last", on_error: str = "fail", **settings: Any) -> None:
        if reward not in COMBINED or on_error not in ON_ERROR:
            raise ValueError(f"reward is one of {', '.join(COMBINED)}, on_error one of {', '.join(ON_ERROR)}")
        try:
            inspect.signature(cls.theirs).bind(**settings)
        except TypeError as error:
            raise ValueError(f"{error}; --set KEY=VALUE gives {cls.theirs.__name__} its arguments") from None

    def reset(self, row: Row) -> Any:
        return self._begun(self.env.reset(**self._asked(row)))

    def _asked(self, row: Row) -> dict[str, Any]:
        return accepted(self.theirs.reset, {"seed": self.seed, **row.data})

    def _begun(self, observation: Any) -> str | None:
        if observation.done:
            raise ValueError("what reset began is over already")
        return self._shown(observation)

    def _shown(self, observation: BaseModel) -> str | None:
        return shown_observation({"observation": observation.model_dump(mode="json")}) or None

    def read(self, arguments: bytes) -> BaseModel:
        """The action that the arguments mean. Raises `ToolError` for what is none."""
        try:
            return self.action.model_validate(json.loads(arguments))
        except ValidationError as error:
            raise ToolError(explain(error)) from None

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Around a step: what it raises is ours, unless `on_error=tell` has the policy read it."""
        self._steps += 1
        try:
            yield
        except Exception as error:  # the boundary of somebody's environment
            if self._tell:
                raise ToolError(f"{type(error).__name__}: {error}") from None
            raise

    def seen(self, observation: Any) -> ToolResult:
        if observation.reward is not None:
            self._rewards.append(finite_number(observation.reward, "a step"))
        return ToolResult(self._shown(observation) or "", done=bool(observation.done))

    def verify(self, transcript: Transcript) -> float:
        if self._rewards:
            return float(self._combine(self._rewards))
        if self._steps:
            raise ValueError("no step of the episode brought a reward")
        return 0.0

    async def close(self) -> None:
        await asyncio.to_thread(self.env.close)


class HostedAsyncOpenEnv(HostedOpenEnv):
    """Of a class whose steps are coroutines."""

    async def reset(self, row: Row) -> str | None:
        return self._begun(await self.env.reset_async(**self._asked(row)))
