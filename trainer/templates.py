"""A model's own chat template, as a source of ids that are only ever appended.

What a template puts between two turns is found by rendering a small dialogue and reading what stands behind the end
of the assistant's turn, so the line feed after the end-of-turn token is there although generation stopped before it.
That this equals the fully rendered dialogue is checked when a template is taken, and refused with a sentence where
it does not hold: no tool support, an unknown form of calls, earlier turns that change, reasoning that is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..adapters.calls import Keep, ParsedTurn, parse_hermes
from ..adapters.calls_xml import parse_xml
from ..adapters.reasoning import split_reasoning
from ..servers.answers import sanitize
from ..servers.types import Json, Message, Tool, text_of
from .encoding import Encoder, TemplateError

Parse = Callable[[str, Sequence[Tool]], ParsedTurn]

_ASKED: Message = {"role": "user", "content": "question"}
_SAID: Message = {"role": "assistant", "content": "answer"}
_PROBE = Tool("probe_tool", "Probe.", {"type": "object", "properties": {"alpha": {"type": "string"}}})
_PROBED = (_PROBE.name, {"alpha": "beta"})
_THOUGHT = "considered"
_REASONED = f"<think>\n{_THOUGHT}\n</think>\n\nanswer"
_FIX = (
    "give the model a template that leaves earlier turns as they were (for many models "
    "`trl.chat_template_utils.get_training_chat_template` has one)"
)


def _call(number: int, content: str = "") -> Message:
    function = dict(zip(("name", "arguments"), _PROBED, strict=True))
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": f"call_{number}", "type": "function", "function": function}],
    }


def _result(number: int) -> Message:
    return {"role": "tool", "tool_call_id": f"call_{number}", "name": _PROBE.name, "content": "gamma"}


class ChatTemplate:
    """A tokenizer with its template. `options` go to every rendering, such as `enable_thinking=False`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, **options: Any) -> None:
        self.tokenizer = tokenizer
        self.encoder = Encoder(tokenizer)
        self._options = options
        self.end_of_turn = self._find_end_of_turn()
        self.end_of_turn_id = self.encoder.control[self.end_of_turn]
        #: End-of-turn tokens up to the end of the assistant's first turn; a template may add a system message.
        self._ends = self._render([_ASKED, _SAID], (), generate=False).count(self.end_of_turn)
        opening = self._render([_ASKED], ())
        self._thinks = opening.rstrip().endswith("<think>")
        self.parser: Parse | None = None
        self.tool_problem = self._check_tools()
        reasoned = {**_SAID, "content": _REASONED}
        said = reasoned if self._thinks else _SAID
        self.user_problem = self._check_reasoning([reasoned, _ASKED], ()) or self._check(
            [_ASKED, said, _ASKED, said, _ASKED], ()
        )

    @property
    def stop_token_ids(self) -> list[int]:
        """Ids that end a turn."""
        eos = self.tokenizer.eos_token_id
        return sorted({self.end_of_turn_id, *([eos] if isinstance(eos, int) else [])})

    def require(self, *, tools: bool, user_turns: bool) -> None:
        """Raise `TemplateError` where the template cannot carry such dialogues."""
        for wanted, problem in ((tools, self.tool_problem), (user_turns, self.user_problem)):
            if wanted and problem:
                raise TemplateError(problem)

    # ---- ids

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        """Ids of a prompt, up to where the assistant begins."""
        return self._ids(messages, tools, lambda text: text)

    def between(self, messages: Sequence[Message]) -> list[int]:
        """Ids that follow an assistant's turn: these messages, up to where the assistant begins again."""
        before: list[Message] = [_ASKED, _calls_of(messages)]
        return self._ids([*before, *messages], (), self._after_first_answer)

    def turn(self, message: Message) -> list[int]:
        """Ids of an assistant's turn, as the template writes it, its end included: for scripted policies."""
        after = [_result_of(call) for call in message.get("tool_calls") or ()] or [_ASKED]
        before = len(self._render([_ASKED], ()))

        def cut(text: str) -> str:
            return text[before : self._end_after(text, before)]

        return self._ids([_ASKED, message, *after], (), cut)

    def _ids(self, messages: Sequence[Message], tools: Sequence[Tool], cut: Callable[[str], str]) -> list[int]:
        shown = [_textual(message) for message in messages]
        listed = [tool.as_chat() for tool in tools]
        guard = self.encoder.guard([*(message["content"] for message in shown), str(listed)])
        guarded = [_guarded(message, guard.broken) for message in shown]
        described = [_deep(tool, guard.broken) for tool in listed]
        return self.encoder.rendered(cut(self._render(guarded, described)), guard.mark)

    def _after_first_answer(self, text: str) -> str:
        """What stands behind the assistant's first turn."""
        position = 0
        for _ in range(self._ends):
            position = self._end_after(text, position)
        return text[position:]

    def _end_after(self, text: str, position: int) -> int:
        """Where the next end-of-turn token ends."""
        found = text.find(self.end_of_turn, position)
        if found < 0:
            raise TemplateError(f"the chat template does not end every turn with {self.end_of_turn}; {_FIX}")
        return found + len(self.end_of_turn)

    def _render(self, messages: Sequence[Message], tools: Sequence[Json], *, generate: bool = True) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                tokenize=False,
                add_generation_prompt=generate,
                **self._options,
            )
        except Exception as error:  # a template is somebody's program, and may raise anything
            raise TemplateError(f"the model's chat template cannot render the dialogue: {error}") from error
        return str(text)

    # ---- texts

    def text(self, ids: Sequence[int]) -> str:
        """A sampled turn's text, without the token that ended it."""
        ended = bool(ids) and ids[-1] in self.stop_token_ids
        return self.encoder.text(ids[:-1] if ended else ids)

    def parse(self, text: str, tools: Sequence[Tool]) -> ParsedTurn:
        """What a turn says and which calls it makes; reasoning is left out."""
        _, said = split_reasoning(text, opened=self._thinks)
        return self.parser(said, tools) if self.parser is not None else ParsedTurn(said.strip())

    def limit(self, text: str, max_tokens: int, keep: Keep = "both") -> str:
        """The text, sanitized and at most `max_tokens` long; where it was cut, which end was kept is said.

        The line that says so counts towards the limit, unless the limit is shorter than that line.
        """
        text = sanitize(text)
        offsets = self.encoder.offsets(text)
        if len(offsets) <= max_tokens:
            return text
        left = max(max_tokens - len(self.encoder.plain(f"\n{_note(keep, max_tokens, len(offsets))}\n")), 0)
        while True:
            cut = _cut(text, offsets, left, keep)
            over = len(self.encoder.offsets(cut)) - max_tokens
            if over <= 0 or left == 0:
                return cut
            left = max(left - over, 0)

    # ---- checks

    def _find_end_of_turn(self) -> str:
        if not self.tokenizer.chat_template:
            raise TemplateError("the model's tokenizer has no chat template; give it one")
        _, said, after = self._render([_ASKED, _SAID], (), generate=False).rpartition(str(_SAID["content"]))
        if not said:
            raise TemplateError("the chat template does not show what the assistant said; use one for plain texts")
        found = self.encoder.pattern.search(after)
        if found is None or after[: found.start()].strip():
            raise TemplateError("the chat template ends the assistant's turn with no control token; use one that does")
        return found.group()

    def _check_tools(self) -> str:
        """Why dialogues with tools cannot be carried, or the empty string; finds the form of calls."""
        tools = (_PROBE.as_chat(),)
        try:
            if _PROBE.name not in self._render([_ASKED], tools):
                return "the chat template does not show the tools; use one with tool support"
            called = self._render([_ASKED, _call(0), _result(0)], tools)
        except TemplateError as error:
            return f"{error}; use a template with tool support"
        self.parser = _parser_of(called)
        if self.parser is None:
            return (
                "the chat template writes tool calls in a form that gymwire does not read; it reads Hermes "
                '(<tool_call>{"name": ..., "arguments": ...}</tool_call>) and Qwen3-Coder XML (<function=...>)'
            )
        if "gamma" not in called:
            return "the chat template does not show what a tool answered; use one with tool support"
        contents = (_REASONED, _REASONED) if self._thinks else ("", "answer")
        dialogue = [_ASKED, _call(0, contents[0]), _result(0), _call(1, contents[1]), _result(1)]
        return self._check_reasoning([_call(0, _REASONED), _result(0)], tools) or self._check(dialogue, tools)

    def _check(self, dialogue: Sequence[Message], tools: Sequence[Json]) -> str:
        """Whether the dialogue's prefixes render as its prefix, and its ids can be made piece by piece."""
        try:
            rendered = [self._render(dialogue[:end], tools) for end in range(1, len(dialogue) + 1, 2)]
            for shorter, longer in pairwise(rendered):
                if not longer.startswith(shorter):
                    return f"the chat template is not append-only: a longer dialogue changes earlier turns; {_FIX}"
            ids = self.encoder.rendered(rendered[0])
            for turn, answer in zip(dialogue[1::2], dialogue[2::2], strict=True):
                ids += [*self.turn(turn), *self.between([answer])]
        except TemplateError as error:
            return str(error)
        whole = self.tokenizer(rendered[-1], add_special_tokens=False)["input_ids"]
        if ids != whole:
            return f"the tokenizer gives other ids to a dialogue than to its turns one after another; {_FIX}"
        return ""

    def _check_reasoning(self, turns: Sequence[Message], tools: Sequence[Json]) -> str:
        if _THOUGHT not in self._render([_ASKED, *turns], tools):
            return f"the chat template is not append-only: it drops the reasoning of earlier turns; {_FIX}"
        return ""


def _parser_of(called: str) -> Parse | None:
    """The parser that reads the call of the probe as the template wrote it."""
    for parser in (_parse_hermes, parse_xml):
        if any((call.name, call.arguments) == _PROBED for call in parser(called, [_PROBE]).calls):
            return parser
    return None


def _parse_hermes(text: str, tools: Sequence[Tool]) -> ParsedTurn:
    return parse_hermes(text)


def _note(keep: Keep, kept: int, total: int) -> str:
    if keep == "both":
        return f"[cut: the first {kept - kept // 2} and the last {kept // 2} of {total} tokens]"
    return f"[cut: the {'first' if keep == 'start' else 'last'} {kept} of {total} tokens]"


def _cut(text: str, offsets: Sequence[tuple[int, int]], kept: int, keep: Keep) -> str:
    """The text with so many of its tokens; no character is cut in two."""
    total = len(offsets)
    first = kept if keep == "start" else 0 if keep == "end" else kept - kept // 2
    last = kept - first
    head, tail = text[: offsets[first][0]], text[offsets[total - last - 1][1] :]
    return "\n".join(part for part in (head, _note(keep, kept, total), tail) if part)


def _textual(message: Mapping[str, Any]) -> Message:
    """The message with its content as one text, as templates want it."""
    return {**message, "content": text_of(message.get("content"))}


def _guarded(message: Message, broken: Callable[[str], str]) -> Message:
    """What a user or a tool says is only text; system messages and the assistant's own may hold control tokens."""
    return {**message, "content": broken(message["content"])} if message["role"] in ("user", "tool") else message


def _deep(value: Any, broken: Callable[[str], str]) -> Any:
    """A tool's description with every text in it guarded."""
    if isinstance(value, str):
        return broken(value)
    if isinstance(value, Mapping):
        return {broken(str(key)): _deep(item, broken) for key, item in value.items()}
    return [_deep(item, broken) for item in value] if isinstance(value, list | tuple) else value


def _calls_of(messages: Sequence[Message]) -> Message:
    """An assistant's turn that these messages may follow."""
    ids = [str(message.get("tool_call_id") or f"call_{number}") for number, message in enumerate(messages)]
    if messages[0]["role"] != "tool":
        return _SAID
    return {**_SAID, "tool_calls": [{**_call(0)["tool_calls"][0], "id": call_id} for call_id in ids]}


def _result_of(call: Mapping[str, Any]) -> Message:
    return {"role": "tool", "tool_call_id": call.get("id", ""), "name": call["function"]["name"], "content": "gamma"}
