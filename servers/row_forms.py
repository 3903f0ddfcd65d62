"""The forms that rows come in, and the way from each to another without loss.

`nemo-gym`: `responses_create_params` (Responses items, flat tools) beside the task data. `chat`: `messages` and
`tools` as chat completions have them, beside the task data. Columns: a prompt column of any name (`row_columns`).

What one form cannot say in the other's words (a reasoning item, an id, `strict`, a sampling parameter) travels in
the column `_gymwire`, beside the words it stands for: on the way back it is used where those are still what they
were, so that an edited row keeps its edit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from .row_columns import chat_row, is_chat, with_system
from .transcripts import chat_messages
from .types import PARAMS_KEY, Json, Message, Row, RowError

KEPT = "_gymwire"
MESSAGES, TOOLS = "messages", "tools"


class Form(StrEnum):
    NEMO_GYM = "nemo-gym"
    CHAT = "chat"
    COLUMNS = "columns"


def form_of(raw: Mapping[str, Any]) -> Form:
    """The form of a row, by the column that its prompt is in."""
    if PARAMS_KEY in raw:
        return Form.NEMO_GYM
    return Form.CHAT if _is_chat(raw.get(MESSAGES)) else Form.COLUMNS


def _is_chat(value: Any) -> bool:
    return value == [] or is_chat(value)


# NeMo Gym → chat


def to_chat(raw: Mapping[str, Any]) -> Json:
    """A NeMo Gym row as a chat row. Raises `RowError` where it is no NeMo Gym row, or its columns are in the way."""
    row = Row.from_json(raw)
    if isinstance(kept := raw.get(KEPT), Mapping) and MESSAGES in kept:
        return _chat_again(raw, kept)
    for column in (MESSAGES, TOOLS, KEPT):
        if column in raw and not (column == KEPT and kept is None):
            raise RowError(f"the row has task data in `{column}`, which a chat row needs; rename that column")
    said = _chat_words(row)
    chat = {**said, **_others(raw)}
    params = dict(raw[PARAMS_KEY])
    if _gym_words(said) != params:
        chat[KEPT] = {PARAMS_KEY: params}
    return chat


def _chat_again(raw: Mapping[str, Any], kept: Mapping[str, Any]) -> Json:
    """A row that was a chat row before: as it was, but for what was edited since."""
    was = {key: value for key, value in kept.items() if key in (MESSAGES, TOOLS)}
    params = raw[PARAMS_KEY]
    said = was if _gym_words(was) == params else _chat_words(Row.from_json(raw))
    return {**said, **_others(raw)}


def _chat_words(row: Row) -> Json:
    params = row.create_params()
    instructions = params.get("instructions")
    first: list[Message] = [{"role": "system", "content": instructions}] if isinstance(instructions, str) else []
    said: Json = {MESSAGES: [*first, *(_chat_message(message) for message in chat_messages(row.prompt))]}
    if isinstance(tools := params.get("tools"), list):
        said[TOOLS] = [_chat_tool(tool) for tool in tools if _is_function(tool)]
    return said


def _chat_message(message: Message) -> Message:
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_chat_part(part) for part in content]}


def _chat_part(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        return {"type": "text", "text": part.get("text")}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if "detail" in part else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    return dict(part)


def _is_function(tool: Mapping[str, Any]) -> bool:
    return tool.get("type", "function") == "function"


def _chat_tool(tool: Mapping[str, Any]) -> Json:
    if isinstance(tool.get("function"), Mapping):
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}


# Chat → NeMo Gym


def to_gym(raw: Mapping[str, Any]) -> Json:
    """A chat row as a NeMo Gym row. Raises `RowError` where it is no chat row."""
    if not _is_chat(raw.get(MESSAGES)):
        raise RowError(f"a chat row needs `{MESSAGES}`, a list of objects with `role`; got {raw.get(MESSAGES)!r:.80}")
    said = {key: raw[key] for key in (MESSAGES, TOOLS) if key in raw}
    params = _gym_words(said)
    kept = raw.get(KEPT)
    if isinstance(kept, Mapping) and isinstance(kept.get(PARAMS_KEY), Mapping):
        params = _params_again(said, params, kept[PARAMS_KEY])
        return {PARAMS_KEY: params, **_others(raw)}
    if kept is not None:
        raise RowError(f"the row has task data in `{KEPT}`, where conversions keep their own; rename that column")
    made = {PARAMS_KEY: params, **_others(raw)}
    if _chat_words(Row.from_json(made)) != said:
        made[KEPT] = said
    return made


def _params_again(said: Json, params: Json, was: Mapping[str, Any]) -> Json:
    """The parameters that the row had as a NeMo Gym row; what was edited since is taken from what it says now."""
    then = _chat_words(Row.from_json({PARAMS_KEY: was}))
    again = dict(was)
    if then[MESSAGES] != said[MESSAGES]:
        again.pop("instructions", None)  # it is among the messages now
        again["input"] = params["input"]
    if then.get(TOOLS) != said.get(TOOLS):
        again.pop("tools", None)
        again |= {key: params[key] for key in ("tools",) if key in params}
    return again


def _gym_words(said: Mapping[str, Any]) -> Json:
    params: Json = {"input": [item for message in said[MESSAGES] for item in _items(message)]}
    if isinstance(tools := said.get(TOOLS), list):
        params["tools"] = [_gym_tool(tool) for tool in tools]
    return params


def _items(message: Message) -> list[Json]:
    """One chat message in Responses items."""
    if message["role"] == "tool":
        content = message.get("content")
        output = content if isinstance(content, str) else _gym_content(content, "user")
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output}]
    calls = message.get("tool_calls")
    if message["role"] != "assistant" or not isinstance(calls, list) or not calls:
        return [_gym_message(message)]
    text = {key: value for key, value in message.items() if key != "tool_calls"}
    said = [_gym_message(text)] if message.get("content") else []
    return said + [_call_item(call) for call in calls if isinstance(call, Mapping)]


def _gym_message(message: Message) -> Json:
    return {**message, "content": _gym_content(message.get("content"), message["role"])}


def _gym_content(content: Any, role: str) -> Any:
    if not isinstance(content, list):
        return content
    return [_gym_part(part, "output_text" if role == "assistant" else "input_text") for part in content]


def _gym_part(part: Any, text_type: str) -> Any:
    if not isinstance(part, Mapping):
        return part
    if part.get("type") == "text":
        return {"type": text_type, "text": part.get("text")}
    image = part.get("image_url")
    if part.get("type") == "image_url" and isinstance(image, Mapping) and isinstance(image.get("url"), str):
        detail = {"detail": image["detail"]} if "detail" in image else {}
        return {"type": "input_image", "image_url": image["url"], **detail}
    return dict(part)


def _call_item(call: Mapping[str, Any]) -> Json:
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else {}
    arguments = inner.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"type": "function_call", "call_id": call.get("id"), "name": inner.get("name"), "arguments": text}


def _gym_tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        raise RowError(f"`{TOOLS}` is a list of tool objects; one is {tool!r:.60}")
    function = tool.get("function")
    return {"type": "function", **function} if isinstance(function, Mapping) else dict(tool)


# Any form


def as_gym(raw: Any, column: str = "") -> Json:
    """A row of any form as a NeMo Gym row; `column` names the prompt column. Raises `RowError`."""
    read = of_columns(raw, column)
    if form_of(read) is Form.CHAT:
        return to_gym(read)
    Row.from_json(read)
    return dict(read)


def as_chat(raw: Any, column: str = "") -> Json:
    """A row of any form as a chat row; `column` names the prompt column. Raises `RowError`."""
    read = of_columns(raw, column)
    return to_chat(read) if form_of(read) is Form.NEMO_GYM else dict(read)


def of_columns(raw: Any, column: str = "") -> Mapping[str, Any]:
    """A row with a prompt column as a chat row, any other as it is. Raises `RowError`."""
    if not isinstance(raw, Mapping):
        raise RowError(f"a row is a JSON object, got {type(raw).__name__}")
    if (form := form_of(raw)) is not Form.COLUMNS:
        if column and not (form is Form.CHAT and column == MESSAGES):
            raise RowError(f"it is a {form} row, whose prompt is no column `{column}`")
        return raw
    chat = chat_row(raw, column)
    if TOOLS in chat:
        chat[TOOLS] = [_chat_tool(tool) if _is_function(tool) else tool for tool in chat[TOOLS]]
    return chat


def given_system(raw: Mapping[str, Any], system: str) -> Json:
    """A NeMo Gym or chat row after a system message, unless it begins with an instruction of its own; what travels
    with it is given the same. Raises `RowError`."""
    given, kept = dict(raw), raw.get(KEPT)
    if isinstance(params := raw.get(PARAMS_KEY), Mapping):
        given[PARAMS_KEY] = _params_with_system(params, system)
    elif MESSAGES in raw:
        given[MESSAGES] = with_system(raw[MESSAGES], system)
    if isinstance(kept, Mapping):
        given[KEPT] = given_system(kept, system)
    return given


def _params_with_system(params: Mapping[str, Any], system: str) -> Json:
    if params.get("instructions"):
        return dict(params)
    return {**params, "input": with_system(Row.from_json({PARAMS_KEY: params}).prompt, system)}


def _others(raw: Mapping[str, Any]) -> Json:
    return {key: value for key, value in raw.items() if key not in (PARAMS_KEY, MESSAGES, TOOLS, KEPT)}
