"""A whole evaluation: the plan, the workers, what is kept, and how a run is stopped and goes on."""

from __future__ import annotations

import asyncio
import platform
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from importlib.metadata import version
from time import perf_counter
from typing import Any

import orjson

from ...servers.types import Json
from ..endpoint import EnvironmentInfo
from ..session import WrongRequest
from .episode import MODEL_STAGE, Played, Seat, play
from .model import ModelRefused
from .plan import Job, Plan
from .results import MANIFEST, Folder, Key, Result
from .summary import summary_of

#: Requests that are refused before the model ever answered: after so many, the run stops instead of masking every one.
FUSE = 3
#: Settings that may grow when a run goes on.
GROWING = ("rows", "repeats")


class State(StrEnum):
    """Of a run's manifest. A process that was killed leaves `running` behind."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"  # interrupted, or refused by the endpoint
    FAILED = "failed"  # on our side: a full disk


class Stopped(Exception):
    """The run cannot go on; one sentence. What was finished is kept."""


@dataclass(slots=True)
class Run:
    """Plays what a plan asks for and is not done yet. `on_result` is told of every episode as it ends."""

    seat: Seat
    plan: Plan
    concurrency: int
    folder: Folder | None = None
    solved: float = 1.0
    on_result: Callable[[Result], None] = lambda result: None
    done: dict[Key, Result] = field(default_factory=dict)
    started: float = field(default_factory=perf_counter)
    before_s: float = 0.0
    _refused: Counter[str] = field(default_factory=Counter)

    async def play(self) -> None:
        """Play to the end. Raises `Stopped`; `StorageFull` where a result cannot be kept."""
        jobs = (job for job in self.plan.jobs() if job.key not in self.done)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self.concurrency, self.left)):
                    group.create_task(self._work(jobs))
        except BaseExceptionGroup as several:
            raise _first(several) from None

    @property
    def left(self) -> int:
        return len(self.plan) - len(self.results())

    async def _work(self, jobs: Iterator[Job]) -> None:
        for job in jobs:
            try:
                played = await play(self.seat, job)
            except ModelRefused as refused:
                raise Stopped(str(refused)) from None
            self._check_hope(played)
            self._keep(played)

    def _check_hope(self, played: Played) -> None:
        """Stop where a setting must be wrong: the endpoint never answered and refuses one request after the other, or
        not one row can begin. A row that cannot says nothing of the next one, but a seed does."""
        failure = played.failure
        if failure is None or not failure["refused"] or self._has_hope():
            return
        stage = failure["stage"]
        self._refused[stage] += 1
        few = stage == MODEL_STAGE or self.plan.seeded
        if self._refused[stage] >= (min(FUSE, len(self.plan)) if few else len(self.plan.sources)):
            raise Stopped(f"nothing can be played: {failure['reason']}")

    def _has_hope(self) -> bool:
        """Whether the model ever answered, before the run was stopped and went on included."""
        return bool(self.seat.model.answered) or any(result.turns for result in self.done.values())

    def _keep(self, played: Played) -> None:
        line = played.line(messages=self.folder is not None and self.seat.keep_messages)
        if self.folder is not None:
            self.folder.add(line)
        result = Result.of(line)
        self.done[result.key] = result
        self.on_result(result)

    def results(self) -> list[Result]:
        """What the plan asked for and is done, in order."""
        return [self.done[job.key] for job in self.plan.jobs() if job.key in self.done]

    @property
    def wall_s(self) -> float:
        return self.before_s + perf_counter() - self.started

    def summary(self) -> Json:
        found = summary_of(
            self.results(),
            planned=len(self.plan),
            repeats=self.plan.repeats,
            solved=self.solved,
            wall_s=self.wall_s,
        )
        return found | {"model": self.seat.model.name, "request_repeats": self.seat.model.repeated}


def _first(several: BaseExceptionGroup) -> BaseException:
    error: BaseException = several
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


# ---- the manifest


def settings_of(run: Run, info: EnvironmentInfo, **more: Any) -> Json:
    """What makes two runs the same one: the same tasks, asked of the same model in the same way."""
    model, sampling = run.seat.model, run.seat.model.sampling
    tools = orjson.dumps([tool.as_chat() for tool in info.tools])
    return {
        "environment": info.name,
        "tools": sha256(tools).hexdigest()[:16],
        "wire": run.seat.connection.wire,
        "rows": len(run.plan.sources),
        "repeats": run.plan.repeats,
        "row_names": run.plan.digest(),
        "column": run.plan.column,
        "model": model.name,
        "base_url": str(model.url),
        "tool_parser": run.seat.parser,
        "max_turns": run.seat.max_turns,
        "seed": run.seat.seed,
        "sampling": {
            **sampling.body(),
            **({"extra_body": dict(sampling.extra_body)} if sampling.extra_body else {}),
        },
        "solved_from": run.solved,
        **more,
    }


def versions() -> dict[str, str]:
    return {"gymwire": version("gymwire"), "aiohttp": version("aiohttp"), "python": platform.python_version()}


def begin(folder: Folder, run: Run, settings: Json, url: str, *, retry_failed: bool) -> int:
    """Make the run's manifest, or go on with what the folder holds; answers how many episodes are done already.

    Raises `WrongRequest` where the folder's run is another one.
    """
    before = folder.manifest()
    now = {"at": _now(), "url": url, "versions": versions()}
    if before is None:
        if folder.results.stat().st_size:
            raise WrongRequest(f"{folder.path} holds results without a manifest; give another --out")
        folder.write_json(MANIFEST, {"state": State.RUNNING, "settings": settings, "started": now, "resumed": []})
        return 0
    _check_same(folder, before["settings"], settings, run.plan)
    run.done = folder.keep(drop_failed=retry_failed)
    run.before_s = float(before.get("wall_s") or 0.0)
    resumed = [*(before.get("resumed") or ()), now]
    goes_on = {"state": State.RUNNING, "reason": "", "settings": settings, "resumed": resumed}
    folder.write_json(MANIFEST, before | goes_on)
    return len(run.results())


def _check_same(folder: Folder, before: Json, now: Json, plan: Plan) -> None:
    """More rows may come behind those of before, which `row_names` names."""
    for name in now:
        was = before.get(name)
        if was == now[name] or (name in GROWING and _grows(was, now[name])):
            continue
        if name == "row_names" and was == plan.digest(before["rows"]):
            continue
        raise WrongRequest(
            f"the run in {folder.path} was made with {name} {was!r}, and this one has {now[name]!r}; "
            "give another --out, or the same settings to go on"
        )


def _grows(before: Any, now: Any) -> bool:
    return isinstance(before, int) and isinstance(now, int) and before < now


def mark(folder: Folder, run: Run, state: State, reason: str = "") -> None:
    """Bring the manifest up to date. Raises `StorageFull`."""
    manifest = folder.manifest() or {}
    more = {"state": state, "reason": reason, "ended": _now(), "wall_s": round(run.wall_s, 3)}
    folder.write_json(MANIFEST, manifest | more)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
