"""The same app as replicas of Ray Serve: `serve run gymwire.servers.ray:app_builder environments=counter`.

Ray's proxies send every request, and every socket, to a replica of their choice. So more than one replica needs
sessions in Redis and environments that are `replayable`; anything else is refused before a replica starts. The app
speaks at `/`: its faces name their own paths. Needs the extra `ray`, on every node.

Here, not in `gymwire serve`: replicas have no command line, the sandbox is chosen by GYMWIRE_SANDBOX and its
companions, and Ray's proxy, not gymwire, limits connections and frames (16 MB a WebSocket message).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .app import DRAIN_GRACE_S, App
from .auth import LOOPBACK, Guard
from .catalog import Served, find
from .environment import DefinitionError
from .sandbox.select import SharedSandbox
from .schema import explain
from .sessions import CLOSE_GRACE_S, Limits, Sessions
from .signing import Signer, SigningKeyError, read_keys

#: Ray itself: to a type checker, `ray` beside this module would be this module.
serve: Any = import_module("ray.serve")
#: Requests and sockets at once in one replica. Every OpenEnv session is a socket; Ray's own default is five.
MAX_ONGOING = 4096


def _listed(value: Any) -> Any:
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


class Options(BaseModel):
    """What a deployment serves, as text from `serve run` or a config file, or as values. Times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Installed names, or package.module:Class; commas between them.
    environments: Annotated[list[str], BeforeValidator(_listed)] = Field(min_length=1)
    #: Constructor arguments by environment; JSON as text.
    settings: Annotated[dict[str, dict[str, Any]], BeforeValidator(_json)] = {}
    #: Files of rows by environment, where every replica finds them; JSON as text.
    rows: Annotated[dict[str, Path], BeforeValidator(_json)] = {}
    #: Where sessions are kept: in the memory of the only replica, or redis://, rediss://, unix:///.
    store: str = ""
    #: How long calls wait for a store that is away.
    store_timeout: float = Field(20.0, gt=0)
    #: Bearer tokens, one a line, where every replica finds the file.
    token_file: Path | None = None
    #: Keys that handles are signed with, one a line, where every replica finds the file. Default: one in the store.
    signing_key_file: Path | None = None
    #: Host headers to accept; "*" for any. Default: loopback alone, or any with tokens.
    allow_hosts: Annotated[list[str], BeforeValidator(_listed)] = []
    masked_as_error: bool = False
    #: Of all replicas together, where they share a store.
    max_sessions: int = Field(1024, ge=1)
    max_sessions_per_token: int = Field(0, ge=0)
    idle_timeout: float = Field(600.0, gt=0)
    queue_timeout: float = Field(45.0, ge=0)
    lifetime: float = Field(3600.0, gt=0)

    min_replicas: int = Field(1, ge=0)
    max_replicas: int = Field(1, ge=1)
    #: Requests and open sockets of a replica above which Ray starts another one.
    target_ongoing_requests: float = Field(64.0, gt=0)
    #: How long more replicas than needed stay: one that goes closes its sockets.
    downscale_delay_s: float = Field(600.0, ge=0)
    #: Processors of one replica, which is one process.
    num_cpus: float = Field(1.0, ge=0)

    def limits(self) -> Limits:
        return Limits(
            self.max_sessions, self.idle_timeout, self.queue_timeout, self.lifetime, self.max_sessions_per_token
        )

    def guard(self) -> Guard:
        any_host = not self.allow_hosts and self.token_file is not None
        return Guard(hosts=() if any_host else {*LOOPBACK, *self.allow_hosts}, file=self.token_file)


class Replica:
    """One process with the whole app. Ray runs the app's start and end."""

    def __init__(self, options: Options) -> None:
        self.options = options

    async def __serve_build_asgi_app__(self) -> App:
        """Raises `DefinitionError`, or `StoreAway`: Ray shows it as the reason why the replica does not start."""
        options, sandbox = self.options, SharedSandbox()
        served = await asyncio.to_thread(_served, options, sandbox)
        app = App(served, _sessions(options), guard=options.guard(), masked_as_error=options.masked_as_error)
        await app.prepare()
        return app


def app_builder(arguments: Mapping[str, Any]) -> Any:
    """The application of `serve run gymwire.servers.ray:app_builder KEY=VALUE ...`. Raises `DefinitionError`."""
    return deployment(arguments)


def deployment(options: Options | Mapping[str, Any], **ray_options: Any) -> Any:
    """An application for `serve.run`, checked. Raises `DefinitionError` in one sentence.

    `ray_options` are those of `serve.deployment` and win over what is made of `options`: `autoscaling_config`,
    `num_replicas`, `ray_actor_options`, `max_ongoing_requests`, ...
    """
    options = options if isinstance(options, Options) else _read(options)
    chosen = _ray_options(options) | ray_options
    if "num_replicas" in ray_options:
        chosen.pop("autoscaling_config", None)
    _check(options, _most_replicas(chosen))
    return serve.deployment(serve.ingress()(Replica), **chosen).bind(options)


def _read(arguments: Mapping[str, Any]) -> Options:
    try:
        return Options.model_validate(dict(arguments))
    except ValidationError as error:
        raise DefinitionError(f"the deployment's arguments: {explain(error)}") from None


def _ray_options(options: Options) -> dict[str, Any]:
    return {
        "name": "gymwire",
        "max_ongoing_requests": MAX_ONGOING,
        "logging_config": {"enable_access_log": False},  # a line a tool call
        "graceful_shutdown_timeout_s": DRAIN_GRACE_S + CLOSE_GRACE_S + 10.0,
        "ray_actor_options": {"num_cpus": options.num_cpus},
        "autoscaling_config": {
            "min_replicas": options.min_replicas,
            "max_replicas": max(options.max_replicas, options.min_replicas),
            "target_ongoing_requests": options.target_ongoing_requests,
            "downscale_delay_s": options.downscale_delay_s,
        },
    }


def _most_replicas(ray_options: Mapping[str, Any]) -> int:
    """How many there may be; "auto" is Ray's autoscaling, which goes up to 100."""
    fixed = ray_options.get("num_replicas")
    if isinstance(fixed, int):
        return fixed
    scaling = ray_options.get("autoscaling_config")
    most = getattr(scaling, "max_replicas", None) if not isinstance(scaling, Mapping) else scaling.get("max_replicas")
    return most if isinstance(most, int) else 100 if fixed == "auto" else 1


def _check(options: Options, most_replicas: int) -> None:
    """Refuse what would lose sessions as soon as there is a second replica. Raises `DefinitionError`."""
    served = _served(options, SharedSandbox())
    if most_replicas == 1:
        return
    if not options.store:
        raise DefinitionError(
            f"up to {most_replicas} replicas need sessions that they share: give store=redis://HOST:PORT/0, "
            "or serve with one replica"
        )
    pinned = [item.name for item in served if not item.environment.replayable]
    if pinned:
        raise DefinitionError(
            f"{', '.join(pinned)}: not replayable, so a session lives in one replica, and Ray sends requests to any; "
            "serve with one replica (max_replicas=1), or give the environment get_state and set_state"
        )


def _served(options: Options, sandbox: SharedSandbox) -> list[Served]:
    known = set()
    made = []
    for name in options.environments:
        item = Served(find(name), options.settings.get(name), options.rows.get(name), sandbox)
        if item.name in known:
            raise DefinitionError(f"two environments are called {item.name!r}; give one a `name` of its own")
        known.add(item.name)
        made.append(item)
    if strangers := (options.settings.keys() | options.rows.keys()) - set(options.environments):
        raise DefinitionError(f"settings or rows for {', '.join(sorted(strangers))}, which is not served")
    return made


def _sessions(options: Options) -> Sessions:
    """The engine, with the chosen store. Raises `DefinitionError` for an address or keys that cannot be read."""
    try:
        keys = read_keys(options.signing_key_file) if options.signing_key_file else ()
    except SigningKeyError as error:
        raise DefinitionError(str(error)) from None
    if not options.store:
        return Sessions(options.limits(), signer=Signer(*keys))
    from .shared.line import Address, AddressError
    from .shared.sessions import SharedSessions  # needs hiredis, which the memory store does not

    try:
        address = Address.read(options.store)
        return SharedSessions(address, options.limits(), timeout_s=options.store_timeout, keys=keys)
    except AddressError as error:
        raise DefinitionError(str(error)) from None
