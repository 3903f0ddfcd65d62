"""The doctor finds each planted fault by the promise that names it, and nothing wrong with a healthy server."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.adapters.doctor.findings import Finding, Verdict
from gymwire.adapters.doctor.opening import Target, open_patient
from gymwire.adapters.doctor.patient import Options
from gymwire.adapters.doctor.promises import PROMISES
from gymwire.adapters.doctor.run import CHECKS, examine
from gymwire.servers.sessions import Limits

from tests.adapters.doctor.bad_server import ROW, Fault, standing
from tests.adapters.doctor.faults import FAULTS, Planted
from tests.adapters.doctor.page import PAGE, promises_part, read_part

WIRES = ("nemo-gym", "openenv", "mcp")


async def examined(url: str, wire: str, *, rows: Any = (), token: str | None = None, **given: Any) -> list[Finding]:
    patient = await open_patient(Target(url, wire, token=token, rows=rows), Options(**({"seconds": 30.0} | given)))
    try:
        return await examine(patient)
    finally:
        await patient.wire.place.pool.close()


@pytest.mark.parametrize("planted", FAULTS, ids=lambda planted: planted.name)
async def test_a_planted_fault_is_found_by_its_promise(planted: Planted) -> None:
    given = {"only": frozenset({planted.promise}), "sessions": 16} | dict(planted.extra)
    with standing(planted.make()) as url:
        findings = await examined(url, planted.wire, rows=[ROW] if planted.with_rows else (), **given)
    found = {finding.promise.name: finding for finding in findings}[planted.promise]
    assert found.verdict is Verdict.FAIL, found
    assert found.reason


class Small(Fault):
    """Healthy, with limits that can be reached."""

    limits = Limits(max_sessions=12, queue_timeout_s=0.3, idle_timeout_s=1.0)
    tokens = ("sesame",)
    ping_s = 1.0


@pytest.mark.parametrize("wire", WIRES)
async def test_a_healthy_server_keeps_every_promise(wire: str) -> None:
    with standing(Small()) as url:
        findings = await examined(url, wire, rows=[ROW], token="sesame", half_open_s=6.0)
    assert {f.promise.name: f.reason for f in findings if f.is_bad} == {}
    untested = {f.promise.name for f in findings if f.verdict is Verdict.NOT_APPLICABLE}
    assert untested == ({"seed-idempotent", "call-idempotent"} if wire == "openenv" else set())


def test_the_page_says_what_the_table_says() -> None:
    assert read_part(PAGE.read_text(), "promises") == promises_part()


def test_every_promise_has_a_check_and_a_fault_that_it_finds() -> None:
    assert CHECKS.keys() == PROMISES.keys()
    assert {planted.promise for planted in FAULTS} == PROMISES.keys()
    assert len({planted.name for planted in FAULTS}) == len(FAULTS)
