"""The client's transcript beside the server's log."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from gymwire.servers.transcripts import MAX_DISAGREEMENTS, chat_messages, disagreements
from gymwire.servers.types import CallRecord, ToolResult, Transcript, text_of


def said(name: str, arguments: Any, result: str | None = None, call_id: str = "1") -> list[dict[str, Any]]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
    made: list[dict[str, Any]] = [{"role": "assistant", "content": "", "tool_calls": [call]}]
    return made if result is None else [*made, {"role": "tool", "tool_call_id": call_id, "content": result}]


def logged(name: str, arguments: Any, result: str) -> CallRecord:
    return CallRecord(name, json.dumps(arguments).encode(), ToolResult(result))


def test_responses_items_and_chat_messages_read_the_same() -> None:
    items = [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I "}, {"text": "see"}]},
        {"type": "function_call", "name": "add", "arguments": '{"n":1}', "call_id": "a"},
        {"type": "function_call", "name": "add", "arguments": '{"n":2}', "call_id": "b"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "output_text", "text": "3"}]},
        {"role": "assistant", "content": "Done.", "prompt_token_ids": [1, 2], "generation_log_probs": [0.1]},
    ]
    messages = chat_messages(items)
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in messages[0]["tool_calls"]] == ["a", "b"]
    assert text_of(messages[0]["content"]) == "I see"
    assert messages[2]["content"] == "3" and messages[3] == {"role": "assistant", "content": "Done."}
    assert Transcript(messages).answer == "Done."
    assert disagreements(messages, [logged("add", {"n": 1}, "1"), logged("add", {"n": 2}, "3")]) == ()


def test_reading_changes_nothing_of_what_was_sent() -> None:
    items = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "function": {"name": "a", "arguments": "{}"}}]},
        {"type": "function_call", "name": "b", "arguments": "{}", "call_id": "y"},
    ]
    before = copy.deepcopy(items)
    assert len(chat_messages(items)[0]["tool_calls"]) == 2
    assert items == before


def test_agreeing_transcripts_say_nothing() -> None:
    calls = [logged("add", {"n": 1}, "1"), logged("read", {}, "1")]
    assert disagreements([*said("add", {"n": 1}, "1"), *said("read", "", "1", "2")], calls) == ()
    assert disagreements([], calls) == ()
    assert disagreements(said("add", '"{\\"n\\": 1}"', "1"), calls[:1]) == ()


@pytest.mark.parametrize(
    ("messages", "calls", "words"),
    [
        (said("add", {"n": 1}, "2"), [logged("add", {"n": 1}, "1")], "differs from the server's"),
        (said("add", {"n": 2}), [logged("add", {"n": 1}, "1")], "not in the transcript"),
        (said("add", {"n": 1}) * 3, [logged("add", {"n": 1}, "1")], "claims 3 calls, the server logged 1"),
    ],
)
def test_what_only_one_side_knows_is_said(messages: Any, calls: Any, words: str) -> None:
    assert any(words in line for line in disagreements(messages, calls))


def test_a_name_that_no_server_saw_is_the_clients_own_affair() -> None:
    messages = [*said("invented", {}, "There is no such tool."), *said("add", {"n": 1}, "1", "2")]
    assert disagreements(messages, [logged("add", {"n": 1}, "1")]) == ()


def test_calls_that_only_read_may_have_arrived_in_any_order_but_stay_between_their_neighbours() -> None:
    reads = [logged("read", {"n": n}, str(n)) for n in range(4)]
    write = logged("write", {}, "")
    claimed = [*(said("read", {"n": n}, str(n), f"r{n}") for n in (0, 1)), said("write", {}, "", "w")]
    claimed += [said("read", {"n": n}, str(n), f"r{n}") for n in (2, 3)]
    messages = [message for one in claimed for message in one]
    assert disagreements(messages, [reads[1], reads[0], write, reads[3], reads[2]], {"read"}) == ()
    assert disagreements(messages, [reads[1], reads[0], write, reads[3], reads[2]]) != ()
    for moved in ([reads[0], write, reads[1], reads[2], reads[3]], [*reads, write]):
        assert disagreements(messages, moved, {"read"}) != ()


def test_a_call_that_was_claimed_once_answers_for_one_call_only() -> None:
    reads = [logged("read", {"n": n}, str(n)) for n in (1, 0, 1)]
    messages = [*said("read", {"n": 0}, "0", "a"), *said("read", {"n": 1}, "1", "b")]
    assert disagreements(messages, reads, {"read"}) == (
        "call 3 (read) is in the server's log but not in the transcript",
    )
    assert disagreements([*messages, *said("read", {"n": 1}, "1", "c")], reads, {"read"}) == ()


def test_a_long_result_that_the_client_cut_agrees_and_one_it_invented_does_not() -> None:
    calls = [logged("read", {}, "abc" * 1000)]
    assert disagreements(said("read", {}, "abc" * 50 + "\n[cut]"), calls) == ()
    for invented in ("xyz", "c", "xyz" * 50):
        assert disagreements(said("read", {}, invented), calls) != ()
    assert disagreements(said("read", {}, "5"), [logged("read", {}, "10")]) != ()


def test_the_list_is_short_and_so_are_its_lines() -> None:
    calls = [logged("n" * 10_000 + "\n\ud800", {"n": n}, "") for n in range(100)]
    lines = disagreements(said("add", {}), calls)
    assert len(lines) == MAX_DISAGREEMENTS and all(len(line) < 200 and line.isprintable() for line in lines)


DEEP: Any = "[" * 100_000
ODD: list[Any] = [
    None,
    5,
    "text",
    [],
    {"role": 5},
    {"role": "assistant", "tool_calls": 5},
    {"role": "assistant", "tool_calls": "abc"},
    {"role": "assistant", "tool_calls": [5, {"function": 5}, {"function": {"name": [], "arguments": DEEP}}]},
    {"role": "assistant", "tool_calls": {"a": 1}, "content": ""},
    {"type": "function_call", "name": None, "arguments": {"n": 1}, "call_id": []},
    {"type": "function_call_output", "call_id": {}, "output": 5},
    {"role": "tool", "tool_call_id": [], "content": {"text": 5}},
    {"role": "assistant", "content": [5, {"text": 5}, {"text": "x"}]},
]


def test_whatever_a_client_sends_is_read_without_raising() -> None:
    for item in ODD:
        messages = chat_messages([item, {"type": "function_call", "name": "add", "arguments": DEEP}, item])
        assert isinstance(disagreements(messages, [CallRecord("add", DEEP.encode(), ToolResult("x"))]), tuple)
        assert isinstance(Transcript(messages).answer, str)
    assert isinstance(disagreements(chat_messages(ODD), [logged("add", 5, "x")]), tuple)
