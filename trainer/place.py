"""Where a run's episodes take place: a connection to the environment, and what it says of itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from ..adapters.connect import PATIENCE_S, Connection, connect
from ..adapters.endpoint import EnvironmentInfo
from ..adapters.local import InProcess
from ..adapters.pool import Pool
from ..adapters.resolve import read_url, resolve
from ..adapters.session import SessionFailed, WrongRequest
from ..servers.auth import TokenError, read_tokens
from ..servers.catalog import Served, find
from ..servers.environment import DefinitionError
from .config import Config, ConfigError, Data, EnvironmentConfig
from .rows import RowBook, read_book


@dataclass(frozen=True, slots=True)
class Identity:
    """Which environment a run learned from; two runs with equal identities saw the same tools."""

    name: str
    wire: str
    url: str | None
    version: str
    """The version of the gymwire that serves it; empty for a stranger's server."""
    tools_hash: str
    splits: Mapping[str, int] = field(default_factory=dict)
    replayable: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Place:
    """An environment that was found. `limits` are a gymwire server's own; `served` is set in this process only."""

    config: EnvironmentConfig
    info: EnvironmentInfo
    identity: Identity
    limits: Mapping[str, Any] = field(default_factory=dict)
    served: Served | None = None

    @property
    def offers_tools(self) -> bool:
        """Whether the policy may be offered tools; of a stranger's server it is not known."""
        return bool(self.info.tools) or not self.identity.version

    def connection(self, patience_s: float = PATIENCE_S) -> Connection:
        """A connection, not opened yet."""
        if self.served is not None:
            return connect(self.served, patience_s=patience_s)
        assert self.config.url is not None
        named = self.config.name if self.identity.version else None
        return connect(
            self.config.url, env=named, wire=self.config.wire, token=_token(self.config), patience_s=patience_s
        )

    def rows(self, data: Data) -> RowBook:
        """The rows to train on. Raises `ConfigError`."""
        key = "data.rows" if data.rows else "data.split"
        return read_book(data.rows, data.split, data.count, self.served, self.info, key)

    def eval_rows(self, data: Data) -> RowBook:
        """The held-out rows, or an empty book where none are asked for. Raises `ConfigError`."""
        if not data.eval_count:
            return RowBook([])
        key = "data.eval_rows" if data.eval_rows else "data.eval_split"
        return read_book(data.eval_rows, data.eval_split, data.eval_count, self.served, self.info, key)


async def find_place(config: Config) -> Place:
    """Find the environment. Raises `ConfigError` with a sentence that names the fix."""
    try:
        return _here(config.environment) if config.environment.url is None else await _there(config.environment)
    except (WrongRequest, DefinitionError, SessionFailed) as error:
        raise ConfigError(f"environment: {error}") from None


def _here(config: EnvironmentConfig) -> Place:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # `package.module:Class` beside the person who calls
    served = Served(find(config.name), config.settings)
    info = InProcess(served, None, None).info
    return Place(config, info, _identity(info, "local", None, version("gymwire")), served=served)


async def _there(config: EnvironmentConfig) -> Place:
    assert config.url is not None
    token = _token(config)
    found = await resolve(read_url(config.url), wire=config.wire, env=config.name, token=token)
    if found is None:
        return await _stranger(config, token)
    root = found.url.with_path(found.url.path.removesuffix(found.info.wires[found.wire]) or "/")
    async with Pool(ours=False, token=token) as pool:
        listing = orjson.loads((await pool.get(root / "environments", timeout_s=15.0)).body)
    identity = _identity(found.info, found.wire, config.url, str(listing.get("version") or "unknown"))
    return Place(config, found.info, identity, found.limits)


async def _stranger(config: EnvironmentConfig, token: str | None) -> Place:
    """A server that is not gymwire's says little of itself; what it lacks, `connect` explains."""
    if config.wire is None:
        raise ConfigError(
            f"environment.url: nothing at {config.url} says that it is a gymwire server; check the URL, or name "
            "environment.wire for a server of others"
        )
    async with connect(config.url or "", wire=config.wire, token=token) as connection:
        info = connection.info
    return Place(config, info, _identity(info, config.wire, config.url, ""))


def _identity(info: EnvironmentInfo, wire: str, url: str | None, served_by: str) -> Identity:
    tools = json.dumps([tool.as_chat() for tool in info.tools], sort_keys=True)
    digest = sha256(tools.encode()).hexdigest()[:16]
    return Identity(info.name, wire, url, served_by, digest, dict(info.splits), info.replayable)


def _token(config: EnvironmentConfig) -> str | None:
    if config.token_file is None:
        return None
    try:
        return read_tokens(config.token_file)[0]
    except TokenError as error:
        raise ConfigError(f"environment.token_file: {error}") from None
