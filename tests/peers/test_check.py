"""The doctor's verdicts on servers that others wrote are those that docs/check.md records."""

from __future__ import annotations

from pathlib import Path

import pytest
from gymwire.adapters.doctor.findings import Verdict

from tests.adapters.doctor.page import PAGE, read_part, verdicts_of
from tests.peers.check_page import SERVERS, look_at

pytestmark = [pytest.mark.peers, pytest.mark.timeout(200)]
#: Takes 40 seconds by itself.
LEFT_OUT = frozenset({"half-open"})


@pytest.mark.parametrize("name", SERVERS)
def test_the_verdicts_are_those_of_the_page(name: str, tmp_path: Path) -> None:
    findings = look_at(name, tmp_path, LEFT_OUT)
    assert not [finding for finding in findings if finding.verdict is Verdict.ERROR]
    recorded = verdicts_of(read_part(PAGE.read_text(), name))
    seen = {finding.promise.name: finding.verdict.value for finding in findings}
    assert seen == {name: verdict for name, verdict in recorded.items() if name not in LEFT_OUT}
