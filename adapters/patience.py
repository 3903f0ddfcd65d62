"""Waiting for a full server, and repeating what may be repeated; with jitter, so that clients do not march in step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import uniform
from time import monotonic
from typing import TypeVar

from ..servers.types import FailureKind, Stage
from .session import SessionFailed

T = TypeVar("T")
#: Seconds a seed waits for a slot when the server does not say when to come back.
DEFAULT_RETRY_AFTER_S = 2.0
#: Pauses before each repeat of a request whose delivery is unknown and that cannot act twice.
REPEAT_PAUSES_S = (0.05, 0.25, 1.0)
#: Seconds in which it is repeated where sessions outlive the process that answers for them, and the longest pause.
RIDE_OUT_S, MAX_PAUSE_S = 60.0, 2.0


class Busy(Exception):
    """The server has no slot, or none any more; it may have one later."""

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = DEFAULT_RETRY_AFTER_S if retry_after_s is None else retry_after_s


class Undelivered(Exception):
    """The connection broke: whether the request was carried out is unknown."""

    may_have_acted = True

    def __init__(self, text: str, kind: FailureKind = FailureKind.TRANSPORT_PEER_DROP) -> None:
        super().__init__(text)
        self.kind = kind


class Unreachable(Undelivered):
    """No connection came about: the request was not carried out."""

    may_have_acted = False

    def __init__(self, text: str, kind: FailureKind = FailureKind.TRANSPORT_UNREACHABLE) -> None:
        super().__init__(text, kind)


class NotCounted(Undelivered):
    """A server of ours says that nothing of it counts (code `repeat`): the same request is to be sent again."""

    may_have_acted = False

    def __init__(self, text: str) -> None:
        super().__init__(text, FailureKind.PROVIDER_UNAVAILABLE)


async def until_admitted(seed: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Seed, again and again while the server is full, at most `patience_s`. Raises `SessionFailed` then."""
    deadline = monotonic() + patience_s
    while True:
        try:
            return await seed()
        except Busy as busy:
            pause_s = busy.retry_after_s * uniform(0.5, 1.5)
            if monotonic() + pause_s > deadline:
                reason = f"no slot within {patience_s:g} s: {busy}"
                raise SessionFailed(FailureKind.PROVIDER_UNAVAILABLE, reason, Stage.SEED) from None
        await asyncio.sleep(pause_s)


async def delivered(
    request: Callable[[], Awaitable[T]], stage: Stage, *, repeatable: bool, patience_s: float = 0.0
) -> T:
    """Send a request; repeat it only where a repeat cannot act twice: up to three times, or for `patience_s`.

    Raises `SessionFailed`: transport_peer_drop when delivery stays unknown, transport_unreachable when nobody
    answers, provider_unavailable when a gateway has no server or a server asks for a repeat again and again.
    """
    pauses_s = _pauses_s(patience_s)
    while True:
        try:
            return await request()
        except Undelivered as error:
            pause_s = next(pauses_s, None)
            if pause_s is None or (error.may_have_acted and not repeatable):
                why = f"delivery unknown: {error}" if error.kind == FailureKind.TRANSPORT_PEER_DROP else str(error)
                raise SessionFailed(error.kind, why, stage) from None
        await asyncio.sleep(pause_s * uniform(0.5, 1.5))


def _pauses_s(patience_s: float) -> Iterator[float]:
    """The pauses before each repeat, counted from when the first is asked for."""
    if not patience_s:
        yield from REPEAT_PAUSES_S
        return
    deadline, pause_s = monotonic() + patience_s, REPEAT_PAUSES_S[0]
    while monotonic() < deadline:
        yield pause_s
        pause_s = min(2 * pause_s, MAX_PAUSE_S)
