"""Inside a job: loads a program and calls what it defines, on plain values that arrive and with plain values back.

Conversation: we say `ready`, load the program and say `loaded` (or `["broken", text]`), then answer each line:
`["describe", names]` `["constant", name]` `["call", name, arguments, keywords, whether to look back]`
`["method", handle, name, arguments, keywords, whether to look back]` `["attribute", handle, name]`
`["assign", handle, name, value]`
with `["value", value]`, `["callable"]`, `["raised", type, text]` or `["not plain", text]`. Where it is asked to look
back, a call that returned None adds to its answer what its arguments are by now, None for those that cannot change.
An object of a class that was called by name stays here; a handle stands for it. All of it is under the program's
control if it likes: what it can forge is its own answers, and those are compared elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, BinaryIO

from .plain import NotPlain, allow_long_integers, decode, dumps

PROGRAM = "solution.py"
#: What the program's names are to begin with, where that file is there.
PRELUDE = "prelude.py"
MAX_TEXT = 300


def run() -> None:
    """Serve the conversation until it ends."""
    listen, speak = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):  # the program's own reading and printing is no part of the conversation
        os.dup2(nowhere, fd)
    _say(speak, b"ready")
    allow_long_integers()
    try:
        program = _load()
    except BaseException as error:  # whatever a program raises while it is loaded is its own
        _say(speak, json.dumps(["broken", _told(error)]).encode())
        return
    _say(speak, b"loaded")
    answers = Answers(program)
    for line in listen:
        _say(speak, answers.answer(json.loads(line)))


def _say(speak: BinaryIO, text: bytes) -> None:
    speak.write(text + b"\n")
    speak.flush()


def _load() -> ModuleType:
    with open(PROGRAM, "rb") as file:
        code = compile(file.read(), PROGRAM, "exec", dont_inherit=True)
    program = ModuleType("solution")  # no `__main__`: what a program does only when it is run stays undone
    sys.modules["solution"] = program
    if os.path.exists(PRELUDE):
        with open(PRELUDE, "rb") as file:
            exec(compile(file.read(), PRELUDE, "exec"), program.__dict__)
    exec(code, program.__dict__)
    return program


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:MAX_TEXT]


class Answers:
    """Answers to requests, and the objects that handles stand for."""

    def __init__(self, program: ModuleType) -> None:
        self._program = program
        self._objects: list[Any] = []

    def answer(self, request: list[Any]) -> bytes:
        """One line for one request; whatever the program raises is an answer."""
        kind, *parts = request
        try:
            return getattr(self, f"_{kind}")(*parts)
        except NotPlain as error:
            return json.dumps(["not plain", str(error)[:MAX_TEXT]]).encode()
        except BaseException as error:  # a program may raise anything, SystemExit too
            return json.dumps(["raised", type(error).__name__, _safely(error)]).encode()

    def _describe(self, names: list[str]) -> bytes:
        return json.dumps(["value", {name: self._kind(name) for name in names}]).encode()

    def _kind(self, name: str) -> str:
        if not hasattr(self._program, name):
            return "missing"
        found = getattr(self._program, name)
        return "class" if isinstance(found, type) else "callable" if callable(found) else "value"

    def _call(self, name: str, arguments: Any, keywords: Any, look_back: bool = False) -> bytes:
        return self._result(self._target(name), arguments, keywords, look_back)

    def _result(self, target: Callable[..., Any], arguments: Any, keywords: Any, look_back: bool) -> bytes:
        given, named = self._read(arguments), self._read(keywords)
        result = target(*given, **named)
        if isinstance(target, type) and type(result) is target:
            self._objects.append(result)
        if result is None and look_back:
            now = [[_changeable(item) for item in given], {key: _changeable(item) for key, item in named.items()}]
            return b'["value",null,' + dumps(now, self._handle) + b"]"
        return self._value(result)

    def _target(self, name: str) -> Callable[..., Any]:
        """A function of the program, or a method of a new object of its class `Solution`."""
        found = getattr(self._program, name, None)
        if found is None and hasattr(getattr(self._program, "Solution", None), name):
            return getattr(self._program.Solution(), name)
        if found is None:
            raise NameError(f"name {name!r} is not defined")
        return found

    def _constant(self, name: str) -> bytes:
        return self._value(getattr(self._program, name))

    def _method(self, handle: int, name: str, arguments: Any, keywords: Any, look_back: bool = False) -> bytes:
        return self._result(getattr(self._objects[handle], name), arguments, keywords, look_back)

    def _attribute(self, handle: int, name: str) -> bytes:
        found = getattr(self._objects[handle], name)
        return json.dumps(["callable"]).encode() if callable(found) else self._value(found)

    def _assign(self, handle: int, name: str, value: Any) -> bytes:
        setattr(self._objects[handle], name, self._read(value))
        return self._value(None)

    def _read(self, raw: Any) -> Any:
        return decode(raw, self._objects.__getitem__)

    def _value(self, value: Any) -> bytes:
        return b'["value",' + dumps(value, self._handle) + b"]"

    def _handle(self, value: Any) -> int | None:
        return next((number for number, known in enumerate(self._objects) if known is value), None)


def _changeable(value: Any) -> Any:
    return value if isinstance(value, list | dict | set | bytearray) else None


def _safely(error: BaseException) -> str:
    try:
        return str(error)[:MAX_TEXT]
    except BaseException:  # an exception's own text may raise, too
        return ""
