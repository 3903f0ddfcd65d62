"""Checks of what a session is: begun, repeated, verified, closed, unknown."""

from __future__ import annotations

import secrets

from ...servers.wording import counted
from ..session import CONTROL_NAMES
from .findings import Broken, NotApplicable
from .patient import Patient
from .wire import Episode, Kind

_ENDED = frozenset((Kind.REFUSED, Kind.POLICY))


async def seed_idempotent(at: Patient) -> str:
    if not at.wire.takes_ids:
        raise NotApplicable("a seed cannot be named by its caller on this wire of this server")
    name = secrets.token_hex(8)
    first = await at.seed(name=name)
    second = await at.seed(name=name)
    await at.went_as_alone(await at.play(first, second), 0, "the repeated seed began another session")
    one, other = await first.verify(at.answer(0)), await second.verify(at.answer(0))
    if one.verdict != other.verdict or not one.scores:
        raise Broken("the two seeds were verified apart", one.said.exchange, other.said.exchange)
    return "two seeds under one id were one session"


async def call_idempotent(at: Patient) -> str:
    if not at.wire.takes_ids:
        raise NotApplicable("calls carry no idempotency key on this wire of this server")
    if not at.survey.script:
        raise NotApplicable("there is no tool to call")
    trace = await at.play(await at.seed(), key=secrets.token_hex(4))
    await at.went_as_alone(trace, 0, "repeated calls were carried out twice")
    return f"{counted(len(trace.answers), 'call')}, each sent twice, acted once"


async def verify_idempotent(at: Patient) -> str:
    episode, graded = await at.verified()
    repeated = await episode.verify(at.answer(0))
    if repeated.verdict != graded.verdict:
        raise Broken("the same verify was answered differently", graded.said.exchange, repeated.said.exchange)
    return f"twice the same verdict: {graded.reward!r}"


async def verify_final(at: Patient) -> str:
    episode, graded = await at.verified()
    for other in ("", at.answer(1)):
        repeated = await episode.verify(other)
        if repeated.said.kind is Kind.OK and not repeated.masked and repeated.verdict != graded.verdict:
            raise Broken("another answer changed the verdict", graded.said.exchange, repeated.said.exchange)
    return "no other answer changed it"


async def ends_with_verify(at: Patient) -> str:
    if not at.survey.script:
        raise NotApplicable("there is no tool to call")
    episode, graded = await at.verified()
    for name in dict.fromkeys(at.survey.script):
        said = await episode.call(name, at.arguments(name, 1))
        if said.kind is Kind.OK and not said.done:
            raise Broken(f"{name} was carried out after verify", graded.said.exchange, said.exchange)
        if said.kind in (Kind.BROKEN, Kind.FULL):
            raise Broken(f"{name} after verify was no error to read, but: {said.kind}", said.exchange)
    repeated = await episode.verify(at.answer(0))
    if repeated.verdict != graded.verdict:
        raise Broken("calls after verify changed the verdict", graded.said.exchange, repeated.said.exchange)
    return "calls after verify were refused, and the verdict stayed"


async def unknown_handle(at: Patient) -> str:
    names = list(dict.fromkeys((*at.survey.script, *at.survey.ending)))[:1]
    tried = 0
    for why, episode in await at.wire.lost(at.task):
        for name in names:
            said = await episode.call(name, at.arguments(name, 0))
            tried += said.kind is not Kind.FULL
            if said.kind is Kind.OK:
                raise Broken(f"a call {why} was carried out", said.exchange)
            if said.kind is Kind.BROKEN:
                raise Broken(f"a call {why} broke the server", said.exchange)
        if at.wire.verifies:
            graded = await episode.verify(at.answer(0))
            tried += graded.said.kind is not Kind.FULL
            if graded.scores:
                raise Broken(f"verify {why} was scored {graded.reward!r}", graded.said.exchange)
    await at.wire.close_all()
    name = next(iter(names), "")
    for why, said in await at.wire.unknown_places(name, at.arguments(name, 0) if name else {}):
        tried += said.kind is not Kind.FULL
        if said.kind is Kind.OK:
            raise Broken(f"a request {why} was carried out", said.exchange)
    if not tried:
        raise NotApplicable("this server has no sessions that could be asked for, or nothing to ask of them")
    return f"{tried} requests without a session were refused"


async def close(at: Patient) -> str:
    if not at.wire.closes:
        raise NotApplicable("a session cannot be given back on this wire of this server")
    episode = await at.seed()
    for name in at.survey.script[:1]:
        await episode.call(name, at.arguments(name, 0))
    said = await episode.close()
    if said is not None and said.status == 405:
        raise NotApplicable("the server does not let its clients end a session")
    if said is not None and said.kind is not Kind.OK:
        raise Broken("closing was refused", said.exchange)
    for name in at.survey.script[:1]:
        after = await episode.call(name, at.arguments(name, 0))
        if after.kind is Kind.OK:
            raise Broken("a call after close was carried out", after.exchange)
    await _closed_verify(at, episode)
    again = await episode.close()
    if again is not None and again.kind is not Kind.OK and at.ours:
        raise Broken("closing again was refused", again.exchange)
    return "gone after close; closing again succeeds"


async def _closed_verify(at: Patient, episode: Episode) -> None:
    if at.wire.verifies:
        graded = await episode.verify(at.answer(0))
        if graded.scores:
            raise Broken("a closed session was scored", graded.said.exchange)


async def control_hidden(at: Patient) -> str:
    episode = await at.seed()
    if listed := [tool.name for tool in episode.tools if tool.name in CONTROL_NAMES]:
        raise Broken(f"the policy's tools hold {', '.join(listed)}", episode.first.exchange)
    calls = await at.wire.control_calls(episode)
    if not calls:
        raise NotApplicable("on this wire of this server nothing tells a policy's call from its harness's")
    for name, said in calls:
        if said.kind is Kind.OK:
            raise Broken(f"the control call {name!r} is open to whatever a policy emits", said.exchange)
        if said.kind is Kind.BROKEN:
            raise Broken(f"{name!r}, as a policy might emit it, broke the server", said.exchange)
    trace = await at.play(episode)
    await at.went_as_alone(trace, 0, "refused control calls changed the episode")
    return f"{len(calls)} control calls were refused, and changed nothing"
