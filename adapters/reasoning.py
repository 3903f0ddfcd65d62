"""What a model thought, apart from what it said: a call inside `<think>` was considered and not made."""

from __future__ import annotations

import re

_OPEN, _CLOSE = "<think>", "</think>"
_MARK = re.compile(r"<think>|</think>|<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)


def split_reasoning(text: str, *, opened: bool = False) -> tuple[str, str]:
    """The reasoning of a turn, and the turn without it.

    `opened`: the prompt itself began the reasoning, so the text starts inside. A closing tag before any opening one
    says the same. Reasoning without an end takes the rest: a turn that was cut there has said nothing. Tags inside a
    tool call are part of the call.
    """
    if opened or _closes_first(text):
        thought, _, text = text.partition(_CLOSE)
    else:
        thought = ""
    thoughts, said, position = [thought], [], 0
    while (mark := _MARK.search(text, position)) is not None:
        if mark.group() != _OPEN:
            said.append(text[position : mark.end()])
            position = mark.end()
            continue
        said.append(text[position : mark.start()])
        end = text.find(_CLOSE, mark.end())
        thoughts.append(text[mark.end() : end if end >= 0 else len(text)])
        position = end + len(_CLOSE) if end >= 0 else len(text)
    said.append(text[position:])
    return "\n".join(part.strip() for part in thoughts if part.strip()), "".join(said)


def _closes_first(text: str) -> bool:
    """Whether the first tag outside of calls is a closing one."""
    mark = next((mark.group() for mark in _MARK.finditer(text) if not mark.group().startswith("<tool_call>")), "")
    return mark == _CLOSE
