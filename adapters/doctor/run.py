"""One examination: every promise in turn, each within the time that is left, and every session closed after it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

from . import checks_answers, checks_gym, checks_limits, checks_openenv, checks_sessions, checks_tasks
from .findings import Broken, Exchange, Finding, NotApplicable, Verdict, legible
from .patient import Patient
from .promises import PROMISES, Promise
from .wire import SeedRefused

logger = logging.getLogger("gymwire.doctor")
Check = Callable[[Patient], Awaitable[str]]
Watcher = Callable[[Promise], None]

CHECKS: dict[str, Check] = {
    "shapes": checks_answers.shapes,
    "cookie-kept": checks_gym.cookie_kept,
    "cookie-repeated": checks_gym.cookie_repeated,
    "own-cookie": checks_gym.own_cookie,
    "isolated": checks_tasks.isolated,
    "same-task": checks_tasks.same_task,
    "repeatable": checks_tasks.repeatable,
    "seed-idempotent": checks_sessions.seed_idempotent,
    "call-idempotent": checks_sessions.call_idempotent,
    "typed-sessions": checks_gym.typed_sessions,
    "reward": checks_answers.reward,
    "verify-echo": checks_gym.verify_echo,
    "verify-idempotent": checks_sessions.verify_idempotent,
    "verify-final": checks_sessions.verify_final,
    "ends-with-verify": checks_sessions.ends_with_verify,
    "unknown-handle": checks_sessions.unknown_handle,
    "close": checks_sessions.close,
    "capacity": checks_limits.capacity,
    "abandoned": checks_limits.abandoned,
    "control-hidden": checks_sessions.control_hidden,
    "no-leaks": checks_answers.no_leaks,
    "masked": checks_answers.masked,
    "bad-arguments": checks_answers.bad_arguments,
    "malformed": checks_answers.malformed,
    "tool-names": checks_answers.tool_names,
    "tool-descriptions": checks_answers.tool_descriptions,
    "tool-schemas": checks_answers.tool_schemas,
    "reset-named": checks_openenv.reset_named,
    "step-count": checks_openenv.step_count,
    "half-open": checks_openenv.half_open,
    "latency": checks_tasks.latency,
    "token": checks_answers.token,
    "no-tracebacks": checks_answers.no_tracebacks,
}


class CannotExamine(Exception):
    """No episode begins at all: nothing can be said of the server. One sentence."""


async def examine(at: Patient, watch: Watcher = lambda promise: None) -> list[Finding]:
    """Every chosen promise, in order. Raises `CannotExamine`."""
    await _first_look(at)
    names = chosen(at)
    findings = []
    try:
        if "half-open" in names:
            await checks_openenv.watch_half_open(at)
        for name in names:
            promise = PROMISES[name]
            watch(promise)
            findings.append(await _judge(at, promise))
    finally:  # also where somebody interrupts it
        await _stop_watching(at)
        await at.wire.close_all()
    return findings


async def _stop_watching(at: Patient) -> None:
    if at.watching is not None:
        at.watching.cancel()
        await asyncio.gather(at.watching, return_exceptions=True)


def chosen(at: Patient) -> list[str]:
    options = at.options
    return [
        name
        for name, promise in PROMISES.items()
        if name in CHECKS
        and name not in options.skip
        and (name in options.only or (not options.only and at.wire.name in promise.wires))
    ]


async def _first_look(at: Patient) -> None:
    try:
        async with asyncio.timeout(at.seconds_left):
            await at.look()
    except SeedRefused as refused:
        raise CannotExamine(f"no episode begins: {refused.said.exchange.answer}") from None
    except Broken as broken:
        answers = [exchange.answer for exchange in broken.evidence]
        raise CannotExamine(": ".join(["an episode cannot be begun twice", broken.reason, *answers])) from None
    except TimeoutError:
        raise CannotExamine(f"the first episode did not end within {at.options.seconds:g} s: --seconds") from None
    except Exception as error:  # the boundary of the first look
        logger.debug("the first look broke", exc_info=error)
        raise CannotExamine(f"the first episode cannot be read: {type(error).__name__}: {error}") from None
    finally:
        await at.wire.close_all()
    _known_calls(at)


def _known_calls(at: Patient) -> None:
    """A name that no tool has would leave nothing to call, and every promise about calls untested."""
    offered = [tool.name for tool in at.survey.tools]
    for name, _ in at.options.calls:
        if name not in offered:
            raise CannotExamine(
                f"--call: the first row offers no tool {name!r}; it has: {', '.join(offered) or 'none'}"
            )


async def _judge(at: Patient, promise: Promise) -> Finding:
    started = perf_counter()
    verdict, reason, evidence = await _verdict(at, promise)
    try:
        await at.wire.close_all()
    except Exception as error:  # the boundary of a probe: what it leaves behind must be known
        verdict, reason = Verdict.ERROR, f"closing its sessions broke: {type(error).__name__}: {error}"
    return Finding(promise, verdict, legible(at.wire.place.hide(reason)), evidence, perf_counter() - started)


async def _verdict(at: Patient, promise: Promise) -> tuple[Verdict, str, tuple[Exchange, ...]]:
    if at.wire.name not in promise.wires:
        return Verdict.NOT_APPLICABLE, f"it is a promise of {' and '.join(promise.wires)}", ()
    left_s = at.seconds_left
    if left_s <= 0:
        return Verdict.NOT_APPLICABLE, f"the {at.options.seconds:g} s were over: --seconds", ()
    timer = asyncio.timeout(left_s)
    try:
        async with timer:
            return Verdict.PASS, await CHECKS[promise.name](at), ()
    except NotApplicable as reason:
        return Verdict.NOT_APPLICABLE, str(reason), ()
    except Broken as broken:
        return Verdict.FAIL, broken.reason, broken.evidence
    except SeedRefused as refused:
        return Verdict.FAIL, "a seed was refused where none should be", (refused.said.exchange,)
    except Exception as error:  # the boundary of a probe: a broken one must never look like a kept promise
        if timer.expired():
            return Verdict.NOT_APPLICABLE, f"not done within the {at.options.seconds:g} s: --seconds", ()
        logger.debug("the probe of %s broke", promise.name, exc_info=error)
        return Verdict.ERROR, f"the probe broke: {type(error).__name__}: {error}", ()


def is_well(findings: Sequence[Finding]) -> bool:
    return not any(finding.is_bad for finding in findings)
