"""Whether an answer tells what the policy must not know: values of a row's task data that its prompt does not say.

Texts are looked for as they are. Numbers, truth values and short texts are everywhere by chance, so they count only
under their own name. What a tool tells is the environment's affair, except where it is the answer itself: fields
that are named like one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...servers.labels import MIN_TEXT, Private


def leaked(answer: Any, privates: Iterable[Private], known: str, *, labels_only: bool = False) -> list[Private]:
    """Which private values an answer tells. `answer` is decoded JSON or text, `known` what the policy was shown."""
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    pairs = list(_pairs(_decoded(answer)))
    found = []
    for private in privates:
        if labels_only and not private.is_label:
            continue
        if _says(text, private, known) or any(_is_pair(private, name, value) for name, value in pairs):
            found.append(private)
    return found


def _says(text: str, private: Private, known: str) -> bool:
    value = private.value
    return isinstance(value, str) and len(value) >= MIN_TEXT and value in text and value not in known


def _is_pair(private: Private, name: str, value: Any) -> bool:
    return name == private.name and type(value) is type(private.value) and value == private.value


def _decoded(answer: Any) -> Any:
    if not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer)
    except ValueError:
        return None


def _pairs(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _pairs(inner, str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _pairs(inner, name)
    elif name:
        yield name, value
