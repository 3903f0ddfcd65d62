"""Checks of what only the OpenEnv wire has: resets, states, sockets that half their ends have left."""

from __future__ import annotations

import asyncio
from typing import Any

from ...servers.wording import counted
from .checks_tasks import admitted
from .findings import Broken, NotApplicable
from .openenv import OpenEnvWire, RawSocket, SocketEpisode
from .patient import Patient
from .wire import Kind, Said


async def reset_named(at: Patient) -> str:
    episode = await _seeded(at)
    before = await _state(episode)
    for name in at.survey.script[:2]:
        await episode.call(name, at.arguments(name, 0))
    wanted = _wire(at).reset_of(at.task)
    again = await episode.say("reset", wanted)
    if again.kind is not Kind.OK:
        return "a reset of a live episode is refused"
    after = await _state(episode)
    if not after[0] or after[0] == before[0]:
        raise Broken(f"a second reset kept the episode's id {after[0]!r}", again.exchange, after[2].exchange)
    if after[1] != 0:
        raise Broken(f"a second reset left step_count at {after[1]!r}", again.exchange, after[2].exchange)
    named = await episode.say("reset", {**wanted, "episode_id": "check-episode"})
    if named.kind is Kind.OK and (state := await _state(episode))[0] != "check-episode":
        raise Broken(f"the episode_id of a reset became {state[0]!r}", named.exchange, state[2].exchange)
    return "each reset a new episode under its own id"


async def step_count(at: Patient) -> str:
    episode = await _seeded(at)
    script = at.survey.script[:3]
    for taken in range(len(script) + 1):
        _, count, said = await _state(episode)
        if isinstance(count, bool) or count != taken:
            raise Broken(f"after {counted(taken, 'step')} step_count is {count!r}", said.exchange)
        if taken < len(script):
            await episode.call(script[taken], at.arguments(script[taken], 0))
    return f"exact from 0 to {len(script)}"


async def _state(episode: SocketEpisode) -> tuple[Any, Any, Said]:
    said = await episode.say("state")
    body = said.body if isinstance(said.body, dict) else {}
    data = body.get("data")
    if body.get("type") != "state" or not isinstance(data, dict):
        raise Broken("state is not answered by a state message", said.exchange)
    return data.get("episode_id"), data.get("step_count"), said


async def half_open(at: Patient) -> str:
    """Begun before everything else, since it takes longest: see `watch_half_open`."""
    if at.watching is not None:
        return await at.watching
    if at.options.half_open_s > at.seconds_left - 2:
        raise NotApplicable(f"it takes {at.options.half_open_s:g} s, and {at.seconds_left:.0f} s are left: --seconds")
    return await _watch(at)


async def watch_half_open(at: Patient) -> None:
    """Begin to wait, where there is time for it, and a place beside the sessions of the other probes."""
    spare_s = at.seconds_left - 2 - at.options.half_open_s
    if at.wire.name != "openenv" or spare_s < 0:
        return
    try:
        async with asyncio.timeout(spare_s):
            places = len(await admitted(at, 3))
    except (Broken, TimeoutError):
        places = 0  # the other probes say so
    await at.wire.close_all()
    if places == 3:
        at.watching = asyncio.create_task(_watch(at))


async def _watch(at: Patient) -> str:
    wire = _wire(at)
    socket = RawSocket(await wire.connected("/ws", pongs=False))
    episode = SocketEpisode(wire, socket)
    try:
        said = await episode.say("reset", wire.reset_of(at.task))
        if said.kind is Kind.FULL:
            raise NotApplicable("the server has no place for another session beside the one that is examined")
        started = asyncio.get_running_loop().time()
        if not await socket.is_closed_by_server(at.options.half_open_s):
            raise Broken(f"after {at.options.half_open_s:g} s without an answer to a ping it is open", said.exchange)
        return f"closed after {asyncio.get_running_loop().time() - started:.0f} s"
    finally:
        await episode.close()


async def _seeded(at: Patient) -> SocketEpisode:
    episode = await at.seed()
    assert isinstance(episode, SocketEpisode)
    return episode


def _wire(at: Patient) -> OpenEnvWire:
    assert isinstance(at.wire, OpenEnvWire)
    return at.wire
