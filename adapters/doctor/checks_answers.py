"""Checks of what is answered: forms, rewards, secrets, errors, tools' definitions."""

from __future__ import annotations

import json
from typing import Any

from ...servers.labels import private_values
from ...servers.results import BadReward, finite_number
from ...servers.tool_schemas import description_complaints, name_complaints, schema_complaints, title_complaints
from ...servers.types import Row
from ...servers.wording import counted
from ..session import CONTROL_NAMES
from .examples import Wrong, wrong_arguments
from .findings import Broken, Exchange, NotApplicable
from .leaks import leaked, scalars
from .patient import Patient
from .wire import Episode, Graded, Kind, SeedRefused

LEAK_ROWS = 5
TRACEBACK = "Traceback (most recent call last)"
MAX_SHOWN = 5


async def shapes(at: Patient) -> str:
    for name, said in at.survey.first:
        if said.kind is Kind.BROKEN:
            raise Broken(f"{name}, called with values of its schema, broke the server", said.exchange)
        if said.kind is Kind.FULL:
            raise Broken(f"{name} answered as if the server were full", said.exchange)
    if at.survey.first and all(said.kind is Kind.REFUSED for _, said in at.survey.first):
        raise Broken("every call right after a seed was refused", *(said.exchange for _, said in at.survey.first[:2]))
    episode = await at.seed()
    forms = [(at.wire.form_of_seed(episode), episode.first)]
    forms += [(at.wire.form_of_call(said), said) for _, said in at.survey.first if said.kind is not Kind.REFUSED]
    for name in at.survey.script[:1]:
        await episode.call(name, at.arguments(name, 0))
    if at.wire.verifies:
        graded = await episode.verify(at.answer(0))
        forms.append((at.wire.form_of_verify(graded), graded.said))
    if complaints := dict.fromkeys(complaint for found, _ in forms for complaint in found):
        shown = [said.exchange for found, said in forms if found]
        raise Broken("; ".join([*complaints][:MAX_SHOWN]), *shown[:MAX_SHOWN])
    tools = f"{counted(len(at.survey.first), 'tool')} called" if at.survey.first else "no tools"
    out = "".join(f"; {name} is left out of the other probes: {why}" for name, why in at.survey.left_out.items())
    return f"seed, {tools}{', verify' if at.wire.verifies else ''}{out}"


async def reward(at: Patient) -> str:
    """Of verify, and of steps where the wire has them."""
    seen: list[Any] = []
    for task in at.tasks[:3]:
        episode = await at.seed(task)
        for name in at.survey.script:
            said = await episode.call(name, at.arguments(name, 0))
            if at.wire.name == "openenv" and said.kind in (Kind.OK, Kind.POLICY) and isinstance(said.body, dict):
                _step_reward(said.body, said.exchange)
                seen.append(said.reward)
            if said.done:
                break
        if at.wire.verifies:
            graded = await episode.verify(at.answer(0))
            seen.append(_reward_of(graded))
        await episode.close()
    if not seen:
        raise NotApplicable("this server tells no reward on this wire")
    return f"finite numbers: {', '.join(dict.fromkeys(f'{value:g}' for value in seen))}"


def _reward_of(graded: Graded) -> Any:
    if graded.said.kind is not Kind.OK or graded.masked:
        raise Broken("an episode that was played as it should be has no reward", graded.said.exchange)
    _number("the reward", graded.reward, graded.said.exchange)
    parts = graded.components
    if parts is not None:
        if not isinstance(parts, dict):
            raise Broken(f"the reward's components are {parts!r:.80}", graded.said.exchange)
        for name, value in parts.items():
            _number(f"the component {name!r}", value, graded.said.exchange)
    return graded.reward


def _step_reward(body: Any, exchange: Exchange) -> None:
    data = body.get("data")
    if body.get("type") == "observation" and isinstance(data, dict):
        _number("the reward of a step", data.get("reward"), exchange)


def _number(what: str, value: Any, exchange: Exchange) -> None:
    try:
        finite_number(value, what)
    except BadReward:
        raise Broken(f"{what} is {value!r:.80}, not a finite number", exchange) from None


async def no_leaks(at: Patient) -> str:
    rows = [task for task in at.tasks if task.row is not None and task.row.data][:LEAK_ROWS]
    if not rows:
        raise NotApplicable("no row with task data is known here: give some with --rows FILE")
    for task in rows:
        assert task.row is not None
        await _leaks_of(at, task.row, await at.seed(task))
    return f"the task data of {counted(len(rows), 'row')} is in no answer"


async def _leaks_of(at: Patient, row: Row, episode: Episode) -> None:
    privates = private_values(row)
    known = json.dumps(row.create_params(), ensure_ascii=False)
    _tell(leaked(episode.first.text, privates, known), "the seed's answer", episode.first.exchange)
    for name in dict.fromkeys((*at.survey.script, *at.survey.ending)):
        said = await episode.call(name, at.arguments(name, 0))
        _tell(leaked(said.text, privates, known, labels_only=True), f"{name}'s answer", said.exchange)
    if at.wire.verifies:
        graded = await episode.verify("I do not know.")
        _tell(leaked(at.wire.own_part(graded), privates, known), "verify's answer", graded.said.exchange)
    await episode.close()


def _tell(found: list[Any], where: str, exchange: Exchange) -> None:
    if found:
        names = ", ".join(dict.fromkeys(private.path for private in found))
        raise Broken(f"{where} tells task data: {names:.200}", exchange)


async def bad_arguments(at: Patient) -> str:
    tried = 0
    for name in dict.fromkeys((*at.survey.script, *at.survey.ending)):
        for wrong in wrong_arguments(at.tool(name), at.nonce):
            tried += 1
            await _one_wrong(at, name, wrong)
    await _one_wrong(at, "no_such_tool_here", Wrong("a tool that does not exist", {"a": 1}))
    return f"{counted(tried, 'call')} with wrong arguments and one of an unknown tool were errors to read"


async def _one_wrong(at: Patient, name: str, wrong: Wrong) -> None:
    """In an episode of its own, which must go on afterwards."""
    episode, why = await at.seed(), wrong.why
    said = await episode.call(name, wrong.arguments)
    if said.kind is Kind.OK and not wrong.must_fail:
        await episode.close()
        return
    if said.kind is Kind.OK:
        raise Broken(f"{name} {why} was answered as a result", said.exchange)
    if said.kind is not Kind.POLICY:
        raise Broken(f"{name} {why} is answered as the server's failure", said.exchange)
    if not said.text.strip():
        raise Broken(f"{name} {why} is an error without a text", said.exchange)
    await _goes_on(at, episode, said.exchange)
    await episode.close()


async def _goes_on(at: Patient, episode: Episode, cause: Exchange) -> None:
    for name in at.survey.script[:1]:
        after = await episode.call(name, at.arguments(name, 0))
        if after.kind not in (Kind.OK, Kind.POLICY):
            raise Broken("the episode did not go on afterwards", cause, after.exchange)


async def malformed(at: Patient) -> str:
    """Each in an episode of its own, which must go on."""
    for what in at.wire.malformed_kinds:
        episode = await at.seed()
        said = await at.wire.send_malformed(episode, what)
        if said.kind is Kind.BROKEN:
            raise Broken(f"{what} broke the server or the session", said.exchange)
        if said.kind is Kind.OK:
            raise Broken(f"{what} was answered as if it were a proper message", said.exchange)
        await _goes_on(at, episode, said.exchange)
        await episode.close()
    return f"{len(at.wire.malformed_kinds)} improper requests were refused, and harmed nothing"


async def no_tracebacks(at: Patient) -> str:
    """In errors: a result may show the traceback of a policy's own program."""
    errors = [said for said in at.wire.answers if said.kind is not Kind.OK]
    if not errors:
        raise NotApplicable("no error was answered that could be looked through")
    for said in errors:
        if TRACEBACK in said.text or any(TRACEBACK in str(value) for _, value in scalars(said.body)):
            raise Broken("an error shows the server's code", said.exchange)
    return f"{counted(len(errors), 'error')} looked through"


async def tool_names(at: Patient) -> str:
    return _judged(at, name_complaints(at.survey.tools, CONTROL_NAMES))


async def tool_descriptions(at: Patient) -> str:
    return _judged(at, description_complaints(at.survey.tools))


async def tool_schemas(at: Patient) -> str:
    return _judged(at, schema_complaints(at.survey.tools) + title_complaints(at.survey.tools))


def _judged(at: Patient, complaints: list[str]) -> str:
    if not at.survey.tools:
        raise NotApplicable("the first row offers no tool")
    if complaints:
        more = f"; and {len(complaints) - MAX_SHOWN} more" if len(complaints) > MAX_SHOWN else ""
        listed = json.dumps([tool.as_chat() for tool in at.survey.tools], ensure_ascii=False)
        raise Broken("; ".join(complaints[:MAX_SHOWN]) + more, at.wire.exchange("the tools as listed", listed))
    return counted(len(at.survey.tools), "tool")


async def masked(at: Patient) -> str:
    trainer = at.options.trainer
    if not at.wire.verifies:
        raise NotApplicable("this server has no verify on this wire, so no failure can be brought about")
    if at.wire.name != "nemo-gym" and trainer != "gymwire":
        raise NotApplicable(f"{trainer} does not speak this wire; its form is tested on nemo-gym")
    cases: list[tuple[str, Episode]] = []
    if at.wire.closes:
        closed = await at.seed()
        await closed.close()
        cases.append(("verify of a closed session", closed))
    cases += [(f"verify {why}", episode) for why, episode in await at.wire.lost(at.task)]
    for what, episode in cases:
        graded = await episode.verify(at.answer(0))
        if why := unmasked(graded, trainer):
            raise Broken(f"{what} is answered {why}", graded.said.exchange)
    return f"{len(cases)} failures were said in the form that {trainer} masks"


def unmasked(graded: Graded, trainer: str) -> str:
    """What is wrong with how a failure is said, for that trainer; empty where it is masked."""
    said = graded.said
    if trainer in ("verifiers", "prime-rl"):
        return "" if said.status >= 400 else f"HTTP {said.status}; {trainer} reads no mask and trains on the reward"
    if trainer == "nemo-rl":
        nested = said.body.get("instance_config") if isinstance(said.body, dict) else None
        flagged = isinstance(nested, dict) and nested.get("mask_sample") is True
        if flagged or said.status >= 500:
            return ""
        return "without instance_config.mask_sample, the only mark that nemo-rl reads"
    if said.kind is not Kind.OK or graded.masked:
        return ""
    return f"as a plain reward of {graded.reward!r}"


async def token(at: Patient) -> str:
    if not at.wire.place.has_token:
        raise NotApplicable("this examination uses no token")
    stranger = at.wire.without_token()
    try:
        await stranger.seed(at.task)
    except SeedRefused as refused:
        if refused.said.kind in (Kind.REFUSED, Kind.BROKEN):
            return "a seed without the token was refused"
        raise Broken("a seed without the token is answered, if not carried out", refused.said.exchange) from None
    finally:
        await stranger.close_all()
        await stranger.place.pool.close()
    raise Broken("a seed without the token was carried out", stranger.answers[-1].exchange)
