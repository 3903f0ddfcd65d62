"""C12, C13, C14, C17: calls as models write them, on every wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gymwire.adapters import Session
from gymwire.adapters.calls import call_for_history, parse_hermes, read_arguments, result_for_history
from gymwire.servers.types import Tool, ToolResult

from tests.wires import world

GOOD = {"item": "good", "at": {"shelf": 1}}


def rendered(messages: list[dict[str, Any]]) -> str:
    """What a chat template does with a history: it walks into every call and iterates its arguments."""
    lines = []
    for message in messages:
        lines.append(f"<|{message['role']}|>{message['content']}")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = ", ".join(f"{key}={json.dumps(value)}" for key, value in function["arguments"].items())
            lines.append(f"<call>{function['name'] + ''}({arguments})</call>")
    return "\n".join(lines)


async def turn(session: Session, text: str, messages: list[dict[str, Any]]) -> list[ToolResult]:
    """One turn of a rollout: parse, call or answer the error, and put all of it into the history."""
    parsed = parse_hermes(text)
    ids = [f"call_{len(messages)}_{number}" for number in range(len(parsed.calls))]
    messages.append(parsed.as_message(ids, objects=True))
    results = []
    for call, call_id in zip(parsed.calls, ids, strict=True):
        result = ToolResult(call.error, is_error=True) if call.error else await session.call(call.name, call.arguments)
        messages.append(result_for_history(result, call_id))
        results.append(result)
    return results


async def test_half_written_calls_are_answered_and_the_episode_goes_on(
    worlds: str, wire: str, cases: dict[str, Any]
) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        messages: list[dict[str, Any]] = list(session.prompt)
        for text in cases["C12"]["input"]:
            results = await turn(session, text, messages)
            assert len(results) == text.count("<tool_call>")
            assert all(result.is_error and result.text.strip() for result in results), text
        good = f"<tool_call>{json.dumps({'name': 'put', 'arguments': GOOD})}</tool_call>"
        assert [result.text for result in await turn(session, good, messages)] == ["good is on shelf 1, anywhere."]
        assert (
            rendered(messages).count("<call>") == sum(text.count("<tool_call>") for text in cases["C12"]["input"]) + 1
        )
        outcome = await session.verify(messages)
        assert outcome.reward == 0.125 and not outcome.masked


async def test_every_spelling_of_no_arguments_calls_the_tool(worlds: str, wire: str, cases: dict[str, Any]) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        for spelling in cases["C13"]["input"]:
            result = await session.call("count", spelling)
            assert (result.text, result.is_error) == ("0", False), repr(spelling)
            call = call_for_history("count", read_arguments(spelling), "1")
            assert call["function"]["arguments"] == "{}"
        assert (await session.verify()).reward is not None


async def test_arguments_of_the_wrong_type_are_the_models_mistake(
    worlds: str, wire: str, cases: dict[str, Any]
) -> None:
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        ran = 0
        for case in cases["C14"]["input"]:
            result = await session.call("put", case["arguments"])
            assert result.is_error is not case["runs"], case
            assert result.text and not session.done
            ran += case["runs"]
        assert (await session.call("count")).text == str(ran) == "3"
        assert (await session.verify()).reward is not None


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in references(item)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
    return own + [found for value in schema.values() for found in references(value)]


def resolved(schema: Any, reference: str) -> Any:
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return schema


@pytest.mark.parametrize("form", [lambda tool: tool, Tool.as_chat, Tool.as_responses], ids=["own", "chat", "responses"])
async def test_a_schema_arrives_whole(worlds: str, wire: str, cases: dict[str, Any], form: Any) -> None:
    name, arguments = cases["C17"]["input"]["tool"], cases["C17"]["input"]["call"]
    async with world("kit", wire, worlds) as connection, connection.session(split="eval", index=0) as session:
        (offered,) = [tool for tool in session.tools if tool.name == name]
        written = json.loads(json.dumps(form(offered), default=lambda tool: tool.as_responses()))
        schema = Tool.from_any(written).parameters
        assert schema["required"] == ["item", "at"] and schema["additionalProperties"] is False
        place = resolved(schema, schema["properties"]["at"]["$ref"])
        assert place["required"] == ["shelf"]
        assert {"type": "null"} in place["properties"]["side"]["anyOf"] and place["properties"]["side"][
            "default"
        ] is None
        assert references(schema) and all(resolved(schema, reference) for reference in references(schema))
        assert not (await session.call(name, arguments)).is_error
