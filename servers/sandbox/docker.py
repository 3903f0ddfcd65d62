"""The backend of a container engine: every slot is a hardened container with a worker as its PID 1.

What holds: no network, a read-only root, no capability and no way to gain one, an unprivileged user, limits of memory
(swap included), processes and CPU by cgroup, system calls refused by `docker_profile.py`, no IPC with others, one /tmp
with a size and a number of files, no log. The engine is Docker, or Podman by its socket (same API; our tests run
Docker). The engine's socket is root on its host: whoever may reach it owns the machine.

A container ends with the connection that feeds its worker. Those that outlived their process all the same are found by
their label at the next start, and removed if that process is of this machine and gone.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .demultiplex import streams
from .docker_profile import docker_profile
from .frames import MAX_STDIN_BYTES, MEGABYTE, SLOT_FILES, SOURCE
from .jobs import Limits, SandboxUnavailable
from .seccomp import job_filter
from .slots import Slot

logger = logging.getLogger("gymwire.sandbox")
IMAGE = "python:3.12-slim"
LABEL = "gymwire.sandbox"
NOBODY = 65534
API_TIMEOUT_S = 15
#: What a container may have beside its job: the worker, its threads, and a job's stdin.
SPARE_MEMORY = 32 * MEGABYTE + MAX_STDIN_BYTES
SPARE_PROCESSES = 4


class Docker:
    """Starts slots as containers of `image`, each with `cpus` processors. Linux containers only."""

    name = "docker"

    def __init__(self, ceiling: Limits, image: str = IMAGE, cpus: float = 1.0) -> None:
        self.ceiling, self.image, self._cpus = ceiling, image, cpus
        self._machine = ""
        self._api: Any = None
        self._errors: Any = None

    async def open(self) -> None:
        """Find the engine and the image, and remove what gone processes left. Raises `SandboxUnavailable`."""
        self._api, self._errors = await asyncio.to_thread(_client)
        engine = await self._ask("version")
        logger.info("sandbox: %s %s", engine.get("Platform", {}).get("Name") or "engine", engine["Version"])
        about = await self._ask("info")
        self._cpus, self._machine = min(self._cpus, about["NCPU"]), about["Architecture"]
        if not await self._ask("images", self.image):
            raise SandboxUnavailable(f"the image {self.image} is not on this engine: `docker pull {self.image}`")
        await self._reap()

    async def start(self) -> Slot:
        """Start a container. Raises `SandboxUnavailable`."""
        starting = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            container, attached = await asyncio.shield(starting)
        except asyncio.CancelledError:  # what a thread has begun must not be left behind
            container, attached = await starting
            attached.close()
            await self._remove(container)
            raise
        reader, writer = await streams(attached)
        return Slot(f"docker-{container[:12]}", reader, writer, partial(self._remove, container))

    def _begin(self) -> tuple[str, socket.socket]:
        """A running container and the socket of its worker's streams."""
        container = self._call("create_container", **self._settings())["Id"]
        try:
            attached = _own_socket(self._call("attach_socket", container, {"stdin": 1, "stdout": 1, "stream": 1}))
            try:
                self._call("start", container)
            except SandboxUnavailable:
                attached.close()
                raise
        except SandboxUnavailable:
            self._forget(container)
            raise
        return container, attached

    async def close(self) -> None:
        if self._api is not None:
            await asyncio.to_thread(self._api.close)

    def label(self) -> str:
        """What the containers of this process carry: whose they are."""
        return _owner(os.getpid())

    def _settings(self) -> dict[str, Any]:
        return {
            "image": self.image,
            "entrypoint": ["python3", "-I", "-S", "-c", SOURCE.read_text()],
            # Its filter refuses the jobs what the profile must leave to the worker: files of memory.
            "command": ["/tmp", "0", job_filter(self._machine).hex()],
            "user": f"{NOBODY}:{NOBODY}",
            "working_dir": "/tmp",
            "stdin_open": True,  # and closed with the connection: then the worker ends
            "labels": {LABEL: self.label()},
            "host_config": self._api.create_host_config(**self._hardening()),
        }

    def _hardening(self) -> dict[str, Any]:
        limits = self.ceiling
        memory = limits.memory_mb * MEGABYTE + limits.files_bytes + SPARE_MEMORY
        tmp = f"rw,exec,nosuid,nodev,mode=0700,uid={NOBODY},gid={NOBODY}"
        return {
            "network_mode": "none",
            "ipc_mode": "none",  # else /dev/shm is a second place to write
            "read_only": True,
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges", f"seccomp={docker_profile()}"],
            "pids_limit": limits.processes + SPARE_PROCESSES,
            "mem_limit": memory,
            "memswap_limit": memory,
            "nano_cpus": int(self._cpus * 1e9),
            "tmpfs": {
                "/tmp": f"{tmp},size={limits.files_bytes + MEGABYTE},nr_inodes={SLOT_FILES}",
                "/dev/mqueue": "ro,size=4k,nr_inodes=1",  # else names of queues are left for later jobs to read
            },
            "log_config": {"Type": "none"},
            "init": False,  # a job could kill the worker if that were not PID 1
            "auto_remove": True,
        }

    async def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        return await asyncio.to_thread(self._call, method, *arguments, **options)

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call the engine. Raises `SandboxUnavailable`."""
        if not engine_answers():  # the SDK leaves a socket open for every try to reach one that is gone
            raise SandboxUnavailable(f"the container engine at {address()} does not answer any more")
        try:
            return getattr(self._api, method)(*arguments, **options)
        except (self._errors.DockerException, OSError) as error:
            raise SandboxUnavailable(f"the container engine does not do {method}: {_sentence(error)}") from error

    async def _remove(self, container: str) -> None:
        await asyncio.to_thread(self._forget, container)

    def _forget(self, container: str) -> None:
        """Kill a container at once and remove it; one that is gone already, or an engine that is, is fine."""
        for method, options in (("kill", {}), ("remove_container", {"force": True, "v": True})):
            try:
                self._call(method, container, **options)
            except SandboxUnavailable as error:
                logger.debug("%s: %s", container[:12], error)

    async def _reap(self) -> None:
        for left in await self._ask("containers", all=True, filters={"label": LABEL}):
            if _orphaned(left["Labels"][LABEL]):
                logger.info("sandbox: removing %s, whose process is gone", left["Id"][:12])
                await self._remove(left["Id"])


def _client() -> tuple[Any, Any]:
    """The engine's client and its module of errors. Raises `SandboxUnavailable` where no engine answers."""
    try:
        docker = importlib.import_module("docker")
    except ModuleNotFoundError:
        raise SandboxUnavailable("the docker backend needs the docker SDK: pip install 'gymwire[docker]'") from None
    errors = importlib.import_module("docker.errors")
    where = address()
    silent = f"no container engine answers at {where}; start one, or name another in DOCKER_HOST"
    if not engine_answers():
        raise SandboxUnavailable(silent)
    try:
        options = {**docker.utils.kwargs_from_env(), "base_url": where, "version": "auto", "timeout": API_TIMEOUT_S}
        api = docker.APIClient(**options)
        api.ping()
    except (errors.DockerException, OSError) as error:
        raise SandboxUnavailable(f"{silent} ({_sentence(error)})") from None
    return api, errors


def address() -> str:
    """Where the engine is: DOCKER_HOST, else the first socket that exists of Docker's and Podman's."""
    if chosen := os.environ.get("DOCKER_HOST"):
        return chosen
    own = Path(os.environ.get("XDG_RUNTIME_DIR", "/run/user/0"))
    usual = (
        Path("/var/run/docker.sock"),
        own / "docker.sock",
        own / "podman/podman.sock",
        Path("/run/podman/podman.sock"),
    )
    return f"unix://{next((path for path in usual if path.exists()), usual[0])}"


def engine_answers() -> bool:
    """Whether an engine listens at `address`; asked without the SDK, which may be missing."""
    where = urlsplit(address())
    try:
        if where.scheme == "unix":
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(API_TIMEOUT_S)
                connection.connect(where.path)
                connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
                return b" 200 " in connection.recv(100)
        return bool(where.hostname)  # a remote engine that somebody named: asked when it is opened
    except OSError:
        return False


def _sentence(error: BaseException) -> str:
    text = str(getattr(error, "explanation", "") or error)
    return " ".join(text.split())[:300]


def _own_socket(attached: Any) -> socket.socket:
    """The raw connection behind the SDK's answer, as a descriptor that the SDK cannot close."""
    raw = getattr(attached, "_sock", attached)
    if type(raw) is not socket.socket:
        raise SandboxUnavailable("the engine must be reached by a plain socket: unix:// or tcp:// without TLS")
    own = raw.dup()
    attached.close()
    raw.close()
    return own


# ---- whose containers


def _owner(pid: int) -> str:
    """A process for ever: this boot, this process name space, its number and when it started."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}:{pid}:{_started(pid)}"


def _started(pid: int) -> str:
    """The start time of a process in clock ticks; "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _orphaned(owner: str) -> bool:
    """Whether the owner was a process that this one would see, and does not."""
    boot_and_space, _, rest = owner.rpartition(":")[0].rpartition(":")[0], "", owner.split(":")[2:]
    if len(rest) != 2 or not rest[0].isdigit() or not _owner(os.getpid()).startswith(f"{boot_and_space}:"):
        return False
    return _started(int(rest[0])) != rest[1]
