"""Environments that only tests need."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from gymwire.servers import Environment, Media, Outcome, Row, SessionFailure, ToolError, ToolResult, Transcript, tool
from gymwire.servers.catalog import find, installed
from gymwire.servers.policies import Call, EndTurn, Script
from gymwire.servers.types import Ending
from pydantic import BaseModel

PICTURE = Media("image", "iVBORw0KGgo=", "image/png")


class Place(BaseModel):
    shelf: int
    side: Literal["left", "right"] | None = None


def kit_random(row: Row, rng: Random) -> Script:
    """Does one of everything, in any order, and much of it wrong."""
    wrong: list[Call] = [
        Call("put", {"item": "cup", "at": {"shelf": "one"}}),
        Call("put", {"item": "cup"}),
        Call("nothing_like_it", {"x": 1}),
        Call("count", {"more": 1}),
        Call("break_it", {}),
    ]
    right: list[Call] = [
        Call("put", {"item": "ünï\u2028 null", "at": {"shelf": 1, "side": None}}),
        Call("put", {"item": "null", "at": {"shelf": 2, "side": "left"}}),
        Call("count"),
        Call("look"),
        Call("dawdle", {"seconds": 5}),
        Call("where", {"item": "null"}),
    ]
    for step in rng.sample([*wrong, *right], 8):  # noqa: UP028 - a list cannot be sent to
        yield step
    return "Whatever."


def kit_rule(row: Row, rng: Random) -> Script:
    """One item a turn, then ends its turns."""
    for item in row.prompt[-1]["content"].split(": ")[1].split(", "):
        yield Call("put", {"item": item, "at": {"shelf": 1}})
    prompt = yield EndTurn("The first are put.")
    while not prompt.done:
        yield Call("put", {"item": prompt.text.split(": ")[1], "at": {"shelf": 2}})
        yield Call("look")
        prompt = yield EndTurn("Put.")
    return "All put."


def kit_oracle(row: Row, rng: Random) -> Script:
    """Knows all items from the start, and ends by itself."""
    for item in (*row.data["first"], *row.data["later"]):
        yield Call("put", {"item": item, "at": {"shelf": 1, "side": "right"}})
    yield Call("count")
    yield Call("finish", {"word": "done"})
    return "Never said."


class Kit(Environment):
    """Puts things on shelves: several prompts, pictures, slow tools, sync tools, a tool that ends."""

    splits = ("train", "eval")
    max_turns = 12
    policies = {"random": kit_random, "rule": kit_rule, "oracle": kit_oracle}

    class Data(BaseModel):
        first: list[str]
        later: list[str]

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index in range(8 if count is None else count):
            first = [f"{split}-{index}-{n}" for n in range(2)]
            yield Row.of(f"Put these: {', '.join(first)}", first=first, later=[f"later-{index}", "last"])

    def reset(self, row: Row) -> None:
        self.shelves: dict[str, int] = {}
        self.waiting = list(self.data.later)
        self.word = ""

    @tool
    async def put(self, item: str, at: Place) -> str:
        """Put an item on a shelf.

        Args:
            item: What to put.
            at: Where to.
        """
        if item in self.shelves:
            raise ToolError(f"{item} is on shelf {self.shelves[item]} already.")
        self.shelves[item] = at.shelf
        return f"{item} is on shelf {at.shelf}, {at.side or 'anywhere'}."

    @tool
    def count(self) -> int:
        """Count the items."""
        return len(self.shelves)

    @tool
    def where(self, item: str | None = None) -> dict[str, int]:
        """Where an item is, or all are."""
        return {name: shelf for name, shelf in self.shelves.items() if item in (None, name)}

    @tool
    async def look(self) -> list[Any]:
        """A picture of the shelves."""
        return [f"{len(self.shelves)} items", PICTURE]

    @tool(timeout="policy", timeout_s=0.05)
    async def dawdle(self, seconds: float) -> str:
        """Take some time."""
        self.shelves["dawdled"] = 9
        await asyncio.sleep(seconds)
        return "rested"

    @tool
    async def nap(self, seconds: float) -> str:
        """Sleep on our time."""
        await asyncio.sleep(seconds)
        return "awake"

    @tool
    def nap_in_thread(self, seconds: float) -> str:
        """Sleep on our time, in a thread."""
        time.sleep(seconds)
        return "awake"

    @tool
    def break_it(self) -> str:
        """Never works."""
        raise ToolError("It does not break.\nTry something else: ünï.")

    @tool(ends=True)
    def finish(self, word: str) -> str:
        """End the task."""
        self.word = word
        return f"Finished with {word}."

    async def end_turn(self) -> str | None:
        return f"And now this: {self.waiting.pop(0)}" if self.waiting else None

    def verify(self, transcript: Transcript) -> dict[str, float]:
        wanted = [*self.data.first, *self.data.later]
        share = sum(item in self.shelves for item in wanted) / len(wanted)
        return {
            "put": 0.5 * share,
            "finished": 0.25 * (self.word == "done"),
            "tidy": 0.125 * ("dawdled" not in self.shelves),
            "answered": 0.125 * (transcript.answer == "All put."),
        }


class Breaks(Environment):
    """Breaks where, and how, its row says. `act` works, `crash` and `end_turn` reach their stages."""

    tool_timeout_s = 0.1
    verify_timeout_s = 0.1

    class Data(BaseModel):
        stage: str = ""
        how: str = "raise"
        kind: str = ""

    def reset(self, row: Row) -> Any:
        return self._at("reset")

    @tool
    async def act(self) -> str:
        return "fine"

    @tool
    async def crash(self) -> Any:
        """Break, where the row says so."""
        if self.data.how == "hang":
            await asyncio.sleep(60)
        return self._at("call") or "fine"

    @tool
    def crash_in_thread(self) -> Any:
        return self._at("call") or "fine"

    @tool(ends=True)
    async def finish(self) -> str:
        return "over"

    def end_turn(self) -> str | None:
        return self._at("end_turn")

    def verify(self, transcript: Transcript) -> Any:
        made = self._at("verify")
        return 1.0 if made is None else made

    async def close(self) -> None:
        self._at("close")

    def _at(self, stage: str) -> Any:
        if stage != self.data.stage:
            return None
        if self.data.how == "hang":
            time.sleep(0.4)
        if self.data.kind:
            raise SessionFailure("it was said to", self.data.kind)
        return RETURNED[self.data.how]() if self.data.how in RETURNED else self._raise()

    def _raise(self) -> Any:
        raise RAISED.get(self.data.how, RuntimeError)("bang\n\ud800")


#: What `Breaks` returns instead of breaking, by name.
RETURNED: dict[str, Any] = {
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "none": lambda: Outcome(Ending.FAILED, failure_kind="judge_failed", failure_reason="no judge"),
    "true": lambda: True,
    "text": lambda: "0.5",
    "bytes": lambda: b"raw",
    "object": object,
    "surrogates": lambda: "a\ud800b",
    "nested surrogates": lambda: {"k": "\ud800"},
    "50 MB": lambda: "x" * 50_000_000,
    "50 MB of JSON": lambda: ["x" * 1_000] * 50_000,
    "a picture of bytes": lambda: Media("image", b"raw", "image/png"),  # type: ignore[arg-type]
    "an error": lambda: ToolResult("no", is_error=True),
}
RAISED: dict[str, type[BaseException]] = {"exit": SystemExit, "memory": MemoryError, "stop": StopIteration}


class Grades(Environment):
    """Worth what its row says, in JSON or by name."""

    VALUES = {
        "nan": float("nan"),
        "inf": float("inf"),
        "-inf": -float("inf"),
        "none": None,
        "true": True,
        "false": False,
        "huge": 10**400,
        "components with nan": {"a": 0.5, "b": float("nan")},
        "no components": {},
    }

    def verify(self, transcript: Transcript) -> Any:
        value = self.row.data["value"]
        return self.VALUES.get(value, value) if isinstance(value, str) else value


class Secrets(Environment):
    """Draws a secret at reset; `reveal` tells it, with the row it belongs to."""

    splits = ("train",)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index in range(64 if count is None else count):
            yield Row.of(f"Secret {index}", index=index)

    def reset(self, row: Row) -> None:
        self.secret = [self.rng.randrange(10**9) for _ in range(3)]

    @tool
    async def reveal(self) -> dict[str, Any]:
        return {"index": self.row.data["index"], "secret": self.secret}

    def verify(self, transcript: Transcript) -> float:
        return self.rng.random()


class Readers(Environment):
    """Pages that several may read at once, and that one writes alone. `wrong` rows break where all meet."""

    #: How long those who are here wait for the others.
    patience_s = 0.3

    def reset(self, row: Row) -> None:
        self.pages: list[str] = []
        self.here, self.all_here = 0, asyncio.Event()
        self.barrier = threading.Barrier(2)

    @tool
    async def write(self, text: str) -> int:
        assert self.here == 0, "somebody reads"
        self.pages.append(text)
        await asyncio.sleep(0.01)
        return len(self.pages)

    @tool(read_only=True)
    async def read(self, who: int = 0) -> str:
        await asyncio.sleep(0.01)
        return f"{who}: {' '.join(self.pages)}"

    @tool(read_only=True)
    async def meet(self, count: int) -> str:
        """Whether so many are here at once."""
        self.here += 1
        try:
            if self.here == count:
                self.all_here.set()
            await asyncio.wait_for(self.all_here.wait(), self.patience_s)
            if self.row.data.get("wrong"):
                raise RuntimeError("they met")
            return "met"
        except TimeoutError:
            return "alone"
        finally:
            self.here -= 1

    @tool(read_only=True)
    def meet_in_thread(self) -> str:
        try:
            self.barrier.wait(self.patience_s)
            return "met"
        except threading.BrokenBarrierError:
            self.barrier.reset()
            return "alone"

    def verify(self, transcript: Transcript) -> float:
        return float(len(transcript.calls))


WORLDS: dict[str, type[Environment]] = {item.name: item for item in (Kit, Breaks, Grades, Secrets, Readers)}
BUNDLED: dict[str, type[Environment]] = {
    name: find(name) for name, place in installed().items() if place.startswith("gymwire.")
}
PLACES = [f"tests.worlds:{item.__name__}" for item in WORLDS.values()]
