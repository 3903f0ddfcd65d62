"""Numbers with their noun."""

from __future__ import annotations

import pytest
from gymwire.servers.wording import counted


@pytest.mark.parametrize(
    ("number", "what", "said"),
    [
        (0, "row", "0 rows"),
        (1, "row", "1 row"),
        (1024, "session", "1,024 sessions"),
        (1, "pass", "1 pass"),
        (2, "pass", "2 passes"),
        (1.0, "epoch", "1 epoch"),
        (0.5, "epoch", "0.5 epochs"),
    ],
)
def test_a_number_and_its_noun_agree(number: float, what: str, said: str) -> None:
    assert counted(number, what) == said
