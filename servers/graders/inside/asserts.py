"""Inside a job that never holds the program: runs a row's own tests, and asks for every value that they need of it.

Conversation: we say `ready` and read one line: what is given to the tests, the program's names and their kinds, the
tests' own setup, the tests. For each line `run N` a test runs and ends with `["passed"]`, `["failed", text]` or
`["unsupported", text]`; between, each use of the program is a request line (those of `calls`) that is answered with a
line. Only plain values arrive, so no object of the program can stand in a comparison: an object of a class that the
tests made is a `Thing`, equal to itself alone. A function may have changed its arguments in place if it returned None;
one that returns something may not: it could empty the very list that its answer is compared with.
"""

from __future__ import annotations

import builtins
import importlib
import json
import os
from typing import Any, BinaryIO

from .plain import MAX_DEPTH, NotPlain, allow_long_integers, decode, encode

MAX_TEXT = 300
#: Less than an argument may have: else an answer that the tests hand back would break them, and not be the program's.
ANSWER_DEPTH = MAX_DEPTH - 50
NEVER_RAISED = (StopIteration, StopAsyncIteration, AssertionError, Warning)


class SolutionError(Exception):
    """What the program raised, where it is no ordinary built-in exception."""


class Unsupported(BaseException):
    """The tests do with the program what cannot cross. No `Exception`, so that no test catches it."""


class Thing:
    """An object that stayed with the program."""

    def __init__(self, link: Link, number: int) -> None:
        self._link, self._number = link, number

    def __getattr__(self, name: str) -> Any:
        link, number = self._link, self._number
        answer = link.ask(["attribute", number, name])
        if answer != ["callable"]:
            return link.value(answer)
        return lambda *arguments, **keywords: self._method(name, *arguments, **keywords)

    def _method(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        return self._link.use(["method", self._number, name], arguments, keywords)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_link", "_number"):
            return object.__setattr__(self, name, value)
        self._link.value(self._link.ask(["assign", self._number, name, self._link.text(value)]))

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._method("__call__", *arguments, **keywords)

    def __len__(self) -> int:
        return self._method("__len__")

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, key: Any) -> Any:
        return self._method("__getitem__", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._method("__setitem__", key, value)

    def __contains__(self, value: Any) -> bool:
        return bool(self._method("__contains__", value))

    def __iter__(self) -> Any:
        return iter(self._method("__iter__"))

    def __str__(self) -> str:
        return str(self._method("__str__"))

    def __repr__(self) -> str:
        return str(self._method("__repr__"))


class Link:
    """The way to the program: requests out, plain values back."""

    def __init__(self, listen: BinaryIO, speak: BinaryIO) -> None:
        self._listen, self._speak = listen, speak
        self._things: dict[int, Thing] = {}
        #: What a test cannot hide by catching it: an answer that cannot cross, a use that cannot.
        self.broken = ""
        self.unsupported = ""
        self.asked = False  # whether the program has had a say in this test

    def hear(self) -> bytes:
        return self._listen.readline()

    def say(self, message: Any) -> None:
        self._speak.write(json.dumps(message).encode() + b"\n")
        self._speak.flush()

    def ask(self, request: list[Any]) -> Any:
        self.asked = True
        self.say(request)
        return json.loads(self.hear())

    def text(self, value: Any) -> Any:
        try:
            return encode(value, lambda item: item._number if type(item) is Thing else None)
        except NotPlain as error:
            self.unsupported = f"an argument cannot cross: {error}"
            raise Unsupported(self.unsupported) from None

    def value(self, answer: Any, objects: bool = True) -> Any:
        """What the program answered; with `objects` it may be a `Thing`."""
        kind, *parts = answer
        if kind == "raised":
            raise exception_of(*parts)
        try:
            return decode(parts[0], self.thing if objects else None, ANSWER_DEPTH)
        except NotPlain as error:
            self.broken = f"an answer cannot cross: {error}"
            raise SolutionError(self.broken) from None

    def use(self, what: list[Any], arguments: tuple[Any, ...], keywords: dict[str, Any], objects: bool = True) -> Any:
        """What a function or a method of the program answers; the arguments are as it left them."""
        answer = self.ask([*what, self.text(arguments), self.text(keywords), True])
        value = self.value(answer, objects)
        if value is None and len(answer) == 3:
            self._renew(arguments, keywords, answer[2])
        return value

    def _renew(self, arguments: tuple[Any, ...], keywords: dict[str, Any], answer: Any) -> None:
        """Have the arguments as the program left them."""
        listed, named = self.value(["value", answer])
        for old, new in [*zip(arguments, listed, strict=True), *((keywords[key], new) for key, new in named.items())]:
            if isinstance(old, list | bytearray) and isinstance(new, list | bytearray):
                old[:] = new
            elif isinstance(old, dict | set) and isinstance(new, dict | set):
                old.clear()
                old.update(new)

    def thing(self, number: int) -> Thing:
        return self._things.setdefault(number, Thing(self, number))

    def function(self, name: str) -> Any:
        """Only what is named as a class makes objects: an object says itself what `in`, `len` and truth are."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            return self.use(["call", name], arguments, keywords, objects=name[:1].isupper())

        call.__name__ = call.__qualname__ = name
        return call


def exception_of(name: str, text: str) -> Exception:
    """An exception as the program raised it, if it is a built-in one that means nothing to the interpreter itself: a
    StopIteration would silently end a loop of the tests, and pass what was never compared."""
    kind: Any = getattr(builtins, str(name), None)
    if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(kind, NEVER_RAISED):
        return SolutionError(f"{name}: {text}")
    make: Any = kind
    try:
        return make(text)
    except TypeError:  # UnicodeDecodeError wants five arguments
        return SolutionError(f"{name}: {text}")


def run() -> None:
    """Serve the conversation until it ends."""
    listen, speak = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nowhere, fd)
    speak.write(b"ready\n")
    speak.flush()
    allow_long_integers()
    link = Link(listen, speak)
    task = json.loads(link.hear())
    while (line := link.hear()).startswith(b"run "):
        link.say(_outcome(link, task, task["tests"][int(line[4:])]))


def _outcome(link: Link, task: dict[str, Any], test: str) -> list[str]:
    """Each test has names of its own: what one changes, the next does not see."""
    link.broken = link.unsupported = said = ""
    link.asked = "missing" in task["names"].values()  # what it lacks may break a test, too
    try:
        space = _names(link, task)
        exec(compile(test, "test", "exec"), space)
    except BaseException as error:  # a failed assert, or whatever the program's values led to
        said = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        if not link.asked:  # the row's own fault, whatever the program is like
            link.unsupported = link.unsupported or f"a test breaks before it asks the program: {said}"
    if link.unsupported:
        return ["unsupported", link.unsupported[:MAX_TEXT]]
    return ["failed", link.broken[:MAX_TEXT] or said] if link.broken or said else ["passed"]


def _names(link: Link, task: dict[str, Any]) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "tests"}
    for name in task["modules"]:
        space[name] = importlib.import_module(name)
    try:
        exec(compile(task["given"], "given", "exec"), space)
    except Exception as error:  # the row's own code, which no answer of the program has reached yet
        link.unsupported = f"what is given to the tests failed: {type(error).__name__}: {error}"
        raise Unsupported(link.unsupported) from None
    for name, kind in task["names"].items():
        if kind == "value":
            space[name] = link.value(link.ask(["constant", name]), objects=False)
        elif kind != "missing":
            space[name] = link.function(name)
    exec(compile(task["setup"], "setup", "exec"), space)
    return space
