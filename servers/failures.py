"""Every failure kind, and the one place that assigns and records one.

Two kinds of error exist. What the policy did is a result or a score and never passes here. What our side
did passes here exactly once: `assign` names it, `FailureLog.record` counts and logs it.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from .context import About
from .privacy import veiled
from .sandbox.jobs import SandboxUnavailable
from .types import Failure, FailureKind, Stage

logger = logging.getLogger("gymwire.failures")
MAX_REASON_CHARACTERS = 300
MAX_KIND_CHARACTERS = 80
NOTHING: Mapping[str, Any] = MappingProxyType({})
PUBLIC_KINDS = frozenset(FailureKind)


class SessionFailure(Exception):
    """Raise it in an environment to fail the session with a kind of your choice.

    `kind` is a `FailureKind` or the part after `<environment>:`.
    """

    def __init__(self, reason: str, kind: str = "exception") -> None:
        super().__init__(reason)
        self.reason = reason
        self.kind = kind


class ToolTimeout(Exception):
    """A tool, reset or verify went past its time limit."""


class BadReward(Exception):
    """verify answered something that is no reward: NaN, None, a bool, a string."""


def assign(
    error: BaseException, environment: str, stage: Stage, tool: str = "", hidden: Mapping[str, Any] = NOTHING
) -> Failure:
    """Name what broke. The boundary of each stage calls it with whatever escaped; the reason quotes nothing hidden."""
    return Failure(_kind(error, environment, stage), _reason(error, hidden), stage, tool)


def _kind(error: BaseException, environment: str, stage: Stage) -> str:
    if isinstance(error, SessionFailure):
        kind = one_line(str(error.kind), MAX_KIND_CHARACTERS)
        return kind if kind in PUBLIC_KINDS or ":" in kind else f"{environment}:{kind}"
    if isinstance(error, SandboxUnavailable):
        return FailureKind.PROVIDER_UNAVAILABLE
    if stage is Stage.VERIFY:
        return FailureKind.VERIFIER_ERROR
    if isinstance(error, ToolTimeout):
        return f"{environment}:tool_timeout"
    return f"{environment}:exception"


def _reason(error: BaseException, hidden: Mapping[str, Any]) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "cancelled"
    text = veiled(message_of(error), hidden)
    return one_line(text if isinstance(error, _SAID_IN_FULL) else _named(error, text))


def _named(error: BaseException, text: str) -> str:
    return f"{type(error).__name__}: {text[:MAX_REASON_CHARACTERS]}"


def message_of(error: BaseException) -> str:
    """An exception's own text, also where its `__str__` raises: that must not hide what broke."""
    try:
        return str(error)
    except Exception:
        return "(an exception whose text cannot be had)"


def told(error: BaseException) -> str:
    """What an author's code raised, and where, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return one_line(_named(error, message_of(error))) + ("" if isinstance(error, SyntaxError) else where)


def one_line(text: str, limit: int = MAX_REASON_CHARACTERS) -> str:
    """Printable, short, and encodable: a reason travels in headers, logs and JSON."""
    return "".join(character if character.isprintable() else " " for character in text[:limit])


#: What the reason says in full: a traceback would show our own code alone.
_SAID_IN_FULL = (SessionFailure, ToolTimeout, BadReward, SandboxUnavailable)


def _trace(error: BaseException | None, hidden: Mapping[str, Any]) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:  # an exception that cannot be shown
        text = "(its trace cannot be shown)"
    return veiled(text.rstrip(), hidden)


class FailureLog:
    """Records each failed session once. Observers (metrics, a ledger) see what is recorded."""

    def __init__(self) -> None:
        self.observers: list[Callable[[str, Failure], None]] = []

    def record(
        self,
        about: About,
        failure: Failure,
        error: BaseException | None,
        hidden: Mapping[str, Any] = NOTHING,
    ) -> None:
        """Count and log a failure, with the trace where it tells more than the reason; `hidden` is not quoted."""
        traced = error is not None and not isinstance(error, _SAID_IN_FULL)
        logger.error(
            "session %s of %s failed: %s at %s%s: %s%s",
            about.session_id,
            about.environment,
            failure.kind,
            failure.stage,
            f" in {failure.tool}" if failure.tool else "",
            failure.reason,
            f"\n{_trace(error, hidden)}" if traced else "",
            extra={"gymwire": (about, failure)},
        )
        for observe in self.observers:
            observe(about.environment, failure)
