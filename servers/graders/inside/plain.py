"""Plain built-in values as JSON text: what crosses between a program's job, our process and a tests job.

Exactly these cross: None, bool, int of any size, float, complex, str, bytes, bytearray, list, tuple, set, frozenset,
dict, and objects derived from one of them, as their base (a Counter is a dict). An iterator (generator, map, zip,
range, dict views) crosses as an iterator over its first items. A JSON list is `[tag, ...]`; scalars stand for
themselves. An object of the program crosses only as a handle, where `handle` gives it one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from itertools import islice
from typing import Any

#: Integers beyond it travel in hexadecimal: decimal digits cost quadratic time, and Python refuses long ones.
EXACT = 1 << 53
MAX_DEPTH = 150
MAX_ITERATED = 100_000
SEQUENCES: tuple[tuple[str, Any], ...] = (("list", list), ("tuple", tuple), ("set", set), ("frozenset", frozenset))
ITERATORS = (Iterator, range, KeysView, ItemsView, ValuesView)
MAKERS: dict[str, Callable[[Any], Any]] = {**dict(SEQUENCES), "iterator": iter}


class NotPlain(ValueError):
    """A value that cannot cross, or text that is no value."""


def dumps(value: Any, handle: Callable[[Any], int | None] = lambda _: None) -> bytes:
    """One line of ASCII. Raises `NotPlain`."""
    return json.dumps(encode(value, handle), separators=(",", ":")).encode("ascii")


def encode(value: Any, handle: Callable[[Any], int | None] = lambda _: None, depth: int = 0) -> Any:
    """The JSON form of a value; `handle` numbers objects that may cross as handles. Raises `NotPlain`."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return value if -EXACT < value < EXACT else ["int", hex(value)]
    if depth > MAX_DEPTH:
        raise NotPlain("a value is nested too deeply")

    def inner(item: Any) -> Any:
        return encode(item, handle, depth + 1)

    for tag, kind in SEQUENCES:
        if isinstance(value, kind):
            return [tag, *map(inner, kind(value))]
    if isinstance(value, dict):
        return ["dict", *([inner(key), inner(item)] for key, item in value.items())]
    return _rare(value, handle, inner)


def _rare(value: Any, handle: Callable[[Any], int | None], inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, float):
        return ["float", float.hex(value)]
    if isinstance(value, int):
        return inner(int(value))
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, complex):
        return ["complex", float.hex(value.real), float.hex(value.imag)]
    if isinstance(value, bytes | bytearray):
        return ["bytes" if isinstance(value, bytes) else "bytearray", bytes(value).hex()]
    number = handle(value)
    if number is not None:
        return ["handle", number]
    if isinstance(value, ITERATORS):
        return ["iterator", *map(inner, islice(value, MAX_ITERATED))]
    raise NotPlain(f"a {type(value).__name__} is not a plain built-in value")


def decode(raw: Any, object_of: Callable[[int], Any] | None = None, depth: int = MAX_DEPTH) -> Any:
    """The value of its JSON form, no deeper than `depth`; `object_of`: what a handle stands for. Raises `NotPlain`.

    For use inside jobs alone: hash collisions that a program chose can make a set slow to build.
    """
    if not isinstance(raw, list):
        return raw
    if depth < 0:
        raise NotPlain("a value is nested too deeply")
    try:
        return _decode_tagged(raw[0], raw[1:], object_of, depth - 1)
    except (TypeError, ValueError, LookupError, RecursionError, OverflowError) as error:
        raise NotPlain(f"no plain value: {error}") from error


def _decode_tagged(tag: Any, parts: list[Any], object_of: Callable[[int], Any] | None, depth: int) -> Any:
    if tag in MAKERS:
        return MAKERS[tag]([decode(part, object_of, depth) for part in parts])
    if tag == "dict":
        return {decode(key, object_of, depth): decode(item, object_of, depth) for key, item in parts}
    if tag == "int":
        return int(parts[0], 16)
    if tag == "float":
        return float.fromhex(parts[0])
    if tag == "complex":
        return complex(float.fromhex(parts[0]), float.fromhex(parts[1]))
    if tag in ("bytes", "bytearray"):
        return (bytes if tag == "bytes" else bytearray).fromhex(parts[0])
    if tag == "handle" and object_of is not None:
        return object_of(parts[0])
    raise NotPlain(f"no plain value is tagged {tag!r:.40}")


def allow_long_integers() -> None:
    """Programs of contests print and read integers of more than 4,300 digits; the job's limits bound what they cost."""
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)
