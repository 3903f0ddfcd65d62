"""C12, C13, C14 as `gymwire eval` plays them: calls of an endpoint, whole and as a stream, and in the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from gymwire.servers.types import Json

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate


def played(turns: Sequence[Turn], *options: str) -> tuple[Json, list[Json]]:
    """The summary of kit's first row with these turns, the last one repeated, and the last request."""
    with chat_endpoint(lambda body, number: turns[min(number, len(turns) - 1)]) as endpoint:
        done = evaluate("tests.worlds:Kit", endpoint.url, "-n", "1", "--json", *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout), endpoint.requests[-1]["messages"]


def arguments_in(messages: list[Json]) -> list[str]:
    """Those of each call in the history that goes back to the endpoint."""
    return [call["function"]["arguments"] for message in messages for call in message.get("tool_calls") or ()]


@pytest.mark.parametrize("parser", ["hermes", "xml", "auto"])
def test_half_written_calls_are_answered_and_the_episode_is_scored(parser: str, cases: dict[str, Any]) -> None:
    texts = cases["C12"]["input"]
    found, _ = played([*map(Turn, texts), Turn("Done.")], "--tool-parser", parser)
    assert found["tool_errors"] == found["calls"] == sum(text.count("<tool_call>") for text in texts)
    assert (found["endings"]["finished"], found["episodes"]["scored"]) == (1, 1)


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_every_spelling_of_no_arguments_calls_the_tool(stream: str, cases: dict[str, Any]) -> None:
    spellings = sent(cases["C13"]["input"], stream)
    found, messages = played([Turn(calls=[("count", spelling) for spelling in spellings]), Turn("Done.")], stream)
    assert (found["calls"], found["tool_errors"]) == (len(spellings), 0)
    assert arguments_in(messages) == ["{}"] * len(spellings)


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_arguments_of_the_wrong_type_are_the_models_mistake(stream: str, cases: dict[str, Any]) -> None:
    tried = sent([case["arguments"] for case in cases["C14"]["input"]], stream)
    runs = [case["runs"] for case in cases["C14"]["input"] if case["arguments"] in tried]
    found, messages = played([Turn(calls=[("put", arguments) for arguments in tried]), Turn("Done.")], stream)
    assert (found["calls"], found["tool_errors"]) == (len(tried), runs.count(False))
    assert all(isinstance(json.loads(arguments), dict) for arguments in arguments_in(messages))
    assert (found["endings"]["finished"], found["episodes"]["scored"]) == (1, 1)


def sent(values: Sequence[Any], stream: str) -> list[Any]:
    """What an endpoint can say: a stream has arguments in pieces of text alone."""
    return [value for value in values if stream == "--no-stream" or isinstance(value, str)]
