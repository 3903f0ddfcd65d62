"""Rows from one form to another and back: what others wrote, and what hypothesis makes up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from gymwire.servers.cli import build
from gymwire.servers.row_forms import as_chat, as_gym, to_chat, to_gym
from gymwire.servers.types import PARAMS_KEY, Row, RowError
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.row_files import FILES, row_file

text = st.text(max_size=8)
scalars = st.none() | st.booleans() | st.integers() | text
parts = st.fixed_dictionaries({"type": st.sampled_from(["input_text", "output_text"]), "text": text}) | st.just(
    {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant"]), "content": text | st.lists(parts)},
    optional={"type": st.just("message"), "id": text, "status": st.just("completed")},
)
items = (
    messages
    | st.fixed_dictionaries({"type": st.just("function_call"), "call_id": text, "name": text, "arguments": text})
    | st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": text, "output": text})
    | st.fixed_dictionaries({"type": st.just("reasoning"), "summary": st.just([]), "id": text})
)
tools = st.fixed_dictionaries(
    {"type": st.just("function"), "name": text},
    optional={"strict": st.booleans() | st.none(), "description": text, "parameters": st.just({"type": "object"})},
) | st.just({"type": "web_search"})
params = st.fixed_dictionaries(
    {},
    optional={
        "input": text | st.lists(items, max_size=5),
        "tools": st.none() | st.lists(tools, max_size=3),
        "instructions": st.none() | text,
        "temperature": st.none() | st.floats(0, 2),
        "parallel_tool_calls": st.booleans(),
    },
)
data = st.dictionaries(st.sampled_from(["answer", "agent_ref", "_ng_task_index", "id"]), scalars)
rows = st.builds(lambda known, others: {PARAMS_KEY: known, **others}, params, data)


@pytest.mark.parametrize("name", FILES)
def test_rows_that_others_wrote_come_back_as_they_were(name: str) -> None:
    for line in row_file(f"{name}.jsonl").read_bytes().splitlines():
        raw = json.loads(line)
        assert Row.from_json(raw).to_json() == raw
        chat = to_chat(raw)
        assert to_gym(chat) == raw
        bare = {key: value for key, value in chat.items() if key != "_gymwire"}
        assert to_chat(to_gym(bare)) == bare


@settings(max_examples=300, deadline=None)
@given(rows)
def test_any_row_comes_back_as_it_was(raw: dict[str, Any]) -> None:
    assert Row.from_json(raw).to_json() == raw
    assert to_gym(to_chat(raw)) == raw


chats = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": text | st.none()},
    optional={
        "name": text,
        "tool_call_id": text,
        "tool_calls": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {
                    "id": text,
                    "type": st.just("function"),
                    "function": st.fixed_dictionaries({"name": text, "arguments": text | st.just({"n": 1})}),
                }
            ),
            max_size=2,
        ),
    },
)
chat_rows = st.fixed_dictionaries(
    {"messages": st.lists(chats, max_size=5)},
    optional={
        "tools": st.none()
        | st.lists(
            st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries({"name": text})}),
            max_size=2,
        ),
        "answer": scalars,
    },
)


@settings(max_examples=300, deadline=None)
@given(chat_rows)
def test_any_chat_row_comes_back_as_it_was(raw: dict[str, Any]) -> None:
    assert to_chat(to_gym(raw)) == raw


def test_an_edited_chat_row_keeps_its_edit_and_its_parameters() -> None:
    chat = to_chat({PARAMS_KEY: {"input": "old", "temperature": 0.5}})
    chat["messages"][0]["content"] = "new"
    assert to_gym(chat) == {PARAMS_KEY: {"input": [{"role": "user", "content": "new"}], "temperature": 0.5}}


def test_a_row_without_parameters_is_refused_with_a_sentence() -> None:
    with pytest.raises(RowError, match=f"a row needs an object `{PARAMS_KEY}` with `input`"):
        as_chat(Row.from_json({"question": "?"}).to_json())
    with pytest.raises(RowError, match="no prompt column: the row has `answer`; name one: --prompt-column COLUMN"):
        as_gym({"answer": "?"})


def run(*arguments: str | Path) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(build("rows"), ["rows", *map(str, arguments)])


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_convert_goes_there_and_back_and_writes_over_nothing(tmp_path: Path) -> None:
    source = row_file("workplace_assistant.jsonl")
    chat, back = tmp_path / "chat.jsonl", tmp_path / "back.jsonl"
    assert run("convert", source, chat, "--to", "chat").exit_code == 0
    assert run("convert", chat, back).exit_code == 0
    assert lines(back) == lines(source)
    refused = run("convert", source, chat)
    assert refused.exit_code == 2 and "--force" in refused.stderr


def test_every_broken_row_is_told_with_its_line_and_nothing_is_written(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"a": 1}\n{\n{"responses_create_params": {"input": "x"}}\n[]\n')
    done = run("convert", broken, tmp_path / "out.jsonl")
    assert done.exit_code == 2 and all(f"broken.jsonl:{line}:" in done.stderr for line in (1, 2, 4))
    assert list(tmp_path.iterdir()) == [broken]


def test_shards_hold_every_row_once_whatever_the_order(tmp_path: Path) -> None:
    rows = [{PARAMS_KEY: {"input": str(number)}} for number in range(60)]
    for name, order in (("a", rows), ("b", rows[::-1])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in order))
        assert run("shard", tmp_path / f"{name}.jsonl", "--shards", 4, "--out", tmp_path / name).exit_code == 0
    for first in sorted((tmp_path / "a").iterdir()):
        other = lines(tmp_path / "b" / first.name)
        assert lines(first) and sorted(map(str, lines(first))) == sorted(map(str, other))
    assert sum(len(lines(path)) for path in (tmp_path / "a").iterdir()) == 60
