"""`--from gymnasium ENV_ID`: a Gymnasium environment as one tool, `act`, whose argument is an action.

`--set KEY=VALUE` passes arguments to `gymnasium.make`; `--set reward=last` takes the last reward instead of the sum.
The policy reads observations as text: what is no text as JSON, and what the environment draws where it can draw in
text (`render_mode="ansi"`). Rows are seeds. An action outside the space is the policy's mistake, and changes nothing;
what the environment raises fails the session.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import fsum, isfinite
from random import Random
from types import MappingProxyType
from typing import Any, ClassVar

from ...servers.environment import DefinitionError, Environment, ToolError, passed_on, snake_case
from ...servers.results import finite_number
from ...servers.types import Json, Row, RowError, Tool, ToolResult, Transcript

SIZES = {"train": 1024, "eval": 128}
#: Observations and actions of more numbers than this are no text for a policy.
MAX_NUMBERS = 4096
REWARDS = ("sum", "last")


def environment(target: str, settings: Mapping[str, Any] = MappingProxyType({})) -> type[Environment]:
    """The environment that an id names (`FrozenLake-v1`, `module:Id-v0`), made as `settings` say.

    Raises `DefinitionError`.
    """
    try:
        import gymnasium
    except ImportError:
        raise DefinitionError("--from gymnasium needs the extra: pip install 'gymwire[gymnasium]'") from None
    try:
        probe = gymnasium.make(target, **{key: value for key, value in settings.items() if key != "reward"})
    except Exception as error:  # the boundary of somebody's environment: what it lacks, it says itself
        raise DefinitionError(f"gymnasium cannot make {target!r}: {type(error).__name__}: {error}") from None
    schema = _schema(probe.action_space)
    _shown(probe.observation_space.sample())  # raises where an observation is too large to be read
    about = f"Take one step. {_about(probe.action_space)}"
    parameters = {
        "type": "object",
        "properties": {"action": schema},
        "required": ["action"],
        "additionalProperties": False,
    }
    probe.close()
    body = {
        "__doc__": f"Gymnasium's {target}.",
        "name": snake_case(target.rpartition(":")[2].rpartition("/")[2]),
        "tools": (passed_on(Tool("act", about, parameters), _act),),
        "target": target,
    }
    return type("Hosted", (Hosted,), body)


def _act(environment: Hosted, arguments: bytes) -> ToolResult:
    return environment.act(json.loads(arguments))


class Hosted(Environment):
    """Base of what `environment` makes."""

    splits = tuple(SIZES)
    target: ClassVar[str] = ""
    tool_timeout_s = 60.0

    def __init__(self, reward: str = "sum", **settings: Any) -> None:
        self._reward, self._settings = reward, settings
        self._rewards: list[float] = []
        self._env: Any = None

    @classmethod
    def setup(cls, reward: str = "sum", **settings: Any) -> None:
        if reward not in REWARDS:
            raise ValueError(f"reward is one of {', '.join(REWARDS)}, not {reward!r}")

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        rng = Random(f"{cls.target}:{split}:{seed}")
        for _ in range(SIZES[split] if count is None else count):  # train draws even seeds, eval odd ones
            yield Row(data={"seed": 2 * rng.randrange(1 << 30) + (split != "train")})

    def reset(self, row: Row) -> str:
        import gymnasium

        seed = row.data.get("seed", self.seed)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise RowError(f"a `seed` is a whole number from 0 on, not {seed!r:.80}")
        mode: dict[str, Any] = {"render_mode": "ansi"} if _draws_text(self.target) else {}
        self._env = gymnasium.make(self.target, **(mode | self._settings))
        observation, _ = self._env.reset(seed=seed)
        return f"{_about(self._env.action_space)}\n\n{self._seen(observation)}"

    def act(self, arguments: Json) -> ToolResult:
        """One step."""
        if set(arguments) != {"action"}:
            raise ToolError("the only argument is `action`")
        action = _action(self._env.action_space, arguments["action"])
        observation, reward, terminated, truncated, _ = self._env.step(action)
        self._rewards.append(finite_number(_plain(reward), "a step"))
        done = bool(terminated or truncated)
        end = f"\nreward {self._rewards[-1]:g}; the episode is over" if done else f"\nreward {self._rewards[-1]:g}"
        return ToolResult(self._seen(observation) + end, done=done)

    def verify(self, transcript: Transcript) -> float:
        if self._reward == "last":
            return self._rewards[-1] if self._rewards else 0.0
        return fsum(self._rewards)

    async def close(self) -> None:
        if self._env is not None:
            await asyncio.to_thread(self._env.close)

    def _seen(self, observation: Any) -> str:
        drawn = self._env.render() if self._env.render_mode == "ansi" else None
        seen = _shown(observation)
        return f"{drawn}\nobservation: {seen}" if isinstance(drawn, str) else seen


@lru_cache(64)
def _draws_text(target: str) -> bool:
    import gymnasium

    found = gymnasium.make(target)
    try:
        return "ansi" in found.metadata.get("render_modes", ())
    finally:
        found.close()


def _plain(value: Any) -> Any:
    """Numpy's numbers and arrays as Python's."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _shown(observation: Any) -> str:
    plain = _plain(observation)
    if isinstance(plain, str):
        return plain
    text = json.dumps(plain, ensure_ascii=False)
    if text.count(",") > MAX_NUMBERS:
        raise DefinitionError(f"an observation has more than {MAX_NUMBERS} numbers: no text for a policy to read")
    return text


def _schema(space: Any) -> Json:
    """The JSON schema of a space's members. Raises `DefinitionError` for a space that has no text form."""
    kind = type(space).__name__
    if kind == "Discrete":
        return {"type": "integer", "minimum": int(space.start), "maximum": int(space.start + space.n - 1)}
    if kind == "Text":
        return {"type": "string", "minLength": int(space.min_length), "maxLength": int(space.max_length)}
    if kind in ("Box", "MultiBinary", "MultiDiscrete"):
        return _array(space.shape, "number" if space.dtype.kind == "f" else "integer")
    if kind == "Tuple":
        return {"type": "array", "prefixItems": [_schema(item) for item in space.spaces]}
    if kind == "Dict":
        inner = {str(key): _schema(item) for key, item in space.spaces.items()}
        return {"type": "object", "properties": inner, "required": list(inner), "additionalProperties": False}
    raise DefinitionError(f"actions of the space {kind} have no form in JSON")


def _array(shape: tuple[int, ...], kind: str) -> Json:
    schema: Json = {"type": kind}
    for size in reversed(shape):
        schema = {"type": "array", "items": schema, "minItems": size, "maxItems": size}
    return schema


def _about(space: Any) -> str:
    return f"An action is a member of {space}."


def _action(space: Any, value: Any) -> Any:
    """The space's member that a policy's JSON means. Raises `ToolError`."""
    try:
        member = _member(space, value)
        fits = space.contains(member)
    except (ValueError, TypeError, ArithmeticError, KeyError, RecursionError):
        fits, member = False, None
    if not fits:
        raise ToolError(f"{json.dumps(value)[:80]} is no action: an action is a member of {space}")
    return member


def _member(space: Any, value: Any) -> Any:
    import numpy

    kind = type(space).__name__
    if kind == "Discrete":
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if kind in ("Box", "MultiBinary", "MultiDiscrete"):
        with numpy.errstate(over="raise"):
            return numpy.asarray(_numbers(value, whole=space.dtype.kind != "f"), dtype=space.dtype)
    if kind == "Tuple":
        return tuple(_member(item, part) for item, part in zip(space.spaces, value, strict=True))
    if kind == "Dict":
        if len(value) != len(space.spaces):
            raise ValueError("other keys than the space's")
        return {key: _member(item, value[str(key)]) for key, item in space.spaces.items()}
    return value


def _numbers(value: Any, whole: bool) -> Any:
    """Numbers in lists, as they are: numpy would read "1" and true, too, cut 1.7 to 1, and take what is infinite."""
    if isinstance(value, list):
        return [_numbers(item, whole) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError("not a finite number")
    if whole and value != int(value):
        raise ValueError("not a whole number")
    return int(value) if whole else value
