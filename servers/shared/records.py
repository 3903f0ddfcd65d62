"""A session as Redis keeps it: what never changes (meta), what each commit changes (head, snapshot), and its log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from .. import wirejson
from ..answers import Answer, Code
from ..environment import Environment
from ..failures import SessionFailure
from ..types import CallRecord, Ending, Failure, FailureKind, Json, Media, Outcome, Row, SessionState, ToolResult

#: Of what is written here; a replica of another version does not guess.
FORMAT = 1
#: Bytes of one environment's state.
MAX_STATE_BYTES = 4 * 1024 * 1024


class Unreadable(Exception):
    """A record of another version."""


@dataclass(frozen=True, slots=True)
class Meta:
    """What is fixed at seed."""

    environment: str
    owner: str
    wire: str
    row: Row
    seed: int | None
    prompt: list[Json] | None  # None: the row's own
    caller_id: str | None
    fingerprint: bytes

    def dumps(self) -> bytes:
        asked = [self.environment, self.owner, self.wire, self.seed, self.caller_id, self.fingerprint.hex()]
        return _state_text([FORMAT, *asked, self.prompt, self.row.to_json()])

    @classmethod
    def loads(cls, text: bytes) -> Meta:
        """Raises `Unreadable`, and others for what is no record at all."""
        try:
            form, *said = wirejson.loads(text)
        except ValueError:  # a lone surrogate: no JSON on a wire, but a caller's id or row may hold one
            form, *said = json.loads(text)
        if form != FORMAT:
            raise Unreadable(f"it was written in form {form}, this server reads form {FORMAT}")
        environment, owner, wire, seed, caller_id, fingerprint, prompt, row = said
        made = Row.from_json(row)
        return cls(environment, owner, wire, made, seed, prompt, caller_id, bytes.fromhex(fingerprint))


class Head(NamedTuple):
    """What a commit changes."""

    state: SessionState
    outcome: Outcome | None
    failure: Failure | None
    keeps_log: bool  # an ended session whose log waits for the client's transcript

    def dumps(self) -> bytes:
        outcome, failure = self.outcome, self.failure
        said: list[Any] = [self.state.value, None, None, self.keeps_log]
        if outcome is not None:
            parts = [outcome.ending.value, outcome.reward, dict(outcome.components)]
            said[1] = [*parts, outcome.failure_kind, outcome.failure_reason, outcome.disagreements]
        if failure is not None:
            said[2] = [failure.kind, failure.reason, failure.stage, failure.tool]
        return _dumps(said)

    @classmethod
    def loads(cls, text: bytes) -> Head:
        state, outcome, failure, keeps_log = orjson.loads(text)
        made = None
        if outcome is not None:
            ending, reward, components, kind, reason, disagreements = outcome
            made = Outcome(Ending(ending), reward, components, kind, reason, tuple(disagreements))
        return cls(SessionState(state), made, None if failure is None else Failure(*failure), keeps_log)


class Entry(NamedTuple):
    """One call: in the log of the episode, or only an answer to a key, or both."""

    name: str
    arguments: bytes
    answer: Answer
    key: str | None
    logged: bool

    def dumps(self) -> bytes:
        result = self.answer.result
        media = [[item.kind, item.data, item.mime_type, item.uri] for item in result.media]
        said = [result.text, result.is_error, result.done, media]
        return _dumps([self.name, self.key, self.logged, self.answer.code.value, *said]) + b"\n" + self.arguments

    @classmethod
    def loads(cls, text: bytes) -> Entry:
        head, _, arguments = text.partition(b"\n")
        name, key, logged, code, said, is_error, done, media = json.loads(head)
        result = ToolResult(said, is_error, done, tuple(Media(*item) for item in media))
        return cls(name, arguments, Answer(Code(code), result), key, logged)

    def record(self) -> CallRecord:
        return CallRecord(self.name, self.arguments, self.answer.result)


class Record(NamedTuple):
    """A whole session."""

    version: int
    meta: Meta
    head: Head
    snapshot: bytes
    log: Sequence[Entry]

    @classmethod
    def read(cls, answer: Sequence[Any]) -> Record:
        """Raises `Unreadable`."""
        version, meta, head, snapshot, log = answer
        try:
            return cls(version, Meta.loads(meta), Head.loads(head), snapshot, [Entry.loads(entry) for entry in log])
        except (ValueError, TypeError, LookupError) as error:  # what another version wrote, or nobody of ours
            raise Unreadable(f"its record cannot be read: {type(error).__name__}") from None


def freeze(environment: Environment) -> bytes:
    """An environment's state, with that of its random source if it was used. Raises what `get_state` raises, and
    `SessionFailure` for a state that is too large or of no kind that can be kept."""
    state = environment.get_state()
    drawn = environment.__dict__.get("rng")
    try:
        kind, text = ("b", state) if isinstance(state, bytes) else ("j", _state_text(state))
    except (TypeError, ValueError) as error:
        raise SessionFailure(f"get_state answered neither bytes nor JSON values: {error}") from None
    if len(text) > MAX_STATE_BYTES:
        why = f"the environment's state has {len(text)} bytes, more than the {MAX_STATE_BYTES} that are kept"
        raise SessionFailure(why, FailureKind.PERSISTENCE_FAILED)
    source = None if drawn is None else drawn.getstate()
    return _dumps([environment.state_version, kind, source]) + b"\n" + text


def thaw(environment: Environment, snapshot: bytes) -> None:
    """Make a new environment the one that was frozen. Raises what `set_state` raises, and `Unreadable`."""
    head, _, text = snapshot.partition(b"\n")
    try:
        version, kind, source = orjson.loads(head)
    except (ValueError, TypeError):
        raise Unreadable("its snapshot cannot be read") from None
    if version != environment.state_version:
        raise Unreadable(f"its state is of version {version}, this server's environment of {environment.state_version}")
    if source is not None:
        environment.rng.setstate((source[0], tuple(source[1]), source[2]))
    environment.set_state(text if kind == "b" else json.loads(text))


def _state_text(state: Any) -> bytes:
    """A state as JSON that reads back as it was. Raises TypeError for what JSON would change."""
    try:
        text = orjson.dumps(state)
    except TypeError as error:
        if "64-bit" not in str(error) and "surrogate" not in str(error):
            raise
    else:
        if b"null" not in text:
            return text
    return json.dumps(state, separators=(",", ":")).encode()  # NaN, which orjson writes as null; large integers


def _dumps(value: Any) -> bytes:
    """JSON in one line; integers of any size and lone surrogates (a policy's tool name) come back as they were."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()
