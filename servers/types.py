"""The nouns of gymwire. Everything imports this module; it imports nothing of ours.

A `Row` is one task, a `Session` (see `sessions`) is one episode of it, an `Outcome` is what the
episode ended as. Wire forms of these nouns live in `faces` (server side) and in `gymwire.adapters`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import fsum, isclose, isfinite
from typing import Any

Json = dict[str, Any]
Message = dict[str, Any]

#: Keys of a NeMo Gym row that belong to the framework, neither prompt nor task data (NeMo Gym 0.7.0).
FRAMEWORK_KEYS = frozenset({"agent_ref", "task_source", "_ng_task_index", "_ng_rollout_index"})
PARAMS_KEY = "responses_create_params"
#: Task data that stands for a row of the server's own: `{"split", "index"}`. What else the row holds stays there.
PLACE_KEY = "gymwire_row"


class RowError(ValueError):
    """A row that cannot be read; the message names the place and the fix."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the policy is offered it. `parameters` is a JSON schema of type object.

    `read_only` is told to clients, not to the policy: its calls change nothing, so several may run at once.
    """

    name: str
    description: str
    parameters: Json
    read_only: bool = False

    def as_responses(self) -> Json:
        """The Responses API form, as NeMo Gym rows carry it in `responses_create_params.tools`."""
        return {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": False,
        }

    def as_chat(self) -> Json:
        """The chat completions form."""
        inner = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": inner}

    @classmethod
    def from_any(cls, spec: Mapping[str, Any]) -> Tool:
        """Read either OpenAI form, MCP's (`inputSchema`, `annotations.readOnlyHint`), or that of `/environments`."""
        inner = spec.get("function") if isinstance(spec.get("function"), Mapping) else spec
        assert isinstance(inner, Mapping)
        if not isinstance(inner.get("name"), str):
            raise RowError(f"a tool needs a string `name`, got {inner.get('name')!r}")
        schema = inner.get("parameters") or inner.get("inputSchema") or {"type": "object", "properties": {}}
        if not isinstance(schema, Mapping):
            raise RowError(
                f"the `parameters` of tool {inner['name']!r} must be a JSON schema object, got {schema!r:.80}"
            )
        hints = spec.get("annotations")
        read_only = spec.get("read_only") is True or (isinstance(hints, Mapping) and hints.get("readOnlyHint") is True)
        return cls(inner["name"], str(inner.get("description") or ""), parameters_of(schema), read_only)


def parameters_of(schema: Mapping[str, Any]) -> Json:
    """A tool's JSON schema as somebody wrote it; `properties` and `required` that are null say nothing."""
    return {key: value for key, value in schema.items() if value is not None or key not in ("properties", "required")}


@dataclass(frozen=True, slots=True)
class _Written:
    """`input` and `tools` as a row had them, beside what was read from them.

    A copy of the row with another prompt or other tools (`dataclasses.replace`) is told by identity: what was
    written stands for nothing else than what was read from it.
    """

    prompt: Sequence[Message]
    tools: tuple[Tool, ...] | None
    params: Mapping[str, Any]

    def over(self, known: Json, prompt: Sequence[Message], tools: tuple[Tool, ...] | None) -> Json:
        """`known`, with what was written in the place of each part that is still the one read."""
        same = {"input": prompt is self.prompt, "tools": tools is self.tools}
        kept = {key: value for key, value in known.items() if not same[key]}
        written = {key: value for key, value in self.params.items() if same[key]}
        return {key: (kept | written)[key] for key in ("input", "tools") if key in kept or key in written}


@dataclass(frozen=True, slots=True)
class Row:
    """One task: the prompt, the tools it offers, and task data the policy never sees.

    `prompt` is the messages as written (`input` of a NeMo Gym row: chat messages or Responses items).
    `tools` None means: the tools its environment offers. `params` holds what else
    `responses_create_params` carried (temperature, instructions …), `framework` the framework's keys.
    A row that was read is written as it was: a text `input`, `strict`, tools that are no functions.
    """

    prompt: Sequence[Message] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[Tool, ...] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    framework: Mapping[str, Any] = field(default_factory=dict)
    _written: _Written | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, prompt: str, **data: Any) -> Row:
        """The usual row: one user message and task data."""
        return cls(prompt=[{"role": "user", "content": prompt}], data=data)

    @classmethod
    def from_json(cls, raw: Any) -> Row:
        """Read a NeMo Gym row. Raises `RowError` with the place and the fix."""
        if not isinstance(raw, Mapping):
            raise RowError(f"a row is a JSON object, got {type(raw).__name__}")
        params = raw.get(PARAMS_KEY)
        if not isinstance(params, Mapping):
            columns = "" if params is not None else "; `gymwire rows convert` makes one of a prompt column"
            raise RowError(f"a row needs an object `{PARAMS_KEY}` with `input`; got {params!r:.80}{columns}")
        others = {key: value for key, value in raw.items() if key != PARAMS_KEY}
        prompt, tools = _read_input(params.get("input", [])), _read_tools(params.get("tools"))
        return cls(
            prompt=prompt,
            data={key: value for key, value in others.items() if key not in FRAMEWORK_KEYS},
            tools=tools,
            params={key: value for key, value in params.items() if key not in ("input", "tools")},
            framework={key: value for key, value in others.items() if key in FRAMEWORK_KEYS},
            _written=_Written(prompt, tools, {key: params[key] for key in ("input", "tools") if key in params}),
        )

    def create_params(self) -> Json:
        """`responses_create_params`: all of the row that the policy may see."""
        known: Json = {"input": list(self.prompt)}
        if self.tools is not None:
            known["tools"] = [tool.as_responses() for tool in self.tools]
        if self._written is not None:
            known = self._written.over(known, self.prompt, self.tools)
        return known | dict(self.params)

    def place(self) -> tuple[str, int] | None:
        """Split and index of the server's row that this one stands for, if it does. Raises `RowError`."""
        if self.data.keys() != {PLACE_KEY}:
            return None
        match self.data[PLACE_KEY]:
            case {"split": str(split), "index": int(index), **others} if not others and not isinstance(index, bool):
                return split, index
        raise RowError(f"`{PLACE_KEY}` is an object with `split` and `index`; got {self.data[PLACE_KEY]!r:.80}")

    def to_json(self) -> Json:
        """The NeMo Gym row."""
        return {PARAMS_KEY: self.create_params(), **self.data, **self.framework}


def _read_input(value: Any) -> list[Message]:
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise RowError(f"`{PARAMS_KEY}.input` is a string or a list of messages; got {value!r:.80}")
    return [dict(item) for item in value]


def _read_tools(value: Any) -> tuple[Tool, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise RowError(f"`{PARAMS_KEY}.tools` is a list of tool objects; got {value!r:.80}")
    return tuple(Tool.from_any(item) for item in value if item.get("type", "function") == "function")


@dataclass(frozen=True, slots=True)
class EpisodeId:
    """Names one episode reproducibly: for traces, retries and idempotent seeds."""

    row: str
    attempt: int = 0
    sample: int = 0
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.row}:{self.seed}:{self.sample}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or an embedded resource in a tool result. `data` is base64 (text for a text resource)."""

    kind: str  # "image" | "audio" | "resource"
    data: str
    mime_type: str
    uri: str = ""

    def placeholder(self) -> str:
        """What a text-only wire shows instead."""
        return f"[{self.kind}: {self.mime_type}]"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What one call answered. `done` says that the episode ended with it."""

    text: str
    is_error: bool = False
    done: bool = False
    media: tuple[Media, ...] = ()

    def plain(self) -> str:
        """The text, with a placeholder for every picture or sound."""
        if not self.media:
            return self.text
        return "\n".join([*([self.text] if self.text else []), *(item.placeholder() for item in self.media)])


class SessionState(StrEnum):
    SEEDED = "seeded"
    ACTIVE = "active"
    VERIFIED = "verified"
    CLOSED = "closed"
    FAILED = "failed"
    EXPIRED = "expired"


class Ending(StrEnum):
    FINISHED = "finished"  # the policy stopped
    CUT = "cut"  # a turn, token or tool budget was spent: still verified, still scored
    FAILED = "failed"  # our side broke: no reward exists


class FailureKind(StrEnum):
    """NeMo Gym's public vocabulary (0.7.0); an environment's own kinds read `<environment>:<kind>`."""

    TRANSPORT_UNREACHABLE = "transport_unreachable"
    TRANSPORT_PEER_DROP = "transport_peer_drop"
    TRANSPORT_TIMEOUT = "transport_timeout"
    TRANSPORT_LOCAL_RESOURCE = "transport_local_resource"
    AGENT_RUN_ERROR = "agent_run_error"
    AGENT_REQUEST_FAILED = "agent_request_failed"
    AGENT_TIMEOUT = "agent_timeout"
    AGENT_COMMAND_NOT_ALLOWED = "agent_command_not_allowed"
    JUDGE_FAILED = "judge_failed"
    JUDGE_UNPARSEABLE = "judge_unparseable"
    VERIFIER_ERROR = "verifier_error"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    PROVIDER_QUOTA_EXHAUSTED = "provider_quota_exhausted"
    PROVIDER_OOM_KILLED = "provider_oom_killed"
    SESSION_LOST = "session_lost"
    SESSION_EXPIRED = "session_expired"
    SESSION_RELEASE_FAILED = "session_release_failed"
    CANCELLED = "cancelled"
    KILL_SHAPED = "kill_shaped"
    SHUTDOWN = "shutdown"
    PERSISTENCE_FAILED = "persistence_failed"
    COHORT_INCOMPLETE = "cohort_incomplete"


class Stage(StrEnum):
    """Where in a session's life a failure arose."""

    SEED = "seed"
    CALL = "call"
    END_TURN = "end_turn"
    VERIFY = "verify"
    IDLE = "idle"
    DRAIN = "drain"
    TRANSPORT = "transport"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why our side broke a session. Recorded once; `kind` is a `FailureKind` or `<environment>:<kind>`."""

    kind: str
    reason: str
    stage: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an episode ended as. `reward` is finite, or None exactly when the episode failed.

    `components` sum to the reward. `disagreements` says where the client's transcript differs from the
    server's own log of calls and results.
    """

    ending: Ending
    reward: float | None = None
    components: Mapping[str, float] = field(default_factory=dict)
    failure_kind: str = ""
    failure_reason: str = ""
    disagreements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.reward is None) != (self.ending is Ending.FAILED):
            raise ValueError("exactly the failed episodes have no reward")
        if self.reward is not None and not isfinite(self.reward):
            raise ValueError(f"reward must be finite, got {self.reward}")
        if self.components and self.reward is not None:
            total = fsum(self.components.values())
            if not isclose(total, self.reward, rel_tol=1e-9, abs_tol=1e-9):
                raise ValueError(f"components sum to {total}, the reward is {self.reward}")

    @property
    def masked(self) -> bool:
        """Whether this episode must not train: our side broke it."""
        return self.ending is Ending.FAILED

    @classmethod
    def failed(cls, failure: Failure) -> Outcome:
        return cls(Ending.FAILED, failure_kind=failure.kind, failure_reason=failure.reason)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call in the server's own log. `raw_arguments` is the JSON text exactly as it was sent."""

    name: str
    raw_arguments: bytes
    result: ToolResult

    @property
    def arguments(self) -> Any:
        """The arguments decoded, or None where they were no JSON (or nested too deeply for it)."""
        try:
            return json.loads(self.raw_arguments)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class Transcript:
    """The messages as the client saw them, beside the server's own log. Graders trust `calls`.

    `messages` are chat messages: `role`, `content`, and for calls `tool_calls` / `tool_call_id`.
    """

    messages: Sequence[Message] = ()
    calls: Sequence[CallRecord] = ()
    ending: Ending = Ending.FINISHED

    @property
    def answer(self) -> str:
        """The text of the last assistant message, or the empty string."""
        for message in reversed(self.messages):
            if message.get("role") == "assistant":
                return text_of(message.get("content"))
        return ""

    def calls_to(self, name: str) -> list[CallRecord]:
        return [call for call in self.calls if call.name == name]


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts of which the textual ones count."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Iterable) or isinstance(content, Mapping):
        return ""
    parts = (part.get("text", "") for part in content if isinstance(part, Mapping))
    return "".join(part for part in parts if isinstance(part, str))
