"""What can be bridged, by the name that `--from` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from ...servers.environment import Environment
from ...servers.settings import accepted

#: Servers: reached over a wire, an episode there for each session here.
SERVERS = ("mcp", "openenv", "nemo-gym")
#: Hosted in this process: the module that makes the environment, with `environment(target) -> type[Environment]`.
HOSTED = {
    "openenv-class": "openenv_class",
    "gymnasium": "gymnasium",
    "reasoning-gym": "reasoning_gym",
    "functions": "functions",
    "jsonl-worker": "jsonl_worker",
}
KINDS = (*SERVERS, *HOSTED)


def hosted(kind: str, target: str, settings: Mapping[str, Any] = MappingProxyType({})) -> type[Environment]:
    """The environment that `target` names; its tools may depend on the `settings` that its sessions will get.

    Raises `DefinitionError` with what to do, as for a missing extra.
    """
    module = import_module(f".{HOSTED[kind]}", __package__)
    make: Callable[..., type[Environment]] = module.environment
    return make(target, **accepted(make, {"settings": settings}))
