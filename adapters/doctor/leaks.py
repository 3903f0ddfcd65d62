"""Whether an answer tells what the policy must not know: values of a row's task data that its prompt does not say.

Texts are looked for as they are. Numbers, truth values and short texts are everywhere by chance, so they count only
under their own name. What a tool tells is the environment's affair, except where it is the answer itself: fields
that are named like one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...servers.labels import MIN_TEXT, Private
from .reading import decoded


def leaked(answer: Any, privates: Iterable[Private], known: str, *, labels_only: bool = False) -> list[Private]:
    """Which private values an answer tells. `answer` is decoded JSON or text, `known` what the policy was shown."""
    pairs = list(scalars(decoded(answer) if isinstance(answer, str) else answer))
    texts = [str(part) for pair in pairs for part in pair] + ([answer] if isinstance(answer, str) else [])
    found = []
    for private in privates:
        if labels_only and not private.is_label:
            continue
        if _says(texts, private, known) or any(_is_pair(private, name, value) for name, value in pairs):
            found.append(private)
    return found


def _says(texts: Iterable[str], private: Private, known: str) -> bool:
    value = private.value
    if not isinstance(value, str) or len(value) < MIN_TEXT or value in known:
        return False
    return any(value in text for text in texts)


def _is_pair(private: Private, name: str, value: Any) -> bool:
    return name == private.name and type(value) is type(private.value) and value == private.value


def scalars(answer: Any) -> Iterator[tuple[str, Any]]:
    """Every scalar, and the name it stands under; an answer may be nested deeper than Python's stack."""
    waiting = [("", answer)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(name, inner) for inner in value]
        else:
            yield name, value
