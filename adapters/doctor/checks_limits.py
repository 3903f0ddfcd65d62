"""Checks of a server's limits: how many sessions, for how long, and that a place comes back."""

from __future__ import annotations

import asyncio
from time import monotonic

from ...servers.wording import counted
from .checks_tasks import admitted
from .findings import Broken, NotApplicable
from .patient import Patient
from .wire import Episode, Kind, Said, SeedRefused

#: More sessions than this are never opened to fill a server.
MAX_FILL = 64


async def capacity(at: Patient) -> str:
    limits = at.wire.place.limits
    most, queue_s = limits.get("max_sessions"), float(limits.get("queue_timeout_s") or 0.0)
    if isinstance(most, int) and most > MAX_FILL:
        raise NotApplicable(
            f"the server takes {counted(most, 'session')}, and at most {MAX_FILL} are opened here: "
            "serve a copy with a lower limit (--max-sessions 8 --queue-timeout 1)"
        )
    if queue_s > min(at.seconds_left - 5, 15):
        raise NotApplicable(f"a seed waits {queue_s:g} s in the queue, and {at.seconds_left:.0f} s are left: --seconds")
    episodes = await admitted(at, most or MAX_FILL)
    refused = await _refused(at)
    if refused is None:
        raise NotApplicable(
            f"no seed was refused with {counted(len(episodes) + 1, 'session')} open, and no more are opened here"
        )
    if complaint := at.wire.form_of_full(refused):
        raise Broken(f"a full server answers {complaint}", refused.exchange)
    if not episodes:
        raise NotApplicable("the server was full before: others use it")
    await _recovers(at, episodes, refused)
    return f"full with {counted(len(episodes), 'session')}, said so, and took another once one had ended"


async def _refused(at: Patient) -> Said | None:
    try:
        await at.wire.seed(at.task)
    except SeedRefused as refused:
        return refused.said
    return None


async def _recovers(at: Patient, episodes: list[Episode], refused: Said) -> None:
    """A place comes back by a close, or by a verify where there is none."""
    leaving = episodes[0]
    if await leaving.close() is None and at.wire.verifies and not at.wire.closes:
        await leaving.verify(at.answer(0))
    last = refused
    until = monotonic() + at.options.recovery_s
    while monotonic() < until:
        try:
            await at.wire.seed(at.task)
            return
        except SeedRefused as again:
            last = again.said
            if last.kind is not Kind.FULL:
                break
        await asyncio.sleep(0.5)
    raise Broken("one session ended, and no other was taken", refused.exchange, last.exchange)


async def abandoned(at: Patient) -> str:
    """The sweep of ours comes every twentieth of the limit, at most every 5 s."""
    idle_s = at.wire.place.limits.get("idle_timeout_s")
    if idle_s is None:
        raise NotApplicable("the server does not say after how long an idle session ends")
    wait_s = float(idle_s) + min(max(float(idle_s) / 20, 0.05), 5.0) + 1.0
    if wait_s > at.options.seconds - 2:
        raise NotApplicable(f"the idle limit is {idle_s:g} s, and --seconds is {at.options.seconds:g}")
    episode = await at.seed()
    await asyncio.sleep(wait_s)
    names = [*at.survey.script, *at.survey.ending][:1]
    for name in names:
        said = await episode.call(name, at.arguments(name, 0))
        if said.kind is not Kind.REFUSED:
            raise Broken(f"a session that was left alone for {wait_s:.1f} s still answers", said.exchange)
    graded = await episode.verify(at.answer(0))
    if graded.scores:
        raise Broken("an expired session was scored", graded.said.exchange)
    return f"gone after {wait_s:.1f} s"
