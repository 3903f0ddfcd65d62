"""Watch gymwire servers in the terminal: sessions, rates, latencies, failures, queue, sandbox."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.console import Console
from rich.live import Live

from ...servers.auth import TokenError, read_tokens
from ...servers.commands.options import stop
from ..pool import Pool
from ..resolve import read_url
from ..session import WrongRequest
from ..top.scrape import Server, find, look_again
from ..top.screen import screen
from ..top.view import View, view


def top(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL...", help="Servers to watch, summed and each on a line of its own.")
    ],
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the servers' bearer token (scope admin) in its first line.")
    ] = None,
    interval: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Two looks, one interval apart, then end; so too without a terminal.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look, with everything.")] = False,
) -> None:
    """Watch gymwire servers in the terminal: sessions, rates, latencies, failures, queue, sandbox."""
    try:
        token = read_tokens(token_file)[0] if token_file else None
        with suppress(KeyboardInterrupt):
            asyncio.run(_Watch(urls, token, interval, once=once, as_json=as_json).run())
    except (TokenError, WrongRequest) as error:
        stop(str(error), 1)
    except BrokenPipeError:  # whoever reads has seen enough
        sys.stderr.close()


class _Watch:
    def __init__(self, urls: list[str], token: str | None, interval_s: float, *, once: bool, as_json: bool) -> None:
        self._urls, self._token, self._interval_s, self._as_json = urls, token, interval_s, as_json
        self._console = Console(highlight=False)
        self._live = not as_json and self._console.is_terminal and not self._console.is_dumb_terminal
        self._once = once or not (as_json or self._live)
        self._servers: list[Server] = []

    async def run(self) -> None:
        """Raises `WrongRequest` where one of the URLs is not what it should be."""
        async with Pool(ours=True, token=self._token) as pool:
            found = (find(pool, read_url(url), has_token=self._token is not None) for url in self._urls)
            self._servers = list(await asyncio.gather(*found))
            if self._once:
                await self._look(pool)
                self._print(view(self._servers, time.time()))
            elif self._as_json:
                await self._print_for_ever(pool)
            else:
                await self._show_for_ever(pool)

    async def _look(self, pool: Pool) -> None:
        await asyncio.sleep(self._interval_s)
        await asyncio.gather(*(look_again(pool, server) for server in self._servers))

    async def _print_for_ever(self, pool: Pool) -> None:
        while True:
            await self._look(pool)
            self._print(view(self._servers, time.time()))

    async def _show_for_ever(self, pool: Pool) -> None:
        with Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                shown = screen(view(self._servers, time.time()), self._title(), self._console.width)
                live.update(shown, refresh=True)
                await self._look(pool)

    def _print(self, seen: View) -> None:
        if self._as_json:
            line = {"at": datetime.now().astimezone().isoformat(timespec="milliseconds"), **asdict(seen)}
            typer.echo(orjson.dumps(line).decode())
        else:
            self._console.print(screen(seen, self._title(), self._console.width))

    def _title(self) -> str:
        return f"gymwire top, {datetime.now():%H:%M:%S}, every {self._interval_s:g} s"
