"""Text to ids, with control tokens where the template put them and nowhere else.

A tokenizer reads `<|im_end|>` or `</tool_response>` as a control token wherever it stands, so text from a tool could
forge a turn. Here such strings are first broken up by a private character (`Guard.broken`), then the rendered text is
split at the control tokens that are left, which are the template's own; the pieces between them are encoded by a
copy of the tokenizer that knows no control tokens, without the private character.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tokenizers import Encoding, Tokenizer
from transformers import PreTrainedTokenizerBase

_PRIVATE = [chr(code) for code in range(0xE000, 0xE100)]


class TemplateError(ValueError):
    """A tokenizer or chat template that gymwire cannot train with; the message names the fix."""


class Guard:
    """Keeps the control strings in a few texts from being read as control tokens."""

    def __init__(self, pattern: re.Pattern[str], texts: Iterable[str]) -> None:
        taken = set("".join(texts))
        self._pattern = pattern
        self.mark = next(char for char in _PRIVATE if char not in taken)

    def broken(self, text: str) -> str:
        """The text with every control string in it broken up."""
        while self._pattern.search(text) is not None:
            text = self._pattern.sub(lambda found: found.group()[0] + self.mark + found.group()[1:], text)
        return text


class Encoder:
    """A tokenizer's two halves: its control tokens, and the encoding of everything else."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        backend: Any = getattr(tokenizer, "backend_tokenizer", None)
        if not isinstance(backend, Tokenizer):
            raise TemplateError("the model's tokenizer has no tokenizer.json; convert it to a fast tokenizer first")
        self.tokenizer = tokenizer
        self._backend: Tokenizer = backend
        self._plain = _without_control(backend)
        added = backend.get_added_tokens_decoder()
        self.control = {token.content: index for index, token in added.items()}
        self._strips = {token.content: (token.lstrip, token.rstrip) for token in added.values()}
        self._ids = frozenset(self.control.values())
        longest_first = sorted(self.control, key=len, reverse=True)
        self.pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def guard(self, texts: Iterable[str]) -> Guard:
        return Guard(self.pattern, texts)

    def plain(self, text: str) -> list[int]:
        """Ids of text in which every character is only a character."""
        ids = self._encode(text).ids
        if self._ids.isdisjoint(ids):
            return ids
        return [index for char in text for index in self._encode(char).ids]

    def rendered(self, text: str, mark: str = "") -> list[int]:
        """Ids of a template's output; control strings broken up by `mark` are plain text."""
        ids: list[int] = []
        for piece in self._pieces(text):
            if piece in self.control:
                ids.append(self.control[piece])
            elif piece:
                ids += self.plain(piece.replace(mark, "") if mark else piece)
        return ids

    def _pieces(self, text: str) -> Iterator[str]:
        """Text and control tokens in turn; a token that eats the space beside it has eaten it."""
        position, eats = 0, False
        for found in self.pattern.finditer(text):
            lstrip, rstrip = self._strips[found.group()]
            piece = text[position : found.start()]
            piece = piece.lstrip() if eats else piece
            yield piece.rstrip() if lstrip else piece
            yield found.group()
            position, eats = found.end(), rstrip
        yield text[position:].lstrip() if eats else text[position:]

    def text(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens included."""
        return self._backend.decode(ids, skip_special_tokens=False)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where in a text each of its ids begins and ends."""
        return self._encode(text).offsets

    def _encode(self, text: str) -> Encoding:
        try:
            return self._plain.encode(text, add_special_tokens=False)
        except TypeError:  # half of a surrogate pair is no character
            return self._plain.encode(text.encode("utf-8", "replace").decode(), add_special_tokens=False)


def _without_control(backend: Tokenizer) -> Tokenizer:
    state: dict[str, Any] = json.loads(backend.to_str())
    state |= {"added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    return Tokenizer.from_str(json.dumps(state))
