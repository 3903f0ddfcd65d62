"""Waiting for a full server, and repeating what may be repeated; with jitter, so that clients do not march in step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import uniform
from time import monotonic
from typing import TypeVar

from ..servers.types import FailureKind, Stage
from .session import SessionFailed

T = TypeVar("T")
#: Seconds a seed waits for a slot when the server does not say when to come back.
DEFAULT_RETRY_AFTER_S = 2.0
#: Pauses before each repeat of a call whose delivery is unknown and that carries an idempotency key.
REPEAT_PAUSES_S = (0.05, 0.25, 1.0)


class Busy(Exception):
    """The server has no slot, or none any more; it may have one later."""

    def __init__(self, text: str, retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.retry_after_s = DEFAULT_RETRY_AFTER_S if retry_after_s is None else retry_after_s


class Undelivered(Exception):
    """The connection broke: whether the request was carried out is unknown."""

    kind = FailureKind.TRANSPORT_PEER_DROP


class Unreachable(Undelivered):
    """No connection came about: the request was not carried out."""

    def __init__(self, text: str, kind: FailureKind = FailureKind.TRANSPORT_UNREACHABLE) -> None:
        super().__init__(text)
        self.kind = kind


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


async def delivered(request: Callable[[], Awaitable[T]], stage: Stage, *, repeatable: bool) -> T:
    """Send a request; repeat it over a new connection only where a repeat cannot act twice.

    Raises `SessionFailed`: transport_peer_drop when delivery stays unknown, transport_unreachable when nobody
    answers.
    """
    pauses_s = iter(REPEAT_PAUSES_S)
    while True:
        try:
            return await request()
        except Undelivered as error:
            pause_s = next(pauses_s, None)
            if pause_s is None or not (repeatable or isinstance(error, Unreachable)):
                why = f"delivery unknown: {error}" if error.kind == FailureKind.TRANSPORT_PEER_DROP else str(error)
                raise SessionFailed(error.kind, why, stage) from None
        await asyncio.sleep(pause_s * uniform(0.5, 1.5))
