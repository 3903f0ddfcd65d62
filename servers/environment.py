"""The environment API: what an author writes.

One object of an `Environment` subclass is one session: state lives on `self`, nothing is shared.
A tool's `ToolError` is the policy's mistake and part of the episode; any other exception is ours and
fails the session for good.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from random import Random
from typing import Any, ClassVar, Literal, TypeVar, overload

from pydantic import BaseModel

from .policies import Policy
from .row_reader import RowReader
from .schema import ArgumentCheck, DefinitionError, SentArguments, SignatureError
from .types import Outcome, Row, Tool, Transcript

F = TypeVar("F", bound=Callable[..., Any])
TimeoutBlame = Literal["session", "policy"]

#: Names that are routes or control calls on some wire; a tool may not have one of them.
RESERVED_NAMES = frozenset(
    {"seed_session", "verify", "close_session", "end_turn", "aggregate_metrics", "reverify_mode"}
    | {"health", "healthz", "livez", "readyz", "mcp", "ws", "web", "docs", "metrics", "environments"}
    | {"reset", "step", "state", "schema", "metadata", "list_environments", "list_tools", "call_tool"}
    | {"splits", "tasks", "num_tasks", "task", "task_range"}
)
TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: An environment's name is a step of its URLs.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class ToolError(Exception):
    """The policy's mistake: the text goes back to it as an error result, and the episode goes on."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the environment defined it."""

    tool: Tool
    check: ArgumentCheck
    function: Callable[..., Any]
    bound: bool  # a method of the environment, else a plain function
    is_async: bool
    ends: bool
    timeout_blame: TimeoutBlame
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class _Mark:
    ends: bool = False
    read_only: bool = False
    timeout: TimeoutBlame = "session"
    timeout_s: float | None = None
    name: str = ""


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    ends: bool = False,
    read_only: bool = False,
    timeout: TimeoutBlame = "session",
    timeout_s: float | None = None,
    name: str = "",
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    /,
    *,
    ends: bool = False,
    read_only: bool = False,
    timeout: TimeoutBlame = "session",
    timeout_s: float | None = None,
    name: str = "",
) -> Any:
    """Mark a method as a tool that the policy may call.

    ends: the call ends the episode and verifies it at once.
    read_only: a promise that a call changes nothing that another call or verify could read (`self.rng` is such a
        thing). Calls of read-only tools of one session may run at the same time, plain functions in threads of
        their own; any other call runs alone, in the order of arrival.
    timeout: whose fault a call past its time limit is: ours ("session") or the policy's ("policy").
    timeout_s: this tool's limit in seconds; default the environment's `tool_timeout_s`.
    """
    mark = _Mark(ends, read_only, timeout, timeout_s, name)

    def put(target: Any) -> Any:
        target.__gymwire_tool__ = mark
        return target

    return put if function is None else put(function)


class Environment:
    """Base of every environment. An author writes `reset`, tools, `verify`, and usually `rows`."""

    #: Name in URLs; default: the class name in snake_case.
    name: ClassVar[str] = ""
    #: Names of the row splits that `rows` offers.
    splits: ClassVar[Sequence[str]] = ()
    #: Model of a row's task data, checked when a session is seeded; `self.data` holds the checked object.
    Data: ClassVar[type[BaseModel] | None] = None
    #: Plain functions, or `passed_on` tools, offered beside the marked methods.
    tools: ClassVar[Sequence[Callable[..., Any] | ToolSpec]] = ()
    #: How many turns a rollout may take (told to clients, who enforce it); None: no limit.
    max_turns: ClassVar[int | None] = None
    #: Seconds a tool, `reset`, `end_turn` or `close` may take.
    tool_timeout_s: ClassVar[float] = 30.0
    #: Seconds `verify` may take; below the clients' usual 60.
    verify_timeout_s: ClassVar[float] = 50.0
    #: "none", or the name of a sandbox that sessions need.
    isolation: ClassVar[str] = "none"
    #: Promise that a call's effects live in `get_state`, so that any replica may continue the session.
    replayable: ClassVar[bool] = False
    #: Raise it when what `get_state` answers changes its form: nobody reads a state of another version.
    state_version: ClassVar[int] = 1

    #: Scripted policies by name (`random`, `rule`, `oracle`), from the worst to the best.
    policies: ClassVar[Mapping[str, Policy]] = {}

    #: Filled in for each session before `reset`: the row, its checked data, the seed asked for (or None).
    row: Row
    data: Any
    seed: int | None = None

    tool_specs: ClassVar[Mapping[str, ToolSpec]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = snake_case(cls.__name__)
        if not NAME.fullmatch(cls.name):
            raise DefinitionError(f"{cls.__name__}: the name {cls.name!r} must match {NAME.pattern}")
        _check_attributes(cls)
        cls.tool_specs = {spec.tool.name: spec for spec in _collect(cls)}

    @cached_property
    def rng(self) -> Random:
        """The session's own random source: equal rows and seeds give equal sequences, from any thread."""
        return Random(repr((self.seed, self.row.to_json())))

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        """Rows of a split; `count` None is the split's standard size. Equal arguments give equal rows.

        May ask for constructor arguments (`--set`) by name, beside these three.
        """
        yield Row()

    @classmethod
    def row_reader(cls) -> RowReader:
        """What reads a rows file, for forms beside NeMo Gym's; may ask for constructor arguments by name."""
        return RowReader()

    @classmethod
    def setup(cls, **settings: Any) -> Any:
        """Once a process, before the first session; may be async. Gets the constructor arguments it names."""

    @classmethod
    def teardown(cls) -> Any:
        """Once a process, after the last session; may be async. Lets go of what `setup` opened."""

    def reset(self, row: Row) -> Any:
        """Begin the episode; may be async. May return the prompt's last message, a string."""

    def tools_for(self, row: Row) -> Iterable[str | Tool]:
        """Names of the tools this row offers, or `Tool`s that re-describe one; default: all."""
        return self.tool_specs

    def verify(self, transcript: Transcript) -> Any:
        """Score the episode: a float, components by name, or an `Outcome`; may be async. Runs once."""
        raise NotImplementedError(f"{type(self).__name__} defines no verify")

    async def close(self) -> None:
        """Release what the session holds. Always called, once."""

    def get_state(self) -> Any:
        """All of the session's state, as bytes or JSON values, where `replayable` is promised."""
        raise NotImplementedError(f"{type(self).__name__} promises replayable but defines no get_state")

    def set_state(self, state: Any) -> None:
        """Become the session that `get_state` was asked of."""
        raise NotImplementedError(f"{type(self).__name__} promises replayable but defines no set_state")

    def end_turn(self) -> Any:
        """Define it for tasks with several prompts; may be async. Called when the policy ended its turn: answers
        the next prompt, a string, or None when there is none."""

    @classmethod
    def from_functions(
        cls,
        tools: Sequence[Callable[..., Any]],
        *,
        verify: Callable[[Transcript], float | dict[str, float] | Outcome],
        name: str = "functions",
        **attributes: Any,
    ) -> type[Environment]:
        """Plain functions as an environment; `attributes` become class attributes (`max_turns`, `rows` …)."""
        body = {"name": name, "tools": tuple(tools), "verify": staticmethod(verify), **attributes}
        return type(_camel_case(name), (cls,), body)


def snapshot(environment: Environment) -> Environment:
    """A copy of a session's environment, to go on with should a call run past its limit."""
    if not environment.replayable:
        return copy.deepcopy(environment)
    twin = copy.copy(environment)
    twin.set_state(environment.get_state())
    return twin


def _check_attributes(cls: type[Environment]) -> None:
    if isinstance(cls.splits, str):
        raise DefinitionError(f"{cls.__name__}: splits is a sequence of names, such as ({cls.splits!r},)")
    if cls.max_turns is not None and (not isinstance(cls.max_turns, int) or cls.max_turns < 1):
        raise DefinitionError(f"{cls.__name__}: max_turns is a whole number above 0, or None, got {cls.max_turns!r}")
    for name, value in (("tool_timeout_s", cls.tool_timeout_s), ("verify_timeout_s", cls.verify_timeout_s)):
        if not isinstance(value, int | float) or not 0 < value < inf:
            raise DefinitionError(f"{cls.__name__}: {name} is a number of seconds above 0, got {value!r}")


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _camel_case(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[^A-Za-z0-9]+", name)) or "Functions"


def _collect(cls: type[Environment]) -> Iterator[ToolSpec]:
    """The class's tools, in the order they were written, base classes first."""
    seen: dict[str, ToolSpec] = {}
    methods: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        methods |= {key: value for key, value in vars(base).items() if hasattr(value, "__gymwire_tool__")}
        for key in vars(base):
            if key in methods and not hasattr(vars(base)[key], "__gymwire_tool__"):
                del methods[key]  # overridden without the mark: not a tool any more
    specs = [_spec(cls, method, method.__gymwire_tool__, True) for method in methods.values()]
    for item in cls.tools:
        mark = getattr(item, "__gymwire_tool__", _Mark())
        specs.append(item if isinstance(item, ToolSpec) else _spec(cls, item, mark, False))
    for spec in specs:
        if spec.tool.name in seen:
            raise DefinitionError(f"{cls.__name__}: two tools are called {spec.tool.name!r}")
        seen[spec.tool.name] = spec
    yield from seen.values()


def may_be_called(name: str) -> bool:
    """Whether a tool may have this name: it is no route or control call, and every wire and model can carry it."""
    return name not in RESERVED_NAMES and TOOL_NAME.fullmatch(name) is not None


def passed_on(tool: Tool, function: Callable[[Any, bytes], Any]) -> ToolSpec:
    """A tool as somebody else describes and checks it. `function(environment, arguments)`, async or not, gets the
    arguments as the JSON text of an object. Raises `DefinitionError` for a name or a schema that no tool may have."""
    if not may_be_called(tool.name):
        raise DefinitionError(f"a tool may not be called {tool.name!r}; offer it under another name")
    for key, kind in (("properties", Mapping), ("required", list)):
        if key in tool.parameters and not isinstance(tool.parameters[key], kind):
            raise DefinitionError(f"tool {tool.name!r}: `{key}` of its parameters is {tool.parameters[key]!r:.80}")
    check = SentArguments(tool.description, tool.parameters)
    return ToolSpec(
        tool=tool,
        check=check,
        function=function,
        bound=True,
        is_async=inspect.iscoroutinefunction(function),
        ends=False,
        timeout_blame="session",
        timeout_s=None,
    )


def _spec(cls: type[Environment], function: Callable[..., Any], mark: _Mark, bound: bool) -> ToolSpec:
    if not inspect.isfunction(function) and bound:
        raise DefinitionError(f"{cls.__name__}: a tool is a plain method, not a {type(function).__name__}")
    name = mark.name or function.__name__
    if name in RESERVED_NAMES:
        raise DefinitionError(
            f"{cls.__name__}: a tool may not be called {name!r}, which is a route or a control call of the wires; "
            'rename it, or offer it under another name with @tool(name="...")'
        )
    if not TOOL_NAME.fullmatch(name):
        raise DefinitionError(f"{cls.__name__}: tool name {name!r} must match {TOOL_NAME.pattern}")
    if mark.timeout not in ("session", "policy"):
        raise DefinitionError(f'{cls.__name__}.{name}: timeout is "session" or "policy", not {mark.timeout!r}')
    if mark.timeout_s is not None and not 0 < mark.timeout_s < inf:
        raise DefinitionError(f"{cls.__name__}.{name}: timeout_s is a number of seconds above 0, got {mark.timeout_s}")
    if mark.ends and mark.read_only:
        raise DefinitionError(
            f"{cls.__name__}.{name}: a tool that ends the episode changes it; leave out ends or read_only"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise DefinitionError(f"{cls.__name__}.{name}: a tool returns its result; it does not yield")
    if bound and not inspect.signature(function).parameters:
        raise DefinitionError(f"{cls.__name__}.{name}: a tool is a method; its first parameter is self")
    try:
        check = ArgumentCheck(function, skip_self=bound)
    except SignatureError as error:
        raise SignatureError(f"{cls.__name__}: {error}") from error
    return ToolSpec(
        tool=Tool(name, check.description, check.parameters, mark.read_only),
        check=check,
        function=function,
        bound=bound,
        is_async=inspect.iscoroutinefunction(function),
        ends=mark.ends,
        timeout_blame=mark.timeout,
        timeout_s=mark.timeout_s,
    )
