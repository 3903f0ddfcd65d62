"""The control calls that a plain MCP client has beside the environment's tools; the policy never sees them.

Every answer is JSON text. `close_session` is accepted but not listed; closing what is gone already succeeds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...answers import Code, Refused
from ...catalog import Served
from ...schema import explain, strip_titles
from ...seeding import SeedRequest
from ...sessions import Sessions
from ...types import Ending, Json, Outcome, Row, RowError

#: The answer as JSON, and the outcome where the call was about one.
Done = tuple[Json, Outcome | None]


class _Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Seed(_Arguments):
    row: Annotated[dict[str, Any] | None, Field(description="A whole row: prompt, tools and task data.")] = None
    split: Annotated[str | None, Field(description="Take a row of this split.")] = None
    index: Annotated[int | None, Field(ge=0, description="Which row of the split; default the first.")] = None
    seed: Annotated[int | None, Field(description="Chooses the row where none is named.")] = None
    session_id: Annotated[
        str | None, Field(min_length=1, description="A name of your own: a repeated seed answers the same session.")
    ] = None


class OfSession(_Arguments):
    session: Annotated[str, Field(description="The handle that seed_session answered.")]


class Verify(OfSession):
    messages: Annotated[list[dict[str, Any]] | None, Field(description="The whole conversation.")] = None
    answer: Annotated[str | None, Field(description="The final answer, where there is no more to say.")] = None
    ending: Annotated[Literal["finished", "cut"], Field(description="cut: a turn, token or tool budget was spent.")] = (
        "finished"
    )


class By(NamedTuple):
    """Who makes a control call: a token's name, the wire, and the call's idempotency key."""

    owner: str
    wire: str
    key: str | None


@dataclass(frozen=True, slots=True)
class Control:
    """One control call: what it takes, and what it does."""

    name: str
    description: str
    arguments: type[_Arguments]
    run: Callable[[Sessions, Served, Any, By], Awaitable[Done]]
    listed: bool = True

    def described(self) -> Json:
        schema = strip_titles(self.arguments.model_json_schema())
        schema["properties"] = {name: _plain(inner) for name, inner in schema["properties"].items()}
        return {"name": self.name, "description": self.description, "inputSchema": schema}


def _plain(schema: Json) -> Json:
    """An optional argument as its type alone: simple clients cannot fill in a choice between a type and null."""
    kind = next((kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}), None)
    if kind is None:
        return schema
    return {**kind, "description": schema["description"]}


def read_control(control: Control, arguments: Json) -> _Arguments:
    try:
        return control.arguments.model_validate(arguments)
    except ValidationError as error:
        text = f"Invalid arguments for {control.name}: {explain(error)}"
        raise Refused(Code.INVALID_ARGUMENTS, text) from None


async def seed_session(sessions: Sessions, served: Served, asked: Seed, by: By) -> Done:
    row = None if asked.row is None else _row(asked.row)
    request = SeedRequest(row, asked.split, asked.index, asked.seed, asked.session_id)
    session = await sessions.seed(served, request, owner=by.owner, wire=by.wire)
    tools = [tool.name for tool in session.tools]
    return {
        "session": session.handle,
        "prompt": list(session.prompt),
        "tools": tools,
        "max_turns": served.environment.max_turns,
    }, None


async def verify(sessions: Sessions, served: Served, asked: Verify, by: By) -> Done:
    items: list[Json] = list(asked.messages or ())
    if asked.answer is not None:
        items.append({"role": "assistant", "content": asked.answer})
    session = await sessions.find(asked.session, served, by.owner)
    outcome = await session.verify(items, Ending(asked.ending))
    return _verdict(outcome), outcome


async def end_turn(sessions: Sessions, served: Served, asked: OfSession, by: By) -> Done:
    session = await sessions.find(asked.session, served, by.owner)
    prompt = await session.end_turn(by.key)
    if session.failure is not None:
        raise Refused(Code.SESSION_FAILED, "The session has failed.", failure=session.failure)
    return {"prompt": prompt}, None


async def close_session(sessions: Sessions, served: Served, asked: OfSession, by: By) -> Done:
    try:
        session = await sessions.find(asked.session, served, by.owner)
    except Refused:
        return {"closed": True}, None
    await sessions.close(session)
    return {"closed": True}, None


def _verdict(outcome: Outcome) -> Json:
    if outcome.masked:
        return {"reward": None, "failure_kind": outcome.failure_kind, "failure_reason": outcome.failure_reason}
    return {
        "reward": outcome.reward,
        "components": dict(outcome.components),
        "ending": outcome.ending.value,
        "disagreements": list(outcome.disagreements),
    }


def _row(raw: Json) -> Row:
    try:
        return Row.from_json(raw)
    except RowError as error:
        raise Refused(Code.INVALID_ROW, str(error)) from None


CONTROLS = {
    control.name: control
    for control in (
        Control(
            "seed_session",
            "Begin an episode: by a whole row, by split and index, or by a seed. Answers JSON with the handle "
            "(`session`) that every other call needs, the prompt, the tools' names and the turn limit.",
            Seed,
            seed_session,
        ),
        Control(
            "verify",
            "End the episode and score it. Answers JSON with reward, components, ending and disagreements; "
            "an error means that the episode has no score and must not be counted.",
            Verify,
            verify,
        ),
        Control(
            "end_turn",
            "Say that the turn is over. Answers JSON with the next prompt, or null where there is none.",
            OfSession,
            end_turn,
        ),
        Control("close_session", "Give the session back.", OfSession, close_session, listed=False),
    )
}
