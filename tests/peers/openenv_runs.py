"""OpenEnv's own programs (its clients, its graders, its validator) against a server's URL, each a process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from gymwire.servers.policies import Call
from gymwire.servers.types import Json

from tests.peers.parts import Part, Record, record
from tests.peers.processes import finished
from tests.peers.venvs import peer_env

CLIENTS = ("generic", "sync", "own", "tool_steps", "tool_calls")
#: Those that post the whole row at reset; the others say its place.
WHOLE_ROW = ("own", "tool_steps")
RUN_TIMEOUT_S = 120
CONTROL = {"control": True}


class Played:
    """A row of a split, what its policy does in-process, and what that earns."""

    def __init__(self, split: str, index: int, part: Part) -> None:
        self.name, self.place, self.part = part.environment.name, {"split": split, "index": index}, part
        self.own: Record = asyncio.run(record(part))

    def reset(self, whole: bool) -> Json:
        return {"row": self.part.to_json()} if whole else self.place


class OpenEnvRuns:
    """One run of each program. The pool decides how many at a time; whoever wants a result waits for it."""

    def __init__(self, python: Path, server: str, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.python, self.server, self.folder, self.pool = python, server, folder, pool

    def play(self, cases: Sequence[Json]) -> Future[list[Json]]:
        """What the client of each case saw."""
        return self.pool.submit(self._lines_about, "openenv_play.py", cases)

    def case(self, client: str, played: Played, calls: Sequence[Call] | None = None) -> Json:
        """The very play, or other calls in its row."""
        made = played.own.calls if calls is None else calls
        return {
            "client": client,
            "url": self.url(played.name),
            "reset": played.reset(whole=client in WHOLE_ROW),
            "calls": [{"name": call.name, "arguments": call.arguments} for call in made],
            "verify": {"messages": played.own.messages if calls is None else []},
        }

    def grade(self, plays: Sequence[Played]) -> Future[list[Json]]:
        """What the runtime graders say of each play, with a listing and a policy's mistake in it."""
        cases = [
            {"url": self.url(item.name), "reset": item.reset(whole=False), "actions": _actions(item.own)}
            for item in plays
        ]
        return self.pool.submit(self._lines_about, "openenv_grade.py", cases)

    def validate(self, names: Sequence[str]) -> Future[list[Json]]:
        """The exit status and the report of `openenv validate --url` for each environment."""
        return self.pool.submit(self._lines, "openenv_validate.py", *map(self.url, names))

    def url(self, name: str) -> str:
        return f"{self.server}/{name}/openenv"

    def _lines_about(self, script: str, cases: Sequence[Json]) -> list[Json]:
        file = self.folder / f"{script}.json"
        file.write_text(json.dumps(cases))
        return self._lines(script, file)

    def _lines(self, script: str, *arguments: str | Path) -> list[Json]:
        command = [self.python, Path(__file__).with_name(script), *arguments]
        log = self.folder / f"{script}.log"
        status, output = finished(command, log, peer_env(self.python), self.folder, RUN_TIMEOUT_S)
        assert status == 0, output
        return [json.loads(line) for line in output.splitlines()]


def _actions(own: Record) -> list[Json]:
    calls: list[tuple[str, Mapping[str, object], Json]] = [(call.name, call.arguments, {}) for call in own.calls]
    calls = [("no_such_tool", {}, {}), *calls, ("verify", {"messages": own.messages}, CONTROL)]
    steps = [
        {"type": "call_tool", "tool_name": name, "arguments": arguments, "metadata": metadata}
        for name, arguments, metadata in calls
    ]
    return [{"type": "list_tools"}, *steps]
