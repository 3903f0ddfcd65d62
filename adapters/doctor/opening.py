"""From a URL to the patient: whose server it is, on which wire, and what can be seeded there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from yarl import URL

from ...servers.types import Row
from ..endpoint import EnvironmentInfo
from ..foreign import McpOptions
from ..pool import Pool
from ..resolve import Found, check_wire, read_url, resolve
from ..session import WrongRequest
from .gym import GymWire
from .mcp import McpWire
from .openenv import OpenEnvWire
from .patient import Options, Patient
from .wire import Place, RawTask, RawWire

MAX_TASKS = 8
SEED = 7
_WIRES: dict[str, Callable[[Place, McpOptions], RawWire]] = {
    "nemo-gym": lambda place, _: GymWire(place),
    "openenv": lambda place, _: OpenEnvWire(place),
    "mcp": McpWire,
}


@dataclass(frozen=True, slots=True)
class Target:
    """What is examined. `rows` are seeded whole; without them, the server's own are named by their place."""

    url: str
    wire: str | None = None
    env: str | None = None
    token: str | None = None
    split: str | None = None
    rows: Sequence[Row] = ()
    mcp: McpOptions = field(default_factory=McpOptions)


async def open_patient(target: Target, options: Options) -> Patient:
    """Find the server. Raises `WrongRequest` with one sentence."""
    check_wire(target.wire)
    url = read_url(target.url)
    found = await resolve(url, wire=target.wire, env=target.env, token=target.token)
    place = _ours(found, target, options) if found is not None else _strangers(url, target, options)
    wire = _WIRES[found.wire if found is not None else str(target.wire)](place, target.mcp)
    patient = Patient(wire, _tasks(place, target), options)
    try:
        await wire.prepare()
    except BaseException:
        await place.pool.close()
        raise
    return patient


def _ours(found: Found, target: Target, options: Options) -> Place:
    pool = Pool(ours=True, token=target.token)
    return Place(found.url, pool, True, found.info, found.limits, options.trainer, target.token is not None)


def _strangers(url: URL, target: Target, options: Options) -> Place:
    if target.wire not in _WIRES:
        raise WrongRequest(
            f"{url} is no gymwire server (there is no /environments); "
            "say what it speaks with --wire: nemo-gym, openenv or mcp."
        )
    if target.wire == "nemo-gym" and not target.rows:
        raise WrongRequest(f"{url} does not say which rows and tools it has: give rows with --rows FILE.")
    info = EnvironmentInfo(target.env or url.name or str(url.host))
    pool = Pool(ours=False, token=target.token)
    return Place(url, pool, False, info, {}, options.trainer, target.token is not None)


def _tasks(place: Place, target: Target) -> list[RawTask]:
    if target.rows:
        return [RawTask(row=row, seed=SEED) for row in target.rows[:MAX_TASKS]]
    if not place.ours or not place.info.splits:
        return [RawTask(seed=SEED)]
    split = target.split or next(iter(place.info.splits))
    if split not in place.info.splits:
        listed = ", ".join(place.info.splits)
        raise WrongRequest(f"{place.info.name} has no split {split!r}; it has: {listed}.")
    count = place.info.splits[split]
    return [RawTask(split=split, index=index, seed=SEED) for index in range(min(count, MAX_TASKS))] or [RawTask()]
