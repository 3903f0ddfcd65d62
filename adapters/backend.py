"""What stands behind a connection: something that seeds sessions of one environment on one wire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from .endpoint import Endpoint, EnvironmentInfo
from .mcp import seed_mcp
from .nemo_gym import seed_nemo_gym
from .openenv import seed_openenv
from .session import Session, Task

#: The wires that travel; `local` is the fourth choice.
SEEDERS: dict[str, Callable[[Endpoint, Task], Awaitable[Session]]] = {
    "nemo-gym": seed_nemo_gym,
    "openenv": seed_openenv,
    "mcp": seed_mcp,
}


class Backend(ABC):
    """Seeds sessions of one environment; `close` lets go of what all of them shared."""

    wire: str
    info: EnvironmentInfo

    @abstractmethod
    async def seed(self, task: Task) -> Session:
        """Begin an episode. Raises `Busy`, `WrongRequest` or `SessionFailed`."""

    @abstractmethod
    async def close(self) -> None: ...


class Remote(Backend):
    """An environment at an endpoint: a gymwire server's on any wire, or a stranger's NeMo Gym server."""

    def __init__(self, wire: str, endpoint: Endpoint, info: EnvironmentInfo) -> None:
        self.wire, self.endpoint, self.info = wire, endpoint, info

    async def seed(self, task: Task) -> Session:
        return await SEEDERS[self.wire](self.endpoint, task)

    async def close(self) -> None:
        await self.endpoint.pool.close()
