"""Rows as tables have them: a column that holds the prompt, beside task data.

The prompt column holds a text, chat messages, or a ShareGPT conversation. `tools` (OpenAI's forms, also as JSON text)
and `system` are read too, where they are there. All other columns are task data, and so is the prompt column: what
asks for it by name goes on to find it, and nothing of a conversation that is not in the prompt is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .row_files import parsed
from .types import Json, Message, RowError

#: Columns that hold prompts, in public data sets.
PROMPT_COLUMNS = (
    *("prompt", "question", "problem", "query", "instruction", "task", "input", "messages"),
    *("conversations", "conversation"),
)
SYSTEM_COLUMNS = ("system", "system_prompt")
#: ShareGPT's names of who speaks.
ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bot"), "assistant"),
    "system": "system",
}
CALL, RESULTS = "function_call", ("observation", "tool", "function_response")


def candidates(raw: Mapping[str, Any]) -> list[str]:
    """The columns of a row that may hold its prompt."""
    return [name for name in PROMPT_COLUMNS if _may_be_prompt(raw.get(name))]


def _may_be_prompt(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return is_chat(value) or is_sharegpt(value)


def is_chat(value: Any) -> bool:
    """Whether these are chat messages; none at all are none."""
    return _list_with(value, "role")


def is_sharegpt(value: Any) -> bool:
    """Whether this is a conversation of `from` and `value`."""
    return _list_with(value, "from") and all("value" in turn for turn in value)


def _list_with(value: Any, key: str) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(x, Mapping) and key in x for x in value)


def prompt_column(raw: Mapping[str, Any], named: str = "") -> str:
    """The column that holds the prompt. Raises `RowError` where several may, none does, or `named` is not there."""
    if named:
        if named not in raw:
            raise RowError(f"no column `{named}`: the row has {listed(raw)}")
        return named
    found = candidates(raw)
    if len(found) == 1:
        return found[0]
    if found:
        raise RowError(f"{listed(found)} may each be the prompt; name one: --prompt-column {found[0]}")
    empty = next((name for name in PROMPT_COLUMNS if raw.get(name) in ("", [])), None)
    if empty:
        raise RowError(f"the prompt column `{empty}` is empty")
    raise RowError(f"no prompt column: the row has {listed(raw)}; name one: --prompt-column COLUMN")


def listed(names: Mapping[str, Any] | Sequence[str]) -> str:
    """Columns' names for a sentence."""
    return ", ".join(f"`{name}`" for name in names) or "no columns"


def chat_row(raw: Mapping[str, Any], named: str = "") -> Json:
    """The row with `messages` and, where it has them, `tools`, as a chat row. Raises `RowError`."""
    column = prompt_column(raw, named)
    messages = with_system(column_messages(raw[column], column), _system_of(raw))
    if not messages or messages[-1].get("role") == "assistant":
        raise RowError(f"the prompt column `{column}` ends with an answer; leave that to the policy")
    if raw.get("messages") is not None and column != "messages":
        raise RowError("the row has task data in `messages`, which a chat row needs; rename that column")
    said: Json = {"messages": messages}
    if (tools := _tools_of(raw)) is not None:
        said["tools"] = tools
    return {**said, **{key: value for key, value in raw.items() if key not in ("messages", "tools")}}


def _system_of(raw: Mapping[str, Any]) -> str:
    texts = (raw.get(name) for name in SYSTEM_COLUMNS)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _tools_of(raw: Mapping[str, Any]) -> list[Any] | None:
    value = raw.get("tools")
    if isinstance(value, str):
        try:
            value = parsed(value.encode(), "") if value.strip() else None
        except ValueError as error:
            raise RowError(f"the column `tools` is no JSON: {error}") from error
    if value is None or _list_with(value, "name") or _list_with(value, "type") or value == []:
        return value
    raise RowError(f"the column `tools` is a list of tool objects; got {value!r:.60}")


def column_messages(value: Any, column: str) -> list[Message]:
    """A prompt column's value as chat messages. Raises `RowError`.

    Of a ShareGPT conversation the last words of the model's are no part of the prompt.
    """
    if isinstance(value, str):
        if not value.strip():
            raise RowError(f"the prompt column `{column}` is empty")
        return [{"role": "user", "content": value}]
    if is_chat(value):
        return [dict(item) for item in value]
    if is_sharegpt(value):
        return _prompt_of(value)
    if not value:
        raise RowError(f"the prompt column `{column}` is empty")
    shown = json.dumps(value, ensure_ascii=False)
    raise RowError(f"the prompt column `{column}` is a text or a list of chat messages, got {shown:.60}")


def _prompt_of(turns: Sequence[Mapping[str, Any]]) -> list[Message]:
    messages: list[Message] = []
    for number, turn in enumerate(turns):
        messages.append(_message(turn, number, messages))
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    return messages


def _message(turn: Mapping[str, Any], number: int, before: Sequence[Message]) -> Message:
    who, said = turn["from"], turn["value"]
    if not isinstance(said, str):
        raise RowError(f"turn {number + 1} of the conversation is no text, but {said!r:.40}")
    if who == CALL:
        return _call(said, number)
    if who in RESULTS:
        calls = before[-1].get("tool_calls") if before else None
        if not calls:
            raise RowError(f"turn {number + 1} of the conversation is a tool's, without a `{CALL}` before it")
        return {"role": "tool", "tool_call_id": calls[0]["id"], "content": said}
    if not isinstance(who, str) or who not in ROLES:
        raise RowError(f"turn {number + 1} of the conversation is from {who!r:.40}; known are {', '.join(ROLES)}")
    return {"role": ROLES[who], "content": said}


def _call(said: str, number: int) -> Message:
    """A call as LLaMA-Factory writes it: JSON with `name` and `arguments`."""
    try:
        call = parsed(said.encode(), "")
        name, arguments = call["name"], call["arguments"]
        if not isinstance(name, str):
            raise ValueError("a name is text")
    except (ValueError, LookupError, TypeError) as error:
        raise RowError(f"turn {number + 1} of the conversation is no call: JSON with `name`, `arguments`") from error
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    function = {"name": name, "arguments": text}
    made = {"id": f"call_{number + 1}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [made]}


def with_system(messages: Sequence[Message], system: str) -> list[Message]:
    """The messages after a system message, unless they begin with an instruction of their own."""
    if not system or (messages and messages[0].get("role") in ("system", "developer")):
        return list(messages)
    return [{"role": "system", "content": system}, *messages]
