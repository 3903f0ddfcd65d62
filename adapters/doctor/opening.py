"""From a URL to the patient: whose server it is, on which wire, and what can be seeded there."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yarl import URL

from ...servers.types import Row, RowError
from ..endpoint import EnvironmentInfo
from ..foreign import McpOptions
from ..pool import Pool
from ..resolve import Found, check_wire, read_url, resolve
from ..session import WrongRequest
from .gym import GymWire
from .mcp import McpWire
from .openenv import OpenEnvWire
from .patient import Options, Patient
from .wire import MAX_BYTES, Place, RawTask, RawWire

logger = logging.getLogger("gymwire.doctor")
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

    @property
    def secrets(self) -> list[str]:
        """What no report may show: the token, and a password in the URL."""
        password = re.match(r"[^:]*://[^/@]*:([^/@]+)@", self.url)
        return [secret for secret in (self.token, password and password[1]) if secret]


async def open_patient(target: Target, options: Options) -> Patient:
    """Find the server. Raises `WrongRequest` with one sentence."""
    check_wire(target.wire, _WIRES)
    url = read_url(target.url)
    if url.user is not None and target.token is not None:
        raise WrongRequest("a token and a user in the URL are two answers to who asks; give one of the two.")
    try:
        async with asyncio.timeout(options.seconds):
            found = await resolve(url, wire=target.wire, env=target.env, token=target.token)
    except TimeoutError:
        raise WrongRequest(f"{url} did not say within {options.seconds:g} s what it serves.") from None
    place = _ours(found, target, options) if found is not None else _strangers(url, target, options)
    wire = _WIRES[found.wire if found is not None else str(target.wire)](place, target.mcp)
    patient = Patient(wire, _tasks(place, target), options)
    try:
        await _prepare(patient)
    except BaseException:
        await place.pool.close()
        raise
    return patient


async def _prepare(patient: Patient) -> None:
    wire, url = patient.wire, patient.wire.place.url
    try:
        async with asyncio.timeout(patient.seconds_left):
            await wire.prepare()
    except TimeoutError:
        raise WrongRequest(f"{url} did not say within {patient.options.seconds:g} s what it offers.") from None
    except (WrongRequest, RowError):
        raise
    except Exception as error:  # the boundary of what a stranger says of itself
        logger.debug("%s could not be read", url, exc_info=error)
        raise WrongRequest(f"what {url} offers cannot be read: {type(error).__name__}: {error}") from None
    finally:
        await wire.close_all()


def _ours(found: Found, target: Target, options: Options) -> Place:
    return _place(found.url, True, found.info, found.limits, target, options)


def _place(
    url: URL, ours: bool, info: EnvironmentInfo, limits: Mapping[str, Any], target: Target, options: Options
) -> Place:
    pool = Pool(ours=ours, token=target.token, max_bytes=MAX_BYTES)
    return Place(url, pool, ours, info, limits, options.trainer, target.token is not None, target.secrets)


def _strangers(url: URL, target: Target, options: Options) -> Place:
    if target.wire not in _WIRES:
        raise WrongRequest(
            f"{url} is no gymwire server (there is no /environments); "
            "say what it speaks with --wire: nemo-gym, openenv or mcp."
        )
    if target.wire == "nemo-gym" and not target.rows:
        raise WrongRequest(f"{url} does not say which rows and tools it has: give rows with --rows FILE.")
    info = EnvironmentInfo(target.env or url.name or str(url.host))
    return _place(url, False, info, {}, target, options)


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
