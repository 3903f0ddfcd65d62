"""Checks of what only the NeMo Gym wire has: cookies, the echo of a verify, typed sessions."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from ...servers.types import PARAMS_KEY, Ending
from ...servers.wording import counted
from ..nemo_gym import CookieJar
from ..responses import response_of
from .checks_tasks import sessions_of
from .findings import Broken, NotApplicable
from .gym import GymEpisode, GymWire
from .patient import Patient, Trace
from .wire import Kind, SeedRefused


async def cookie_kept(at: Patient) -> str:
    """Merged, as a browser does; and what was set at the seed alone, as a jar does that takes no more."""
    episode = await _seeded(at)
    if not episode.jar.header:
        raise Broken("the seed set no cookie", episode.first.exchange)
    trace = await at.play(episode)
    kept = await _seeded(at)
    before = kept.jar.header
    frozen = GymEpisode(kept.wire, _Frozen(before), kept.row, kept.name)
    still = await at.play(frozen)
    _lasting(trace)
    for one, why in ((trace, "merged"), (still, "of the seed")):
        await at.went_as_alone(one, 0, f"the session was lost with the cookies {why}")
    return f"one session from seed to verify, {counted(len(trace.answers), 'call')}"


def _lasting(trace: Trace) -> None:
    """A script that only fails cannot tell one session from none."""
    lost = [
        exchange for answer, exchange in zip(trace.answers, trace.evidence, strict=False) if answer[1] is Kind.REFUSED
    ]
    if lost:
        raise Broken("a call right after the seed was refused", *lost[:2])
    verdict = trace.verdict
    if verdict is not None and (verdict[0] is not Kind.OK or verdict[1]):
        raise Broken("verify did not find the session", *trace.evidence[-2:])


class _Frozen(CookieJar):
    """What the seed set, for ever."""

    def __init__(self, header: str) -> None:
        super().__init__()
        self.header = header

    def merge(self, reply: Any) -> None:
        return None


async def cookie_repeated(at: Patient) -> str:
    episode = await _seeded(at)
    names = list(dict.fromkeys(at.survey.script))
    for name in names[:3]:
        said = await episode.call(name, at.arguments(name, 0))
        if not episode.first.cookies <= said.cookies:
            raise Broken(f"{name}'s answer does not set the seed's cookie again", said.exchange)
    graded = await episode.verify(at.answer(0))
    if not episode.first.cookies <= graded.said.cookies:
        raise Broken("verify's answer does not set the seed's cookie again", graded.said.exchange)
    return f"{len(names[:3]) + 1} answers, each with {', '.join(sorted(episode.first.cookies))}"


async def own_cookie(at: Patient) -> str:
    if sessions_of(at) < 2:
        raise NotApplicable("the server takes one session at a time")
    one, other = await _seeded(at), await _seeded(at)
    if one.jar.header == other.jar.header:
        raise Broken("two seeds got one cookie", one.first.exchange, other.first.exchange)
    for name in at.survey.script:
        await one.call(name, at.arguments(name, 1))
    wire = one.wire
    try:
        again = await wire.seed_on(one.jar, at.task)
    except SeedRefused as refused:
        if refused.said.kind in (Kind.REFUSED, Kind.POLICY):
            return "a seed on a live cookie is refused"
        raise Broken("a seed on a live cookie broke the server", refused.said.exchange) from None
    await at.went_as_alone(await at.play(again), 0, "a seed on a live cookie did not begin anew")
    return "each seed its own; on a live cookie it begins anew"


async def verify_echo(at: Patient) -> str:
    episode = await _seeded(at)
    response = response_of([{"role": "assistant", "content": at.answer(0)}], Ending.FINISHED)
    item = response["output"][0]
    item |= {"prompt_token_ids": [1, 2], "generation_token_ids": [3, 4], "generation_log_probs": [-0.5, -0.25]}
    graded = await episode.wire.verify(episode, response)
    said = graded.said
    if said.kind is not Kind.OK or not isinstance(said.body, dict):
        raise Broken("verify is answered by an error", said.exchange)
    sent = {PARAMS_KEY: episode.verify_body()[PARAMS_KEY], "response": response}
    for key, value in sent.items():
        if key not in said.body:
            raise Broken(f"the answer lacks `{key}`", said.exchange)
        if (place := lacking(said.body[key], value, key)) is not None:
            raise Broken(f"the answer changed `{place}`", said.exchange)
    return "both came back, token ids and log-probabilities too"


def lacking(answer: Any, sent: Any, place: str) -> str | None:
    """Where the answer lacks what was sent; fields that it adds are its own affair."""
    if isinstance(sent, Mapping):
        if not isinstance(answer, Mapping):
            return place
        found = (lacking(answer.get(key), value, f"{place}.{key}") for key, value in sent.items() if value is not None)
        return next((item for item in found if item is not None), None)
    if isinstance(sent, list):
        if not isinstance(answer, list) or len(answer) != len(sent):
            return place
        pairs = enumerate(zip(answer, sent, strict=True))
        found = (lacking(mine, theirs, f"{place}[{index}]") for index, (mine, theirs) in pairs)
        return next((item for item in found if item is not None), None)
    return None if answer == sent else place


async def typed_sessions(at: Patient) -> str:
    wire = _wire(at)
    row = at.task.row
    name = f"check-{secrets.token_hex(6)}"
    episode_id = {"rollout_id": name, "attempt": 0}
    task_data = row.to_json() if row is not None else {}
    place = {"taskset": at.task.split or "check", "task_id": str(at.task.index or 0)}
    body = {"resources_session_id": name, "episode_id": episode_id, "task_id": place, "task_data": task_data}
    closing = orjson.dumps({"resources_session_id": name, "episode_id": episode_id})
    jar = CookieJar()
    wire.began(GymEpisode(wire, jar, row, name if wire.closes else ""))
    said = await wire.ask("seed_session", orjson.dumps(body), jar, {})
    if said.status in (400, 404, 409, 422):
        raise NotApplicable(f"the server does not take the typed form of a seed (HTTP {said.status})")
    answer = said.body if isinstance(said.body, dict) else {}
    if said.kind is Kind.OK and "resources_session_id" not in answer:
        raise NotApplicable("the server answers a typed seed as it does any other")
    if said.kind is not Kind.OK or answer["resources_session_id"] != name:
        raise Broken("the typed seed's answer does not name its session", said.exchange)
    again = await wire.ask("seed_session", orjson.dumps(body), jar, {})
    if again.kind is not Kind.OK:
        raise Broken("the same typed seed again was refused", again.exchange)
    for what in ("close", "the second close"):
        closed = await wire.ask("close_session", closing, jar, {})
        if closed.kind is not Kind.OK:
            raise Broken(f"{what} was refused", closed.exchange)
    late = await wire.ask("seed_session", orjson.dumps(body), CookieJar(), {})
    if late.kind is Kind.OK:
        raise Broken("a seed after the close brought the session back", late.exchange)
    return "idempotent; closed stays closed"


async def _seeded(at: Patient) -> GymEpisode:
    episode = await at.seed()
    assert isinstance(episode, GymEpisode)
    return episode


def _wire(at: Patient) -> GymWire:
    assert isinstance(at.wire, GymWire)
    return at.wire
