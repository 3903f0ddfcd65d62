r"""Where a policy's final answer stands in what it wrote: one rule, the same for every grader.

1. Reasoning goes first: only what follows the last `</think>` counts; a `<think>` that is never closed leaves nothing.
2. The last `\boxed{...}` (or `\fbox{...}`), wherever others stand. Where the last one is not complete, there is no
   answer: an earlier box is not what the policy ended with.
3. Else what follows the last "Answer:" or "####", to the end of its line; else what follows the last "answer is". A
   "####" that further lines follow is a heading, and counts only where there is no other mark.

What a grader takes where there is neither, it says itself.
"""

from __future__ import annotations

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
#: White space is bounded: a policy can write more of it than a search that tries every split has time for.
_SAID = re.compile(r"\banswer\s{0,9}\*{0,2}\s{0,9}[:\uff1a=][ \t*]*", re.IGNORECASE)
_HASHES = re.compile(r"####[ \t*]*")
_IS = re.compile(r"\banswer\s{1,9}is\b\s*:?[ \t*]*", re.IGNORECASE)
#: A longer text after a mark is prose, not an answer.
MAX_MARKED_CHARACTERS = 2_000


def spoken(completion: str) -> str:
    """What the policy said, without its reasoning."""
    _, closed, after = completion.rpartition("</think>")
    text = after if closed else completion
    return text.partition("<think>")[0]


def boxed(text: str) -> str | None:
    """The content of the last box; the empty string where it is not complete, None where there is no box."""
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return None
    start = boxes[-1].end()
    if not text.startswith("{", start):
        return text[start : start + 1].strip()
    end = _closing(text, start)
    if end is None:
        return ""
    return text[start + 1 : end].strip()


def _closing(text: str, start: int) -> int | None:
    """Where the brace at `start` closes; escaped braces are characters."""
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None


def marked(text: str) -> str | None:
    """What follows the last mark, or None where there is none."""
    said, hashes, phrased = (_last_end(pattern, text) for pattern in (_SAID, _HASHES, _IS))
    if hashes > said and "\n" in text[hashes:].strip():  # a heading
        hashes = 0 if said or phrased else hashes
    end = max(said, hashes) or phrased
    if not end:
        return None
    rest = text[end : end + MAX_MARKED_CHARACTERS].lstrip()
    return rest.partition("\n")[0].strip().strip("*").strip()


def _last_end(pattern: re.Pattern[str], text: str) -> int:
    """Where the last match ends; 0 where there is none."""
    end = 0
    for match in pattern.finditer(text):
        end = match.end()
    return end


def final(completion: str) -> str | None:
    """The answer in its box or after its mark; None where there is neither."""
    text = spoken(completion)
    inside = boxed(text)
    return marked(text) if inside is None else inside
