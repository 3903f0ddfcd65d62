r"""Which part of a policy's answer is its program.

1. Reasoning goes first: only what follows the last `</think>` counts.
2. The last fenced block tagged as Python (`python`, `python3`, `py`, `py3`, in any case), else the last block without
   a tag, else nothing: a block tagged as anything else (`text`, `bash`, `cpp`) is no program.
3. An answer without any fence is a program as a whole.

Fences are CommonMark's: three or more backticks or tildes, closed by a line of at least as many of the same alone,
indented no more than three columns further; a shorter fence inside is content. A fence that is never closed runs to
the end, and is the last one. A block may be indented as a whole, in a list or quoted with `>`, and one that is tagged
as Python may begin at the end of a line of text. Blocks tagged `markdown` or `md` are
looked into. A tagged block without content is still the last one; an untagged one is a stray fence and does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .extract import spoken

PYTHON_TAGS = frozenset({"python", "python3", "py", "py3", "python2", "py2"})
LOOKED_INTO = frozenset({"markdown", "md"})
_FENCE = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)]) {1,4})?)(?P<fence>`{3,}|~{3,})(?P<info>.*)")
#: Not CommonMark's, but models write it: `**Solution:** ```python`.
_LATE = re.compile(r"(?P<indent>)(?P<fence>`{3,}) ?(?P<info>(?:python|py)[23]?[ \t\r]*)", re.IGNORECASE)
_QUOTE = re.compile(r" {0,3}> ?")
_TAG = re.compile(r"\{?\s*\.?([\w+#-]+)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the first word of its info string in lower case, and its lines."""

    tag: str
    text: str


def program_of(completion: str) -> str | None:
    """The program of an answer, or None where it has none."""
    text = spoken(completion)
    blocks = list(blocks_of(text))
    tagged = [block.text for block in blocks if block.tag in PYTHON_TAGS]
    if tagged:
        return tagged[-1] if tagged[-1].strip() else None
    untagged = [block.text for block in blocks if not block.tag and block.text.strip()]
    if untagged:
        return untagged[-1]
    return None if blocks or not text.strip() else text


def blocks_of(text: str, depth: int = 0) -> Iterator[Block]:
    """The fenced blocks of a text, in the order in which they end."""
    opening: re.Match[str] | None = None
    quoted = False
    lines: list[str] = []
    for line in text.split("\n"):
        quote = _QUOTE.match(line) if quoted or opening is None else None
        match = _FENCE.fullmatch(line, quote.end() if quote else 0)
        if opening is None:
            opening = match if match and _opens(match) else _late(line)
            quoted = quote is not None
        elif match and _closes(match, opening):
            yield from _blocks(opening, lines, depth)
            opening, lines = None, []
        else:
            lines.append(line[quote.end() :] if quote else line)
    if opening is not None:
        yield from _blocks(opening, lines, depth)


def _opens(match: re.Match[str]) -> bool:
    return not (match["fence"].startswith("`") and "`" in match["info"])


def _late(line: str) -> re.Match[str] | None:
    at = line.find("```")
    return _LATE.fullmatch(line, at) if at > 0 else None


def _closes(match: re.Match[str], opening: re.Match[str]) -> bool:
    if match["info"].strip() or match["fence"][0] != opening["fence"][0]:
        return False
    return len(match["fence"]) >= len(opening["fence"]) and _columns(match) <= _columns(opening) + 3


def _columns(match: re.Match[str]) -> int:
    return len(match["indent"].expandtabs(4))


def _blocks(opening: re.Match[str], lines: list[str], depth: int) -> Iterator[Block]:
    text = "\n".join(_outdented(line, len(opening["indent"])) for line in lines)
    tag = _TAG.match(opening["info"])
    name = tag[1].lower() if tag else ""
    if name in LOOKED_INTO and depth < 4:
        yield from blocks_of(text, depth + 1)
    else:
        yield Block(name, text + "\n" if lines else "")


def _outdented(line: str, width: int) -> str:
    """A line without the columns that its whole block is indented by."""
    blank = len(line) - len(line.lstrip(" \t"))
    return line[min(width, blank) :]
