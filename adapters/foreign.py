"""How to drive servers that are not gymwire's: what they lack, and how they name what they have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal

from ..servers.failures import BadReward
from ..servers.results import finite_number, outcome_of
from ..servers.types import FailureKind, Outcome, Stage, Transcript
from .session import SessionFailed

#: Scores an episode in this process: a float, components by name, or an `Outcome`; may be async.
Grader = Callable[[Transcript], Any]
#: A URL, or a command to start and talk to over its standard input and output.
McpServer = str | Sequence[str]
Combine = Literal["last", "sum", "max"]
#: How the rewards of an episode's steps, of which there are some, become one.
COMBINED: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": lambda rewards: rewards[-1],
    "sum": fsum,
    "max": max,
}


@dataclass(frozen=True, slots=True)
class McpOptions:
    """An MCP server of somebody else's. Tool names are the exposed ones (`name__tool` for several servers)."""

    #: Called when a session is seeded; the policy never sees it. Its result is the handle.
    state_tool: str = ""
    #: The argument that carries the handle: hidden from every schema and description, filled in on every call.
    state_arg: str = ""
    #: Fields of the row's task data that `state_tool` gets as arguments.
    reset_fields: Sequence[str] = ()
    #: Called at verify; the policy never sees it. Gets `answer` or `messages` where its schema has them.
    reward_tool: str = ""
    #: Patterns (as of file names) of the tools that the policy gets; one that matches nothing is an error.
    allowed_tools: Sequence[str] = ("*",)
    #: Pictures and sounds: a placeholder in the text, or passed on.
    media: Literal["placeholder", "pass"] = "placeholder"
    #: Scores the episode where the server has no reward tool.
    grader: Grader | None = None


@dataclass(frozen=True, slots=True)
class OpenEnvOptions:
    """An OpenEnv server of somebody else's. A step environment becomes one tool that takes its Action."""

    #: The name of that tool.
    tool: str = "step"
    #: How the rewards of the steps become one.
    reward: Combine = "last"
    #: An exception inside the environment: our failure, or a result for the policy to read.
    on_execution_error: Literal["fail", "tell"] = "fail"
    #: Fields of the row's task data that reset gets.
    reset_fields: Sequence[str] = ()
    #: Scores the episode instead of the server's rewards.
    grader: Grader | None = None


async def grade(grader: Grader, transcript: Transcript) -> Outcome:
    """Run a client-side grader. Whatever goes wrong in it is a failed session, never a score."""
    try:
        value = grader(transcript)
        if inspect.isawaitable(value):
            value = await value
        outcome = outcome_of(value, transcript.ending)
    except SessionFailed:
        raise
    except Exception as error:  # the boundary of somebody's grader
        reason = f"{type(error).__name__}: {error}"
        raise SessionFailed(FailureKind.VERIFIER_ERROR, reason, Stage.VERIFY) from error
    if outcome.masked:
        raise SessionFailed(outcome.failure_kind, outcome.failure_reason, Stage.VERIFY)
    return outcome


def step_reward(value: object) -> float:
    """The reward that somebody's step answered. Raises `SessionFailed` for what is no finite number."""
    try:
        return finite_number(value, "a step")
    except BadReward as error:
        raise SessionFailed(FailureKind.VERIFIER_ERROR, str(error), Stage.CALL) from None


def fields_of(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The named fields that the task data has."""
    return {name: data[name] for name in names if name in data}
