"""What a failing environment quotes of its row reaches neither a wire nor the log."""

from __future__ import annotations

import logging

import pytest
from gymwire.servers import Environment, Row, tool
from gymwire.servers.answers import Refused
from gymwire.servers.catalog import Served
from gymwire.servers.privacy import VEIL, veiled
from gymwire.servers.seeding import SeedRequest
from gymwire.servers.sessions import Sessions

DATA = {"answer": "The Eiffel Tower", "deep": [{"code": 918273}, "x\ny 'quoted'"], "short": "ab", "flag": True}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("KeyError: 'The Eiffel Tower'", f"KeyError: '{VEIL}'"),
        ("ValueError: 918273 is not it", f"ValueError: {VEIL} is not it"),
        (f"ValueError: {DATA['deep']!r}", f"ValueError: [{{'code': {VEIL}}}, \"{VEIL}\"]"),
        ("about: a table", "about: a table"),
        ("True", "True"),
    ],
)
def test_values_of_the_row_are_taken_out(text: str, left: str) -> None:
    assert veiled(text, DATA) == left
    assert veiled(text, {}) == text


class Blabber(Environment):
    """Quotes its row whatever is asked."""

    def reset(self, row: Row) -> None:
        if "early" in row.data:
            raise RuntimeError(f"cannot begin {dict(row.data)}")

    @tool
    def ask(self) -> str:
        """Ask."""
        raise KeyError(self.row.data["answer"])

    def verify(self, transcript: object) -> float:
        raise RuntimeError(f"expected {self.row.data}")


async def test_a_failure_is_told_and_logged_without_the_row(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    sessions, served = Sessions(), Served(Blabber)
    for ending in ("call", "verify"):
        session = await sessions.seed(served, SeedRequest(row=Row(data=DATA)))
        await (session.call("ask", b"{}") if ending == "call" else session.verify())
        assert session.failure is not None and VEIL in session.failure.reason
        assert "Eiffel" not in session.failure.reason and "918273" not in session.failure.reason
    with pytest.raises(Refused) as caught:
        await sessions.seed(served, SeedRequest(row=Row(data={**DATA, "early": 1})))
    assert caught.value.failure is not None and "Eiffel" not in caught.value.failure.reason
    assert "Traceback" in caplog.text and "Eiffel" not in caplog.text and "918273" not in caplog.text
    await sessions.drain(0)
