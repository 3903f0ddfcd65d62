"""Raw requests on the NeMo Gym wire."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self
from urllib.parse import quote

import orjson
from aiohttp import hdrs

from ...servers import wirejson
from ...servers.answers import Code
from ...servers.types import PARAMS_KEY, Ending, Json, Row, RowError
from ..nemo_gym import CookieJar
from ..pool import Pool, Reply
from ..responses import response_of
from .findings import Exchange
from .reading import decoded, mapping, shown
from .wire import Episode, Graded, Kind, Place, RawTask, RawWire, Said

#: How a failed session is asked for, by the trainer that reads it.
MASKED_AS = {"verifiers": "error", "prime-rl": "error", "nemo-rl": "flag", "gymwire": "flag"}
#: Names that a policy may emit, and that are routes.
CONTROL_ROUTES = ("seed_session", "verify", "close_session", "end_turn", "aggregate_metrics", "reset")

MALFORMED = {"broken JSON": b'{"a": ', "a list": b"[1]", "no UTF-8": b'{"a": "\xff\xfe"}'}


class GymEpisode(Episode):
    """A cookie and a row."""

    def __init__(self, wire: GymWire, jar: CookieJar, row: Row | None, name: str) -> None:
        self.wire, self.jar, self.row, self.name = wire, jar, row, name

    async def call(self, name: str, arguments: Json, key: str = "") -> Said:
        headers = {"Idempotency-Key": key} if key else {}
        return await self.wire.ask(_route(name), wirejson.dumps(arguments), self.jar, headers)

    async def verify(self, answer: str) -> Graded:
        return await self.wire.verify(self, response_of([{"role": "assistant", "content": answer}], Ending.FINISHED))

    async def close(self) -> Said | None:
        if not self.name:
            return None
        body = {"resources_session_id": self.name, "episode_id": {"rollout_id": self.name, "attempt": 0}}
        return await self.wire.ask("close_session", orjson.dumps(body), self.jar, {})

    def verify_body(self) -> Json:
        return self.row.to_json() if self.row is not None else {PARAMS_KEY: {"input": []}}


class GymWire(RawWire):
    name = "nemo-gym"
    malformed_kinds = tuple(f"{body} to {where}" for where in ("a tool", "verify") for body in MALFORMED)

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.takes_ids = self.closes = place.ours

    async def seed(self, task: RawTask, name: str = "") -> GymEpisode:
        return await self.seed_on(CookieJar(), task, name)

    async def seed_on(self, jar: CookieJar, task: RawTask, name: str = "") -> GymEpisode:
        """Seed with the cookies of a jar."""
        ours = self.place.ours
        name = name or (secrets.token_hex(8) if ours else "")
        headers = {"Idempotency-Key": name} if ours else {}
        body = task.asked() if ours or task.row is None else task.row.to_json()
        episode = self.began(GymEpisode(self, jar, task.row, name))
        said = episode.first = await self.ask("seed_session", wirejson.dumps(body), jar, headers)
        if said.kind is not Kind.OK or not isinstance(said.body, dict):
            self.refused(episode, said)
        self._read(episode, task, said.body)
        return episode

    def _read(self, episode: GymEpisode, task: RawTask, answer: Json) -> None:
        row = task.row
        if isinstance(params := answer.get(PARAMS_KEY), Mapping):
            try:
                row = Row.from_json({PARAMS_KEY: params})
            except RowError:
                row = task.row
        tools = row.tools if row is not None else None
        episode.prompt = row.prompt if row is not None else ()
        episode.tools = self.place.info.tools if tools is None else tools

    async def ask(self, route: str, body: bytes, jar: CookieJar | None, headers: Mapping[str, str]) -> Said:
        """Post to a route; the jar takes what the answer sets."""
        sent = {"Content-Type": "application/json", **headers}
        if jar is not None and jar.header:
            sent[hdrs.COOKIE] = jar.header
        url = self.place.url.joinpath(route, encoded=True)
        reply, why, seconds = await self.post(url, body, sent)
        exchange = self.exchange(shown("POST", url, body), why if reply is None else _told(reply))
        if reply is None:
            return self.noted(Said(Kind.BROKEN, why, None, exchange, seconds))
        if jar is not None:
            jar.merge(reply)
        return self.noted(_said(reply, exchange, seconds))

    async def verify(self, episode: GymEpisode, response: Json, jar: CookieJar | None = None) -> Graded:
        body = wirejson.dumps(episode.verify_body() | {"response": response})
        headers = {"X-Gymwire-Control": "true", "X-Gymwire-Masked": MASKED_AS[self.place.trainer]}
        said = await self.ask("verify", body, jar or episode.jar, headers if self.place.ours else {})
        answer = mapping(said.body)
        masked = bool(answer.get("mask_sample") or mapping(answer.get("instance_config")).get("mask_sample"))
        return Graded(said, answer.get("reward"), masked, answer.get("reward_components"))

    async def lost(self, task: RawTask) -> list[tuple[str, Episode]]:
        real = await self.seed(task)
        jars = {"without a cookie": CookieJar()}
        if real.jar.header:
            damaged, forged = CookieJar(), CookieJar()
            pairs = real.jar.header.split("; ")
            damaged.header = "; ".join(map(_damaged, pairs))
            forged.header = "; ".join(f"{pair.partition('=')[0]}={secrets.token_urlsafe(24)}" for pair in pairs)
            jars |= {"with a damaged cookie": damaged, "with a forged cookie": forged}
        return [(why, GymEpisode(self, jar, task.row, "")) for why, jar in jars.items()]

    async def control_calls(self, episode: Episode) -> list[tuple[str, Said]]:
        assert isinstance(episode, GymEpisode)
        taken = {tool.name for tool in episode.tools}
        return [(name, await self.ask(name, b"{}", episode.jar, {})) for name in CONTROL_ROUTES if name not in taken]

    async def send_malformed(self, episode: Episode, what: str) -> Said:
        assert isinstance(episode, GymEpisode)
        body, _, where = what.partition(" to ")
        name = episode.tools[0].name if episode.tools and where != "verify" else "verify"
        return await self.ask(_route(name), MALFORMED[body], episode.jar, {})

    def without_token(self) -> Self:
        return type(self)(replace(self.place, pool=Pool(ours=False)))

    def form_of_seed(self, episode: Episode) -> list[str]:
        found = [] if episode.first.cookies else ["the seed sets no cookie"]
        if not episode.prompt:
            found.append("neither the row nor the seed's answer has a prompt")
        return found

    def form_of_call(self, said: Said) -> list[str]:
        return [] if said.kind in (Kind.OK, Kind.POLICY) else [f"a tool's route answers HTTP {said.status}"]

    def form_of_verify(self, graded: Graded) -> list[str]:
        if graded.said.kind is not Kind.OK:
            return [f"verify answers HTTP {graded.said.status}"]
        body = graded.said.body
        if not isinstance(body, dict):
            return ["verify answers no JSON object"]
        return [] if "reward" in body else ["verify answers no reward"]

    def form_of_full(self, said: Said) -> str:
        if said.status not in (429, 503):
            return f"HTTP {said.status}, not 503"
        return "" if _is_time(said.retry_after) else "503 without Retry-After"

    def own_part(self, graded: Graded) -> Any:
        body = graded.said.body
        if not isinstance(body, dict):
            return graded.said.text
        return {key: value for key, value in body.items() if key not in (PARAMS_KEY, "response")}


def _route(name: str) -> str:
    """A tool's route; what UTF-8 cannot carry is replaced."""
    return quote(name, safe="", errors="replace")


def _is_time(text: str) -> bool:
    """Seconds, or a date, as HTTP has it."""
    return text.strip().isdecimal() or (len(text) > 20 and text.endswith("GMT"))


def _damaged(pair: str) -> str:
    """A cookie with one character in its middle changed."""
    middle = (pair.index("=") + len(pair)) // 2
    return f"{pair[:middle]}{'A' if pair[middle] != 'A' else 'B'}{pair[middle + 1 :]}"


_REFUSALS = frozenset((401, 403, 409, 410))
_FULL = frozenset((Code.AT_CAPACITY.value, Code.DRAINING.value, Code.RATE_LIMITED.value))


def _kind(reply: Reply) -> Kind:
    code = reply.headers.get("X-Gymwire-Code", "")
    if reply.status < 300:
        return Kind.OK
    if reply.status in _REFUSALS:
        return Kind.REFUSED
    if code in _FULL or (not code and reply.status in (429, 503)):
        return Kind.FULL
    return Kind.POLICY if 400 <= reply.status < 500 else Kind.BROKEN


def _told(reply: Reply) -> str:
    told = [f"{name}: {reply.headers[name]}" for name in ("X-Gymwire-Code", "Retry-After") if name in reply.headers]
    return f"HTTP {reply.status} {'; '.join([*told, ''])}{reply.text}"


def _said(reply: Reply, exchange: Exchange, seconds: float) -> Said:
    cookies = frozenset(line.partition("=")[0].strip() for line in reply.headers.getall(hdrs.SET_COOKIE, ()))
    body: Any = decoded(reply.body)
    return Said(
        _kind(reply),
        reply.text,
        body,
        exchange,
        seconds,
        "X-Gymwire-Done" in reply.headers,
        reply.status,
        None,
        reply.headers.get(hdrs.RETRY_AFTER, ""),
        cookies,
    )
