"""Which sandbox a process has, and the one pool of it that all its environments share."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .docker import IMAGE, Docker, engine_answers
from .jobs import Limits, Sandbox, SandboxUnavailable
from .pool import Pool
from .slots import Launcher

logger = logging.getLogger("gymwire.sandbox")
BACKENDS = ("docker", "bubblewrap", "subprocess")
#: The most that one job may ask for, in every backend.
CEILING = Limits(
    wall_s=600.0, cpu_s=600.0, memory_mb=1024, processes=128, output_bytes=4_194_304, files_bytes=67_108_864
)
VARIABLES = {"backend": "", "image": "_IMAGE", "slots": "_SLOTS", "url": "_URL", "token_file": "_TOKEN_FILE"}
UNSAFE = "the subprocess backend isolates nothing: only --allow-unsafe-sandbox permits it, for programs of your own"
#: Tests that are statements run beside the program that they test, in a slot of their own.
MIN_SLOTS = 2
FEW_SLOTS = (
    "a sandbox has at least two slots, since some tests run in a second one beside the program that they test: "
    "--sandbox-slots 2, or 0 for one a processor"
)
NOTHING = "no sandbox is to be had here: start a container engine (or name it in DOCKER_HOST), or install bubblewrap"


@dataclass(frozen=True, slots=True)
class Choice:
    """What an operator says of the sandbox. `backend` "" takes docker where an engine answers, else bubblewrap."""

    backend: str = ""
    image: str = IMAGE
    slots: int = 0  # at least two; 0: one for each processor, at least two
    url: str = ""  # of a `gymwire sandbox serve`, instead of a pool here
    token_file: Path | None = None
    allow_unsafe: bool = False


def chosen() -> Choice:
    """What the process's environment says, for whoever has no command line: GYMWIRE_SANDBOX, GYMWIRE_SANDBOX_IMAGE …"""
    given = {name: os.environ.get(f"GYMWIRE_SANDBOX{suffix}", "") for name, suffix in VARIABLES.items()}
    return Choice(
        backend=given["backend"],
        image=given["image"] or IMAGE,
        slots=int(given["slots"] or 0),
        url=given["url"],
        token_file=Path(given["token_file"]) if given["token_file"] else None,
    )


class Opened(Sandbox, Protocol):
    """A sandbox with a beginning and an end."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


def sandbox_of(choice: Choice) -> Opened:
    """The chosen sandbox, not opened yet. Raises `SandboxUnavailable` with what to do."""
    if choice.url:
        from .remote import RemoteSandbox  # the only way that needs an HTTP client

        return RemoteSandbox(choice.url, choice.token_file)
    slots = choice.slots or max(MIN_SLOTS, os.cpu_count() or 1)
    if slots < MIN_SLOTS:
        raise SandboxUnavailable(FEW_SLOTS)
    return Pool(launcher_of(choice), slots)


def launcher_of(choice: Choice, ceiling: Limits = CEILING) -> Launcher:
    """Raises `SandboxUnavailable`. A backend that was asked for is never replaced by another."""
    name = choice.backend or _usual()
    if name == "docker":
        return Docker(ceiling, choice.image)
    if name == "bubblewrap":
        from .bubblewrap import Bubblewrap

        return Bubblewrap(ceiling)
    if name != "subprocess":
        raise SandboxUnavailable(f"there is no sandbox {name!r}; choose one of {', '.join(BACKENDS)}")
    if not choice.allow_unsafe:
        raise SandboxUnavailable(UNSAFE)
    from .subprocess import Subprocess

    return Subprocess(ceiling)


def _usual() -> str:
    if engine_answers():
        return "docker"
    if shutil.which("bwrap"):
        return "bubblewrap"
    raise SandboxUnavailable(NOTHING)


class SharedSandbox:
    """The process's sandbox: opened by the first who asks, for everybody."""

    def __init__(self, choice: Choice | None = None) -> None:
        self.choice = choice or chosen()
        self._opening: asyncio.Task[Opened] | None = None

    async def get(self) -> Sandbox:
        """Raises `SandboxUnavailable`; who asks then again, tries again."""
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> Opened:
        made = await asyncio.to_thread(sandbox_of, self.choice)
        await made.open()
        return made

    async def close(self) -> None:
        """End every job. Does nothing where nobody has asked for it."""
        opening, self._opening = self._opening, None
        if opening is None:
            return
        try:
            await (await opening).close()
        except SandboxUnavailable as error:
            logger.debug("sandbox: %s", error)


def _failed(task: asyncio.Task[Opened]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
