"""A dialogue in two forms: what the endpoint is sent, and what the session's grader reads.

With native tools the two are alike. With a text parser the tools stand in the system prompt, calls are text of the
assistant's and results are text of the user's. Reasoning is kept for the record alone: neither the grader nor a later
request sees it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...servers.answers import invalid_arguments
from ...servers.transcripts import calls_in, chat_messages
from ...servers.types import Json, Message, Tool, ToolResult, text_of
from ..calls import (
    UNNAMED,
    BadToolCall,
    ParsedCall,
    ParsedTurn,
    encode_arguments,
    parse_hermes,
    read_arguments,
    result_for_history,
)
from ..calls_xml import parse_xml
from ..reasoning import split_reasoning
from .answer import Answer, NativeCall

Parse = Callable[[str, Sequence[Tool]], ParsedTurn]
#: Names that every endpoint takes back in a history; a model may have made up any other.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _hermes(text: str, tools: Sequence[Tool]) -> ParsedTurn:
    return parse_hermes(text)


def _auto(text: str, tools: Sequence[Tool]) -> ParsedTurn:
    """Either form, told by its tags."""
    return parse_xml(text, tools) if "<function=" in text else parse_hermes(text)


NATIVE = "none"
PARSERS: dict[str, Parse] = {"auto": _auto, "hermes": _hermes, "xml": parse_xml}

HERMES_FORM = """To call a tool, write a JSON object with its name and arguments between tags, once for each call:
<tool_call>
{"name": "TOOL", "arguments": {"KEY": "VALUE"}}
</tool_call>"""
XML_FORM = """To call a tool, write its name and each argument in tags of their own, once for each call:
<tool_call>
<function=TOOL>
<parameter=KEY>
VALUE
</parameter>
</function>
</tool_call>"""
ABOUT_TOOLS = """You can call these tools. Each line describes one, with a JSON schema of its arguments:
<tools>
{tools}
</tools>
{form}
Then stop: the results come in <tool_response> tags. An answer without a call ends your turn."""


class Dialogue:
    """One episode's messages. `parser` is `none` for native tools, else a name of `PARSERS`."""

    def __init__(self, prompt: Sequence[Message], tools: Sequence[Tool], parser: str = NATIVE) -> None:
        self.tools, self.parser = tools, parser
        #: After the prompt, as graders read them.
        self.messages: list[Message] = []
        #: What the model thought, by the place of its message.
        self.thoughts: dict[int, str] = {}
        self.turns = 0
        shown = chat_prompt(prompt)
        self.sent: list[Message] = shown if parser == NATIVE else _described(shown, tools, parser)
        self._names = {tool.name for tool in tools}
        self._ids: list[str] = []  # of the last turn's calls

    @property
    def offered(self) -> Sequence[Tool]:
        """The tools that go into a request."""
        return self.tools if self.parser == NATIVE else ()

    def take(self, answer: Answer) -> ParsedTurn:
        """Add the model's turn, and answer what it calls."""
        self.turns += 1
        said = self._said(answer)
        parsed = self._parsed(said, answer.calls)
        self._ids = _unique_ids(answer.calls, len(parsed.calls), self.turns)
        message = parsed.as_message(self._ids)
        self.messages.append(message)
        self.sent.append(self._native(message) if self.parser == NATIVE else {"role": "assistant", "content": said})
        return parsed

    def take_cut(self, answer: Answer) -> None:
        """Add a turn that a token budget cut: what is half said is not acted upon."""
        self.turns += 1
        self.messages.append({"role": "assistant", "content": self._said(answer)})

    def tell(self, results: Iterable[ToolResult]) -> None:
        """Add the results of the last turn's calls, in their order."""
        told = [result_for_history(result, call_id) for result, call_id in zip(results, self._ids, strict=True)]
        self.messages += told
        self.sent += told if self.parser == NATIVE else [_responses(told)]

    def ask(self, prompt: str) -> None:
        """Add the next prompt of an environment that has several."""
        message: Message = {"role": "user", "content": prompt}
        self.messages.append(message)
        self.sent.append(message)

    def record(self) -> list[Message]:
        """The messages with what the model thought."""
        return [
            {**message, "reasoning_content": self.thoughts[place]} if place in self.thoughts else message
            for place, message in enumerate(self.messages)
        ]

    # ---- details

    def _said(self, answer: Answer) -> str:
        thought, said = split_reasoning(answer.content)
        thought = "\n".join(part for part in (answer.reasoning.strip(), thought) if part)
        if thought:
            self.thoughts[len(self.messages)] = thought
        return said.strip() if thought else said

    def _parsed(self, said: str, calls: Sequence[NativeCall]) -> ParsedTurn:
        if calls:
            return ParsedTurn(said, tuple(map(read_call, calls)))
        return ParsedTurn(said) if self.parser == NATIVE else PARSERS[self.parser](said, self.tools)

    def _native(self, message: Message) -> Message:
        """The message as any endpoint takes it back, whatever names the model made up."""
        calls = message.get("tool_calls")
        return {**message, "tool_calls": [self._named(call) for call in calls]} if calls else message

    def _named(self, call: Mapping[str, Any]) -> Json:
        function = call["function"]
        known = function["name"] in self._names or _PLAIN_NAME.fullmatch(function["name"])
        return {**call, "function": {**function, "name": function["name"] if known else UNNAMED}}


def read_call(call: NativeCall) -> ParsedCall:
    """A native call; what cannot be read is the model's mistake, and its error result says so."""
    if not call.name:
        return ParsedCall("", error="The tool call names no tool.")
    try:
        arguments = read_arguments(call.arguments)
        encode_arguments(arguments)
    except BadToolCall as error:
        return ParsedCall(call.name, error=invalid_arguments(call.name, str(error)).result.text)
    return ParsedCall(call.name, arguments)


def _unique_ids(calls: Sequence[NativeCall], count: int, turn: int) -> list[str]:
    """The endpoint's own ids where each call has one, else ours."""
    own = [call.id for call in calls]
    if count and len(own) == count and all(own) and len(set(own)) == count:
        return own
    return [f"call_{turn}_{number}" for number in range(count)]


# ---- the prompt


def chat_prompt(prompt: Iterable[Message]) -> list[Message]:
    """A row's prompt as chat messages; Responses items and parts take their chat form."""
    return [_chat(message) for message in chat_messages(prompt)]


def _chat(message: Message) -> Message:
    role = "system" if message["role"] == "developer" else message["role"]  # few templates know developers
    said = {key: value for key, value in message.items() if key != "tool_calls"}
    calls = calls_in(message)
    return {**said, "role": role, "content": _content(message.get("content"))} | (
        {"tool_calls": calls} if calls else {}
    )


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content if isinstance(content, str) else text_of(content)
    parts = [_part(part) for part in content]
    if all(isinstance(part, Mapping) and part.get("type") == "text" for part in parts):
        return text_of(parts)
    return parts


def _part(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": str(part.get("text") or "")}
    if kind == "input_image":
        picture = {"url": part.get("image_url"), "detail": part.get("detail")}
        return {"type": "image_url", "image_url": {key: value for key, value in picture.items() if value}}
    return part


# ---- tools as text


def _described(messages: Sequence[Message], tools: Sequence[Tool], parser: str) -> list[Message]:
    """The prompt with the tools in its system message, and with earlier calls and results as text."""
    textual = [_textual(message) for message in messages]
    if not tools:
        return textual
    lines = "\n".join(json.dumps(tool.as_chat(), ensure_ascii=False) for tool in tools)
    about = ABOUT_TOOLS.format(tools=lines, form=XML_FORM if parser == "xml" else HERMES_FORM)
    if textual and textual[0]["role"] == "system":
        first = textual[0]
        return [{**first, "content": f"{text_of(first['content'])}\n\n{about}"}, *textual[1:]]
    return [{"role": "system", "content": about}, *textual]


def _textual(message: Message) -> Message:
    if message["role"] == "tool":
        return _responses([message])
    calls = message.get("tool_calls")
    if not calls:
        return message
    said = [text_of(message.get("content")), *(_call_text(call["function"]) for call in calls)]
    return {"role": "assistant", "content": "\n".join(filter(None, said))}


def _call_text(function: Mapping[str, Any]) -> str:
    try:
        arguments = read_arguments(function.get("arguments"))
    except BadToolCall:
        arguments = {}
    called = {"name": function.get("name"), "arguments": arguments}
    return f"<tool_call>\n{json.dumps(called, ensure_ascii=False)}\n</tool_call>"


def _responses(results: Iterable[Message]) -> Message:
    texts = [f"<tool_response>\n{text_of(result['content'])}\n</tool_response>" for result in results]
    return {"role": "user", "content": "\n".join(texts)}
