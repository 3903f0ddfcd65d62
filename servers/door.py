"""The door of a server: who comes in, how often, and what is written about those who do not.

A line of the security log names the refusal, the address and the face: never a token, a handle, a body, or a path
that a policy may have chosen. Strangers cannot fill the disk with it: past `LINES_PER_S` only their number is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection
from typing import Any

from .answers import Code, Refused
from .auth import OPEN_PATHS, Guard
from .faces.asgi import Receive, Scope, Send
from .rates import Rates

security = logging.getLogger("gymwire.security")
LINES_PER_S = 5.0
#: Refusals that a well-behaved client never sees.
SUSPICIOUS = frozenset(
    (
        Code.UNAUTHORIZED,
        Code.FORBIDDEN_HOST,
        Code.FORBIDDEN_ORIGIN,
        Code.FORBIDDEN_SCOPE,
        Code.RATE_LIMITED,
        Code.TOO_LARGE,
        Code.TOO_SLOW,
    )
)


class SecurityLog:
    """One line an event, and a bounded number of each kind: a flood of one does not hide another."""

    def __init__(self, lines_per_s: float = LINES_PER_S) -> None:
        self._rates, self._untold = Rates(lines_per_s), Counter[str]()

    def write(self, event: str, where: str, who: str) -> None:
        if self._rates.wait_s(event) > 0:
            self._untold[event] += 1
            return
        untold = self._untold.pop(event, 0)
        more = f" ({untold} more were not written)" if untold else ""
        security.warning("%s at %s by %s%s", event, where, who, more)


class Door:
    """Lets requests in, or says why not. Knows the paths of the faces, for the log alone."""

    def __init__(self, guard: Guard, rates: Rates, prefixes: Collection[str] = ()) -> None:
        self.guard, self.rates, self.log = guard, rates, SecurityLog()
        self._prefixes = prefixes

    def enter(self, scope: Scope) -> str:
        """The owner of whoever asks, empty where no token is asked for. Raises `Refused`."""
        path = scope["path"]
        try:
            owner = self.guard.admit(path, scope["headers"])
        except Refused:
            if self.rates:
                self.rates.take(_address(scope))
            raise
        if self.rates and path not in OPEN_PATHS:
            self.rates.take(owner or _address(scope))
        return owner

    def refused(self, scope: Scope, refused: Refused) -> None:
        """Write a refusal down that no well-behaved client meets."""
        if refused.code in SUSPICIOUS:
            self.log.write(refused.code.value, self._place(scope["path"]), _address(scope))

    def turned_away(self, event: str, environment: str) -> None:
        """Write down a handle that the session engine does not take; it knows no addresses."""
        self.log.write(event, f"/{environment}", "a client")

    def _place(self, path: str) -> str:
        prefix = "/".join(path.split("/", 3)[:3])
        return prefix if prefix in self._prefixes else "another path"

    def listening(self, owner: str, receive: Receive, send: Send) -> Receive:
        """A socket's `receive`: messages past the rate wait their turn, and a token taken back ends the socket."""

        early: list[Any] = []  # whoever listens may give up while a message waits for its turn; it is not lost then

        async def listen() -> Any:
            if not early:
                early.append(await receive())
            message = early[0]
            while self.rates and message["type"] == "websocket.receive" and (wait_s := self.rates.wait_s(owner)) > 0:
                await asyncio.sleep(wait_s)
            early.clear()
            if message["type"] == "websocket.receive" and not self.guard.may_play(owner):
                await send({"type": "websocket.close", "code": 1008, "reason": "the token was taken back"})
                return {"type": "websocket.disconnect", "code": 1008}
            return message

        return listen if owner or self.rates else receive


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "a local socket"
