"""Prompt columns: which one is taken, what its values become, and what is told where that is not clear."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.servers.row_columns import PROMPT_COLUMNS, candidates
from gymwire.servers.row_forms import as_chat, as_gym, given_system, to_chat, to_gym
from gymwire.servers.types import PARAMS_KEY, RowError

USER = {"role": "user", "content": "q"}
SYSTEM = {"role": "system", "content": "s"}
HUMAN, GPT = {"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}
CALL = {"from": "function_call", "value": '{"name": "add", "arguments": {"n": 1}}'}
TOOL = {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}


@pytest.mark.parametrize("column", PROMPT_COLUMNS)
@pytest.mark.parametrize("value", ["q", [USER], [HUMAN]])
def test_every_prompt_column_is_found_with_every_kind_of_value(column: str, value: Any) -> None:
    raw = {"id": 3, column: value, "answer": "a"}
    assert candidates(raw) == [column]
    chat = as_chat(raw)
    assert chat["messages"] == [USER] and chat["answer"] == "a"
    assert as_gym(raw)[PARAMS_KEY] == {"input": [USER]}


def test_the_prompt_column_stays_as_task_data() -> None:
    assert as_chat({"conversations": [HUMAN, GPT]}) == {"messages": [USER], "conversations": [HUMAN, GPT]}
    assert as_gym({"question": "q", "answer": 1}) == {PARAMS_KEY: {"input": [USER]}, "question": "q", "answer": 1}


def test_a_named_column_goes_first_and_may_have_any_name() -> None:
    assert as_chat({"question": "other", "text": "q"}, "text")["messages"] == [USER]


@pytest.mark.parametrize(
    ("raw", "column", "says"),
    [
        ({"question": "a", "problem": "b"}, "", "`question`, `problem` may each be the prompt; name one: --prompt-co"),
        ({"instruction": "a", "input": "b"}, "", "`instruction`, `input` may each be"),
        ({"question": ""}, "", "the prompt column `question` is empty"),
        ({"question": " "}, "question", "the prompt column `question` is empty"),
        ({"q": "a"}, "", "no prompt column: the row has `q`"),
        ({"q": "a"}, "text", "no column `text`: the row has `q`"),
        ({"q": 5}, "q", "is a text or a list of chat messages, got 5"),
        ({"prompt": [USER, {"role": "assistant", "content": "a"}]}, "", "ends with an answer"),
        ({"conversations": [GPT]}, "", "ends with an answer"),
        ({"conversations": [{"from": "cat", "value": "q"}]}, "", "turn 1 of the conversation is from 'cat'"),
        ({"conversations": [HUMAN, {"from": "observation", "value": "1"}]}, "", "turn 2 of the conversation is a tool"),
        ({"conversations": [{"from": "function_call", "value": "add"}]}, "", "turn 1 of the conversation is no call"),
        ({"conversations": [{"from": ["cat"], "value": "q"}]}, "", "turn 1 of the conversation is from ['cat']"),
        (
            {"conversations": [CALL | {"value": '{"name": 1, "arguments": 2}'}]},
            "",
            "turn 1 of the conversation is no call",
        ),
        (
            {"conversations": [CALL | {"value": '{"name": "f", "name": "g", "arguments": {}}'}]},
            "",
            "turn 1 of the conversation is no call",
        ),
        ({"question": "a", "tools": "[{"}, "", "the column `tools` is no JSON"),
        ({"question": "a", "tools": "[" * 9999}, "", "the column `tools` is no JSON"),
        ({"question": "a", "tools": '[{"name": "f", "name": "g"}]'}, "", "an object has the key 'name' twice"),
        ({"question": "a", "tools": '[{"name": "f", "x": NaN}]'}, "", "NaN is no JSON value"),
        ({"messages": [USER], "_gymwire": {"mine": 1}}, "", "task data in `_gymwire`"),
        ({"question": "a", "messages": {"x": 1}}, "", "task data in `messages`"),
        ({PARAMS_KEY: {"input": "a"}, "question": "b"}, "question", "it is a nemo-gym row, whose prompt is no column"),
        ({"messages": [USER], "question": "b"}, "question", "it is a chat row"),
    ],
)
def test_what_is_not_clear_is_told(raw: dict[str, Any], column: str, says: str) -> None:
    with pytest.raises(RowError) as told:
        as_gym(raw, column)
    assert says in str(told.value)


def test_a_conversation_with_calls_keeps_them() -> None:
    turns = [{"from": "system", "value": "s"}, HUMAN, CALL, {"from": "observation", "value": "2"}, HUMAN, GPT]
    said = as_chat({"conversations": turns})["messages"]
    assert [message["role"] for message in said] == ["system", "user", "assistant", "tool", "user"]
    call = said[2]["tool_calls"][0]
    assert call["function"] == {"name": "add", "arguments": '{"n": 1}'} and said[3]["tool_call_id"] == call["id"]
    kinds = [item.get("type", item.get("role")) for item in as_gym({"conversations": turns})[PARAMS_KEY]["input"]]
    assert kinds == ["system", "user", "function_call", "function_call_output", "user"]


@pytest.mark.parametrize("tools", [[TOOL], [{"type": "function", "function": TOOL}], '[{"type": "function"}]'])
def test_tools_come_in_every_form(tools: Any) -> None:
    raw = {"question": "q", "tools": tools}
    assert as_chat(raw)["tools"][0]["type"] == as_gym(raw | {"tools": [TOOL]})[PARAMS_KEY]["tools"][0]["type"]
    assert "tools" not in {key for key in as_gym(raw | {"tools": [TOOL]}) if key != PARAMS_KEY}


@pytest.mark.parametrize("nothing", [None, "", " "])
def test_a_table_has_empty_cells_where_others_have_tools_or_messages(nothing: Any) -> None:
    raw = {"question": "q", "tools": nothing, "messages": None, "_gymwire": None}
    assert as_chat(raw) == {"messages": [USER], "question": "q", "_gymwire": None}
    assert as_gym(raw) == {PARAMS_KEY: {"input": [USER]}, "question": "q"}
    assert to_chat({PARAMS_KEY: {"input": [USER]}, "_gymwire": None}) == {"messages": [USER]}


def test_a_system_column_is_the_systems_message() -> None:
    assert as_chat({"question": "q", "system": "s"})["messages"] == [SYSTEM, USER]


@pytest.mark.parametrize(
    "raw",
    [
        {PARAMS_KEY: {"input": "q"}},
        {PARAMS_KEY: {"input": [{"type": "reasoning", "summary": []}, {"type": "message", **USER}], "top_p": 1}},
        {"messages": [USER], "answer": "a"},
        {"messages": [{"role": "user", "content": "q", "name": "x", "tool_calls": []}]},
    ],
)
def test_a_system_message_is_put_first_once_and_loses_nothing(raw: dict[str, Any]) -> None:
    other, back = (to_chat, to_gym) if PARAMS_KEY in raw else (to_gym, to_chat)
    given = given_system(raw, "s")
    assert as_chat(given)["messages"][0] == SYSTEM and len(as_chat(given)["messages"]) == 2
    assert given_system(given, "t") == given
    assert back(given_system(other(raw), "s")) == given == back(other(given))


def test_instructions_of_a_row_stand_in_a_system_messages_place() -> None:
    raw = {PARAMS_KEY: {"input": "q", "instructions": "i"}}
    assert given_system(raw, "s") == raw
