"""Finding environments, and holding one as it is served: class, constructor arguments, rows."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from .environment import DefinitionError, Environment, ToolSpec
from .failures import told
from .rows import RowSource
from .sandbox.jobs import Sandbox, SandboxUnavailable
from .sandbox.select import SharedSandbox
from .schema import explain
from .settings import accepted
from .types import Row, RowError, Tool

logger = logging.getLogger("gymwire.catalog")
GROUP = "gymwire.environments"


class Served:
    """One environment as a server offers it."""

    def __init__(
        self,
        environment: type[Environment],
        settings: Mapping[str, Any] | None = None,
        rows_file: Path | None = None,
        sandbox: SharedSandbox | None = None,
    ) -> None:
        if environment.verify is Environment.verify:
            raise DefinitionError(f"{environment.__name__} defines no verify: how is an episode scored?")
        self.environment = environment
        self.name = environment.name
        self.settings = dict(settings or {})
        self._check_settings()
        self._shared = sandbox or SharedSandbox()
        self._sandbox: Sandbox | None = None
        self.rows = RowSource(environment, rows_file, self.settings)
        self.specs: Mapping[str, ToolSpec] = environment.tool_specs
        self.tools = tuple(spec.tool for spec in self.specs.values())
        self.read_only = frozenset(tool.name for tool in self.tools if tool.read_only)
        self.has_end_turn = environment.end_turn is not Environment.end_turn
        self._wanting: asyncio.Future[bool] | None = None
        self._setup: asyncio.Future[None] | None = None

    @cached_property
    def wants_sandbox(self) -> bool:
        """Whether `__init__` asks for a sandbox; one with a default is opened only where the rows need it."""
        asked = inspect.signature(self.environment).parameters.get("sandbox")
        if asked is None or "sandbox" in self.settings:
            return False
        return asked.default is asked.empty or self.rows.needs_sandbox

    @cached_property
    def reset_is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.environment.reset)

    @cached_property
    def verify_is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.environment.verify)

    @property
    def initializes(self) -> bool:
        return self.environment.__init__ is not object.__init__

    @property
    def resets(self) -> bool:
        return self.environment.reset is not Environment.reset

    async def setup(self) -> None:
        """Open the sandbox where the environment asks for one, and run its `setup`: once, however many ask.

        Raises `SandboxUnavailable`, and whatever the environment's `setup` raised.
        """
        if self._wanting is None:  # once, in a thread: it may read all rows; seeds that ask meanwhile keep their order
            self._wanting = asyncio.ensure_future(asyncio.to_thread(lambda: self.wants_sandbox))
        if await asyncio.shield(self._wanting) and self._sandbox is None:
            self._sandbox = await self._shared.get()
        if self._setup is None:
            self._setup = asyncio.ensure_future(self._run_setup())
        await asyncio.shield(self._setup)

    async def _run_setup(self) -> None:
        made = self.environment.setup(**accepted(self.environment.setup, self._arguments()))
        if inspect.isawaitable(made):
            await made

    async def prepare(self) -> None:
        """What a server does before it answers: `setup`, and all rows. Raises `DefinitionError`."""
        try:
            await self.setup()
            await asyncio.to_thread(lambda: [self.rows.count(split) for split in self.rows.splits])
        except RowError as error:
            raise DefinitionError(str(error)) from error
        except SandboxUnavailable as error:
            raise DefinitionError(f"{self.name} needs a sandbox: {error}") from error
        except Exception as error:  # the boundary of an author's `setup`
            raise DefinitionError(f"{self.name}: `setup` failed: {told(error)}") from error

    async def close(self) -> None:
        """Run the environment's `teardown`, and let go of the sandbox, if it was opened. Its sessions have ended."""
        setup, self._setup, self._wanting = self._setup, None, None
        self._sandbox = None
        try:
            if setup is not None and setup.done() and not setup.cancelled() and setup.exception() is None:
                await self._tear_down()
        finally:
            await self._shared.close()

    async def _tear_down(self) -> None:
        try:
            made = self.environment.teardown()
            if inspect.isawaitable(made):
                await made
        except Exception as error:  # the boundary of an author's `teardown`: the sessions have their outcomes
            logger.error("%s: `teardown` failed: %s", self.name, told(error))

    def make(self) -> Environment:
        return self.environment(**self._arguments())

    def _arguments(self) -> Mapping[str, Any]:
        return self.settings if self._sandbox is None else {**self.settings, "sandbox": self._sandbox}

    def check_data(self, row: Row) -> Any:
        """The row's task data as the environment's `Data`. Raises `RowError` that names the field."""
        model = self.environment.Data
        if model is None:
            return None
        try:
            return model.model_validate(row.data)
        except ValidationError as error:
            raise RowError(f"the row's data does not fit {self.name}: {explain(error)}") from None

    def offered(self, made: Environment, row: Row) -> dict[str, tuple[ToolSpec, Tool]]:
        """The tools of one row: what `tools_for` names, of which the row may pin fewer."""
        offered: dict[str, tuple[ToolSpec, Tool]] = {}
        for item in made.tools_for(row):
            name = item if isinstance(item, str) else item.name
            if name not in self.specs:
                raise DefinitionError(f"{self.name}.tools_for names {name!r}, which is no tool of it")
            spec = self.specs[name]
            shown = spec.tool if isinstance(item, str) else replace(item, read_only=spec.tool.read_only)
            offered[name] = (spec, shown)
        if row.tools is None:
            return offered
        pinned = {tool.name for tool in row.tools}
        return {name: pair for name, pair in offered.items() if name in pinned}

    def _check_settings(self) -> None:
        parameters = inspect.signature(self.environment).parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        for key in self.settings:
            if key not in parameters:
                known = ", ".join(parameters) or "none"
                raise DefinitionError(f"{self.name} takes no setting {key!r}; it takes: {known}")
        for parameter in parameters.values():
            if parameter.default is parameter.empty and parameter.name not in {*self.settings, "sandbox"}:
                if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                    continue
                raise DefinitionError(f"{self.name} needs --set {parameter.name}=VALUE")


def installed() -> dict[str, str]:
    """Names of the installed environments and where their classes are, sorted by name."""
    return {point.name: point.value for point in sorted(entry_points(group=GROUP), key=lambda p: p.name)}


def find(name: str) -> type[Environment]:
    """An environment by its installed name or as `package.module:Class`. Raises `DefinitionError`."""
    known = installed()
    target = known.get(name, name)
    if ":" not in target:
        close = get_close_matches(name, known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise DefinitionError(
            f"no environment is called {name!r}.{hint} Installed: {', '.join(known) or 'none'}; "
            "or name a class as package.module:Class."
        )
    module_name, _, class_name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        hint = ": write package.module:Class, and no file" if module_name.endswith(".py") else ""
        raise DefinitionError(f"{target}: there is no module {error.name!r} to import{hint}") from error
    except DefinitionError:
        raise
    except (Exception, SystemExit) as error:  # the boundary of somebody's module
        raise DefinitionError(f"{target}: importing {module_name!r} failed: {told(error)}") from error
    found = getattr(module, class_name, None)
    if found is None:
        raise DefinitionError(f"{target}: module {module_name} has no {class_name}")
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise DefinitionError(f"{target} is no Environment")
    return found
