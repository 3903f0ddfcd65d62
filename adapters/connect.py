"""`connect`: from a URL, an environment's name or a class to an object that seeds sessions.

    async with connect("http://127.0.0.1:8200", env="counter", wire="mcp") as env:
        async with env.session(split="eval", index=3) as session:
            await session.call("add", {"n": 4})
            outcome = await session.verify()

A URL is a server's root, `/{env}` or a face (`/{env}/gym`, `/{env}/openenv`, `/{env}/mcp`); `env` is needed only for
a root with several environments. What is no URL is an environment to run in this process. A server that is not
gymwire's needs `wire`. Wrong input raises `WrongRequest` with one sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from weakref import WeakSet

from ..servers.catalog import Served
from ..servers.environment import Environment
from ..servers.sessions import Sessions
from ..servers.types import EpisodeId, Row
from .backend import Backend, Remote
from .calls import Keep
from .endpoint import Endpoint, EnvironmentInfo
from .foreign import McpOptions, McpServer, OpenEnvOptions
from .foreign_openenv import ForeignOpenEnv
from .local import InProcess
from .patience import RIDE_OUT_S, until_admitted
from .pool import Pool
from .resolve import check_wire, is_url, read_url, resolve
from .session import ResultLimit, Session, Task, WrongRequest

FOR_STRANGERS = (
    "a bridge, and mcp= and openenv= (--state-tool, --reward-tool, --reward ...), are for servers of others."
)
#: How long a seed waits for a full server.
PATIENCE_S = 600.0
MAX_ID_CHARACTERS = 200
Opener = Callable[[], Awaitable[Backend]]


class Connection:
    """Seeds sessions of one environment. An async context manager; closing it closes what its sessions left open."""

    def __init__(self, opener: Opener, patience_s: float) -> None:
        self._opener, self._patience_s = opener, patience_s
        self._backend: Backend | None = None
        self._sessions: WeakSet[Session] = WeakSet()

    @property
    def wire(self) -> str:
        return self._opened().wire

    @property
    def info(self) -> EnvironmentInfo:
        """What is known of the environment; of a stranger's, little more than its name."""
        return self._opened().info

    def session(
        self,
        *,
        row: Row | Mapping[str, Any] | None = None,
        split: str | None = None,
        index: int | None = None,
        seed: int | None = None,
        episode: EpisodeId | None = None,
    ) -> Seeding:
        """Begin an episode: `await` it, or use it as an async context manager.

        The task is a whole `row`, or row `index` of a `split`, or a choice by `seed`. An `episode` names the
        session reproducibly: seeding the same one again, while it lives, answers the same session.
        """
        task = Task(_row(row), split, index, seed, secrets.token_hex(16))
        if episode is not None:
            task = replace(task, seed=episode.seed if seed is None else seed, session_id=session_id_of(episode))
        return Seeding(self, task)

    async def seed(self, task: Task) -> Session:
        """Begin an episode of a task, waiting while the server is full. Raises `WrongRequest` or `SessionFailed`."""
        backend = self._opened()
        session = await until_admitted(lambda: backend.seed(task), self._patience_s)
        self._sessions.add(session)
        return session

    async def open(self) -> Self:
        """Find the environment. Raises `WrongRequest`."""
        if self._backend is None:
            self._backend = await self._opener()
        return self

    async def close(self) -> None:
        """Close the sessions that were left open, then every connection."""
        backend, self._backend = self._backend, None
        if backend is None:
            return
        try:
            await asyncio.gather(*(session.close() for session in list(self._sessions)))
        finally:
            await backend.close()

    def _opened(self) -> Backend:
        if self._backend is None:
            raise RuntimeError("this connection is not open: use `async with connect(...)`, or `await it.open()`")
        return self._backend

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Seeding:
    """A session about to begin: awaitable, and an async context manager that closes it."""

    def __init__(self, connection: Connection, task: Task) -> None:
        self._connection, self._task = connection, task
        self._session: Session | None = None

    async def start(self) -> Session:
        return await self._connection.seed(self._task)

    def __await__(self) -> Generator[Any, Any, Session]:
        return self.start().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self.start()
        return self._session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()


def connect(
    target: str | Sequence[str] | Mapping[str, McpServer] | type[Environment] | Served,
    *,
    wire: str | None = None,
    env: str | None = None,
    token: str | None = None,
    patience_s: float = PATIENCE_S,
    max_result_chars: int | None = None,
    keep: Keep = "both",
    call_timeout_s: float | None = None,
    settings: Mapping[str, Any] | None = None,
    sessions: Sessions | None = None,
    mcp: McpOptions | None = None,
    openenv: OpenEnvOptions | None = None,
) -> Connection:
    """A connection to one environment, opened when it is entered.

    target: a URL; an environment's name, `package.module:Class` or class, to run in this process; or, for MCP
        servers that are not gymwire's, a command as a list, or several servers by name (`{"shop": URL, …}`).
    wire: nemo-gym, openenv, mcp or local; default: what the URL says, else nemo-gym.
    token: sent as a bearer token.
    patience_s: how long a seed waits for a full server.
    max_result_chars, keep: cut longer tool results, keeping the "start", the "end" or "both" ends.
    call_timeout_s: the time a call may take; default: the environment's own limit and a margin.
    settings, sessions: constructor arguments and the session engine, for an environment in this process.
    mcp, openenv: how to drive a stranger's server.
    """
    check_wire(wire)
    for name, options in (("mcp", mcp), ("openenv", openenv)):
        if options is not None and wire not in (None, name):
            raise WrongRequest(f"{name}= belongs to wire={name!r}, not to {wire!r}.")
    limit = None if max_result_chars is None else ResultLimit(max_result_chars, keep)
    if isinstance(target, str) and is_url(target):
        opener = _remote(target, wire, env, token, limit, call_timeout_s, mcp, openenv)
    elif isinstance(target, Mapping) or (isinstance(target, Sequence) and not isinstance(target, str)):
        if wire not in (None, "mcp"):
            raise WrongRequest(f"commands and several servers at once are for wire='mcp', not {wire!r}.")
        opener = _foreign_mcp(target, mcp, token, limit, call_timeout_s)
    else:
        if wire not in (None, "local"):
            raise WrongRequest(f"wire {wire!r} needs the URL of a server; {target!r} is none.")
        if mcp is not None or openenv is not None:
            raise WrongRequest(f"{_name_of(target)!r} runs in this process; {FOR_STRANGERS}")
        opener = _local(target, env, settings, sessions, limit)
    return Connection(opener, patience_s)


def _local(
    target: str | type[Environment] | Served,
    env: str | None,
    settings: Mapping[str, Any] | None,
    sessions: Sessions | None,
    limit: ResultLimit | None,
) -> Opener:
    async def opener() -> Backend:
        if env not in (None, name := _name_of(target)):
            raise WrongRequest(f"env= (--env) {env!r} belongs to a URL; {name!r} is an environment already.")
        return InProcess.of(target, settings, sessions, limit)

    return opener


def _name_of(target: str | type[Environment] | Served) -> str:
    return target if isinstance(target, str) else target.name


def _foreign_mcp(
    target: Any, options: McpOptions | None, token: str | None, limit: ResultLimit | None, call_timeout_s: float | None
) -> Opener:
    async def opener() -> Backend:
        from .foreign_mcp import ForeignMcp  # the SDK is slow to import, and only strangers need it

        return await ForeignMcp.open(target, options or McpOptions(), token, limit, call_timeout_s)

    return opener


def _remote(
    target: str,
    wire: str | None,
    env: str | None,
    token: str | None,
    limit: ResultLimit | None,
    call_timeout_s: float | None,
    mcp: McpOptions | None,
    openenv: OpenEnvOptions | None,
) -> Opener:
    if wire == "local":
        raise WrongRequest(f"wire 'local' runs an environment in this process; {target} is the URL of a server.")
    url = read_url(target)

    async def opener() -> Backend:
        found = await resolve(url, wire=wire, env=env, token=token)
        if found is not None:
            if mcp is not None or openenv is not None:
                raise WrongRequest(f"{url} is a gymwire server, on all wires already; {FOR_STRANGERS}")
            pool = Pool(ours=True, token=token, patience_s=RIDE_OUT_S if found.info.shared else 0.0)
            endpoint = Endpoint.of_ours(found.url, pool, found.info, found.limits, limit)
            return Remote(found.wire, _timed(endpoint, call_timeout_s), found.info)
        if wire == "mcp":
            return await _foreign_mcp(str(url), mcp, token, limit, call_timeout_s)()
        pool = Pool(ours=False, token=token)
        endpoint = _timed(Endpoint(url, pool, False, limit=limit), call_timeout_s)
        info = EnvironmentInfo(env or url.name or str(url.host))
        if wire == "openenv":
            return await ForeignOpenEnv.open(endpoint, info, openenv or OpenEnvOptions())
        if wire == "nemo-gym":
            return Remote(wire, endpoint, info)
        raise WrongRequest(
            f"{url} is no gymwire server (there is no /environments); "
            "say what it speaks with wire= (--wire): nemo-gym, openenv or mcp."
        )

    return opener


def _timed(endpoint: Endpoint, call_timeout_s: float | None) -> Endpoint:
    return endpoint if call_timeout_s is None else replace(endpoint, call_timeout_s=call_timeout_s)


def session_id_of(episode: EpisodeId) -> str:
    """An episode's name as every wire can carry it: plain ASCII, of bounded length."""
    name = quote(str(episode), safe=":")
    return name if len(name) <= MAX_ID_CHARACTERS else f"episode:{sha256(name.encode()).hexdigest()}"


def _row(row: Row | Mapping[str, Any] | None) -> Row | None:
    if row is None or isinstance(row, Row):
        return row
    try:
        return Row.from_json(row)
    except ValueError as error:
        raise WrongRequest(str(error)) from None
