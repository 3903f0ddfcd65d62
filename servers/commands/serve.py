"""Serve environments on NeMo Gym, OpenEnv and MCP, all on one port."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import ipaddress
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
import uvicorn

from ..app import DRAIN_GRACE_S, WIRES, App
from ..auth import LOOPBACK, Guard, TokenError
from ..catalog import Served
from ..connections import Connection, ConnectionLimits, Watch
from ..crew import Crew, CrewError, missing
from ..environment import DefinitionError
from ..faces import mcp
from ..gateway import Gateway
from ..logs import LogFormat
from ..process_figures import CONNECTIONS
from ..sandbox.docker import IMAGE
from ..sandbox.select import Choice, SharedSandbox
from ..sessions import Limits, Sessions
from ..signing import Signer, SigningKeyError, read_keys, warn_if_anybody_reads
from ..wording import counted
from ..workers import Place, bound, end_with_parent
from . import sandbox_options as sandboxes
from . import watch_options as watching
from .options import environment_names, read_served, stop

logger = logging.getLogger("gymwire.serve")
ACCESS = "Who may ask"
ROUTER_PORT = 8000
#: Tells workers which port their parent has found.
PORT = "GYMWIRE_PORT"
MAX_BODY_BYTES = 64 * 1024 * 1024
#: Seconds for answers on their way, and for requests that never end, once the calls are done.
LEAVE_GRACE_S = 5


def serve(
    environments: Annotated[
        list[str],
        typer.Argument(
            metavar="ENV...",
            help="Installed names (see `gymwire list`) or package.module:Class.",
            autocompletion=environment_names,
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)] = 8200,
    stdio: Annotated[bool, typer.Option("--stdio", help="Serve one environment as MCP over stdin/stdout.")] = False,
    rows: Annotated[
        list[str],
        typer.Option(
            metavar="[ENV=]FILE", help="Serve the rows of this file (JSONL, JSON, CSV, parquet) instead of its own."
        ),
    ] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", metavar="[ENV:]KEY=VALUE", help="A constructor argument; repeatable.")
    ] = [],  # noqa: B006
    tools: Annotated[
        list[str],
        typer.Option(
            metavar="[ENV=]MODULE:FUNCTION",
            help="Offer a plain function as a tool, too: module:fn, file.py:fn or file.py:fn1,fn2; repeatable.",
        ),
    ] = [],  # noqa: B006
    max_sessions: Annotated[int, typer.Option(help="Live sessions at once.", min=1)] = 1024,
    idle_timeout: Annotated[float, typer.Option(help="Seconds without a call before a session expires.")] = 600.0,
    queue_timeout: Annotated[float, typer.Option(help="Seconds a seed waits for a free place before 503.")] = 45.0,
    lifetime: Annotated[float, typer.Option(help="Seconds a session may live at all.")] = 3600.0,
    masked_as_error: Annotated[
        bool, typer.Option("--masked-as-error", help="NeMo Gym: a failed session's verify answers 503.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Ask for one of the bearer tokens in this file, one a line.", rich_help_panel=ACCESS),
    ] = None,
    signing_key_file: Annotated[
        Path | None,
        typer.Option(
            help="Sign handles with this file's first key (a line each). Default: random, shared by --store.",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    allow_host: Annotated[
        list[str],
        typer.Option(
            help="A Host header to accept besides loopback; repeatable; * for any. Default: loopback alone, "
            "or any with a token or beyond loopback.",
            rich_help_panel=ACCESS,
        ),
    ] = [],  # noqa: B006
    max_sessions_per_token: Annotated[
        int, typer.Option(metavar="N", help="Live sessions of one token; 0: no limit.", min=0, rich_help_panel=ACCESS)
    ] = 0,
    rate_limit: Annotated[
        float,
        typer.Option(
            metavar="N",
            help="Requests a second of one token, or of one address without any; 0: no limit.",
            min=0,
            rich_help_panel=ACCESS,
        ),
    ] = 0.0,
    max_body: Annotated[int, typer.Option(help="Bytes of a request's body or of a frame.", min=1)] = MAX_BODY_BYTES,
    body_timeout: Annotated[
        float, typer.Option(help="Seconds for a request's body to arrive, and 10 s a MB more; a head has at most 10 s.")
    ] = ConnectionLimits().body_s,
    max_connections: Annotated[
        int, typer.Option(help="Open connections; 0: nine tenths of the files the process may open.", min=0)
    ] = 0,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen beyond loopback without a token.", rich_help_panel=ACCESS),
    ] = False,
    sandbox: sandboxes.Backend = "",
    sandbox_image: sandboxes.Image = IMAGE,
    sandbox_slots: sandboxes.Slots = 0,
    sandbox_url: sandboxes.Url = "",
    sandbox_token_file: sandboxes.TokenFile = None,
    allow_unsafe_sandbox: sandboxes.Unsafe = False,
    store: Annotated[
        str,
        typer.Option(
            envvar="GYMWIRE_STORE",
            help="Where replicas share sessions: redis://HOST:PORT/0 or unix:///PATH. Default: in this process.",
        ),
    ] = "",
    gateway: Annotated[
        Gateway,
        typer.Option(help="With --store: a gateway in front finds a session's replica by headers, or in bodies, too."),
    ] = Gateway.NONE,
    store_timeout: Annotated[float, typer.Option(help="Seconds that calls wait for a store that is away.")] = 20.0,
    log_format: watching.LogFormat = LogFormat.TEXT,
    otel: watching.Otel = False,
    workers: Annotated[
        int,
        typer.Option(help="Processes behind the port; without --store, with a private redis-server.", min=1),
    ] = 1,
) -> None:
    """Serve environments on NeMo Gym, OpenEnv and MCP, all on one port."""
    place = Place.mine()
    if place is not None:
        end_with_parent()
    tracing = watching.begin(log_format, otel)
    choice = Choice(sandbox, sandbox_image, sandbox_slots, sandbox_url, sandbox_token_file, allow_unsafe_sandbox)
    served = read_served(environments, settings, rows, tools, SharedSandbox(choice))
    limits = Limits(
        max_sessions,
        _positive(idle_timeout, "--idle-timeout"),
        _positive(queue_timeout, "--queue-timeout", or_zero=True),
        _positive(lifetime, "--lifetime"),
        max_sessions_per_token,
    )
    patience_s = _positive(body_timeout, "--body-timeout")
    connections = ConnectionLimits(max_connections, min(patience_s, ConnectionLimits().head_s), patience_s)
    keys = _keys(signing_key_file, warn=place is None)
    if stdio and workers > 1:
        stop("--stdio is one process; leave out --workers")
    if workers > 1 and place is None:
        _guard(host, token_file, allow_host, insecure)
        _lead(workers, host, port, store, served, limits)
        return
    if stdio or (place is not None and place.behind_gateway):
        gateway = Gateway.BODIES
    sessions = _sessions(limits, store, store_timeout, keys, gateway)
    sessions.tracing = tracing
    if stdio:
        if len(served) != 1:
            stop("--stdio serves one environment")
        try:
            asyncio.run(mcp.serve_stdio(sessions, served[0]))
        except DefinitionError as error:
            stop(str(error))
        return
    guard = _guard(host, token_file, allow_host, insecure)
    app = App(
        served,
        sessions,
        guard=guard,
        rate_limit=_positive(rate_limit, "--rate-limit", or_zero=True),
        masked_as_error=masked_as_error,
        max_body_bytes=max_body,
        place=place,
    )
    listening = _bind(host, port, place)
    if place is None:
        at, port = listening.getsockname()[:2]
        _announce(served, at, port, limits)
        _warn_of_pinned(served, store, gateway)
    _tune_memory()
    try:
        Server(app, connections, max_frame_bytes=max_body).run(sockets=[listening])
    except DefinitionError as error:
        stop(str(error))


class Server(uvicorn.Server):
    """uvicorn as gymwire is measured with it. SIGTERM stops new seeds at once; the rest follows in `drain`."""

    def __init__(
        self, app: App, connections: ConnectionLimits | None = None, *, max_frame_bytes: int = MAX_BODY_BYTES
    ) -> None:
        self.app = app
        self._watch = Watch(connections or ConnectionLimits(), app.door.log)
        tracing = app.sessions.tracing
        config = uvicorn.Config(
            app if tracing is None else tracing.carried(app),  # pyright: ignore[reportArgumentType]
            loop="uvloop",
            http=type("WatchedConnection", (Connection,), {"watch": self._watch}),
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            ws_max_size=max_frame_bytes,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=LEAVE_GRACE_S,
            access_log=False,
            log_config=None,
            log_level="warning",  # its three lines a WebSocket are a session's, not an operator's
            proxy_headers=False,
            server_header=False,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Raises `DefinitionError` where an environment cannot be set up, which uvicorn would tell as a traceback."""
        await self.app.prepare()
        await super().startup(sockets)
        self._looking = asyncio.create_task(self._watch.look_for_ever(self.server_state.connections))
        self._uncount = CONNECTIONS.watch(lambda: len(self.server_state.connections))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Open sockets are closed at once: so the calls in flight are answered before."""
        answering = asyncio.ensure_future(self.app.sessions.calls_done(DRAIN_GRACE_S))
        while not answering.done() and not self.force_exit:
            await asyncio.sleep(0.02)
        answering.cancel()
        self._looking.cancel()
        await super().shutdown(sockets)
        self._uncount()
        if (tracing := self.app.sessions.tracing) is not None:  # uvicorn then ends the process by its signal
            await asyncio.to_thread(tracing.close)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.app.sessions.stop_seeding()
        super().handle_exit(sig, frame)


def _tune_memory() -> None:
    """What long transcripts cost beside their decoding: fresh pages for every copy, and collections that walk all
    of the program each time.

    glibc is told to keep freed blocks of up to 4 MB (16 MB in all) instead of returning them to the kernel at once.
    What is there by now stays, so the collector need not look at it again; and it looks at thousands of live sessions
    less often than after every 700 new objects, Python 3.11's rule.
    """
    with suppress(OSError, AttributeError):  # another C library
        set_option = ctypes.CDLL(None).mallopt
        set_option(-3, 4 << 20)  # M_MMAP_THRESHOLD
        set_option(-1, 16 << 20)  # M_TRIM_THRESHOLD
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def _keys(file: Path | None, *, warn: bool) -> tuple[bytes, ...]:
    if file is None:
        return ()
    try:
        keys = read_keys(file)
    except SigningKeyError as error:
        stop(str(error))
    if warn:
        warn_if_anybody_reads(file)
    return keys


def _sessions(limits: Limits, store: str, timeout_s: float, keys: Sequence[bytes], gateway: Gateway) -> Sessions:
    if not store:
        return Sessions(limits, signer=Signer(*keys))
    try:
        from ..shared.line import Address, AddressError
        from ..shared.sessions import SharedSessions
    except ModuleNotFoundError as error:
        stop(f"--store needs {error.name!r}: pip install 'gymwire[redis]'")
    try:
        seconds = _positive(timeout_s, "--store-timeout")
        return SharedSessions(Address.read(store), limits, timeout_s=seconds, keys=keys, gateway=gateway)
    except AddressError as error:
        stop(str(error))


def _positive(value: float, option: str, *, or_zero: bool = False) -> float:
    """Infinity is none: JSON, in which clients read the limits, cannot say it."""
    if not isfinite(value) or value < 0 or (value == 0 and not or_zero):
        stop(f"{option} must be a number {'not below' if or_zero else 'above'} 0, got {value:g}")
    return value


def _guard(host: str, token_file: Path | None, allow_host: list[str], insecure: bool) -> Guard:
    loopback = _is_loopback(host)
    if not loopback and not token_file and not insecure:
        stop(f"{host} is reachable by others: give --token-file FILE, or --insecure to serve without a token")
    any_host = not allow_host and (token_file or not loopback)
    try:
        return Guard(hosts=() if any_host else {*LOOPBACK, host, *allow_host}, file=token_file)
    except TokenError as error:
        stop(str(error))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _lead(workers: int, host: str, port: int, store: str, served: list[Served], limits: Limits) -> None:
    """Be the parent of the workers, each of which runs this command line again."""
    pinned = [item.name for item in served if not item.environment.replayable]
    if lacking := missing(pinned, store):
        stop(lacking)
    try:
        crew = Crew(workers, host, port, store=store, pinned=bool(pinned))
        _announce(served, host, crew.port, limits)
        os.environ[PORT] = str(crew.port)
        crew.run()
    except OSError as error:
        stop(f"port {port} of {host} cannot be had ({error.strerror}); choose another with --port", 1)
    except CrewError as error:
        if str(error):
            stop(str(error), error.status)
        raise typer.Exit(error.status) from None


def _bind(host: str, port: int, place: Place | None) -> socket.socket:
    try:
        return bound(host, port) if place is None else place.bind(host, int(os.environ.get(PORT, port)))
    except OSError as error:
        stop(f"port {port} of {host} cannot be had ({error.strerror}); choose another with --port", 1)


def _warn_of_pinned(served: list[Served], store: str, gateway: Gateway) -> None:
    pinned = [item.name for item in served if not item.environment.replayable]
    if store and pinned and gateway is Gateway.NONE:
        logger.warning(
            "%s: not replayable, so a session stays with its replica; as soon as --store has another one, seeds are "
            "refused unless --gateway says what sends requests there",
            ", ".join(pinned),
        )


def _announce(served: list[Served], host: str, port: int, limits: Limits) -> None:
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if port == ROUTER_PORT:
        logger.warning("port %d is where prime-rl's router listens; if both run here, choose another", port)
    for item in served:
        logger.info("%s: tools %s", item.name, ", ".join(tool.name for tool in item.tools) or "none")
        if item.rows.summary:
            logger.info("  %s", item.rows.summary)
        for wire, path in WIRES.items():
            logger.info("  %-8s %s/%s/%s", wire, base, item.name, path)
    logger.info(
        "limits: %s, idle %g s, lifetime %g s, queue %g s; docs at %s/docs",
        counted(limits.max_sessions, "session"),
        limits.idle_timeout_s,
        limits.lifetime_s,
        limits.queue_timeout_s,
        base,
    )
