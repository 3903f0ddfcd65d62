"""Every bundled environment keeps every promise on every wire, as one server serves them."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymwire.adapters.doctor.findings import Verdict
from gymwire.adapters.doctor.opening import Target, open_patient
from gymwire.adapters.doctor.patient import Options
from gymwire.adapters.doctor.run import examine
from gymwire.servers.rows import read_rows

from tests.sandboxes import skip_without, wants_one
from tests.worlds import BUNDLED

DATASETS = Path(__file__).parents[3] / "datasets"
#: What only a server of other limits, or one with a token, can show, and what takes 40 seconds.
NOT_HERE = frozenset({"capacity", "abandoned", "token", "half-open"})
#: Where the row has no tools, or the wire no ids.
MAY_LACK = frozenset(
    {"call-idempotent", "seed-idempotent", "ends-with-verify", "latency"}
    | {"tool-names", "tool-descriptions", "tool-schemas"}
)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
@pytest.mark.parametrize("name", BUNDLED)
async def test_a_bundled_environment_keeps_every_promise(server: str, name: str, wire: str) -> None:
    skip_without(BUNDLED[name])
    rows = read_rows(DATASETS / name / "train.jsonl")[:5]
    # Programs in a sandbox share its few places, whoever asks; the others are asked from 64 sessions at once.
    sessions = 4 if wants_one(BUNDLED[name]) else 64
    options = Options(seconds=120.0, sessions=sessions, max_p95_s=5.0, skip=NOT_HERE)
    patient = await open_patient(Target(server, wire, name, rows=rows), options)
    try:
        findings = await examine(patient)
    finally:
        await patient.wire.place.pool.close()
    assert {f.promise.name: (f.reason, f.evidence) for f in findings if f.is_bad} == {}
    assert {f.promise.name for f in findings if f.verdict is Verdict.NOT_APPLICABLE} <= MAY_LACK
