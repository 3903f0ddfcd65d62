"""A replayable environment that is frozen and thawed as a fresh object between every two calls plays the same."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from gymwire.adapters import connect
from gymwire.adapters.drive import Played, drive
from gymwire.adapters.local import LocalSession
from gymwire.servers.rows import RowSource
from gymwire.servers.sessions import Sessions
from gymwire.servers.shared.records import freeze, thaw
from gymwire.servers.types import Ending, Message, Outcome, Row, ToolResult

from tests.contract.test_parity import POLICIES, ROWS, seen
from tests.sandboxes import skip_without
from tests.worlds import BUNDLED

REPLAYABLE = [name for name, environment in BUNDLED.items() if environment.replayable]


class Moving(LocalSession):
    """A session whose environment is another object at every operation, as if each ran on another replica."""

    moves = 0

    def move(self) -> None:
        episode = self._episode
        old = episode.environment
        assert old is not None
        made = episode.environment = episode.served.make()
        made.row, made.data, made.seed = old.row, episode.served.check_data(old.row), old.seed
        thaw(made, freeze(old))
        type(self).moves += 1

    async def _call(self, name: str, arguments: bytes, key: str) -> ToolResult:
        self.move()
        return await super()._call(name, arguments, key)

    async def _end_turn(self) -> str | None:
        self.move()
        return await super()._end_turn()

    async def _verify(self, messages: Sequence[Message], ending: Ending) -> Outcome:
        if self._episode.environment is not None:  # a call may have ended the episode
            self.move()
        return await super()._verify(messages, ending)


async def played(name: str, policy: str, index: int, row: Row, *, moving: bool) -> Played:
    environment, sessions = BUNDLED[name], Sessions()
    shown = row if policy == "oracle" else Row(prompt=row.prompt)
    async with (
        connect(environment, wire="local", sessions=sessions) as connection,
        connection.session(split="eval", index=index) as session,
    ):
        assert isinstance(session, LocalSession)
        used = Moving(sessions, session._episode, None) if moving else session
        return await drive(used, environment.policies[policy](shown, Random(index)))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", REPLAYABLE)
async def test_a_session_that_moves_at_every_call_plays_the_same(name: str, policy: str) -> None:
    skip_without(BUNDLED[name])
    source = RowSource(BUNDLED[name])
    for index in ROWS:
        row, before = source.get("eval", index), Moving.moves
        still = await played(name, policy, index, row, moving=False)
        moved = await played(name, policy, index, row, moving=True)
        assert seen(moved) == seen(still)
        assert Moving.moves > before


def test_which_bundled_environments_promise_it() -> None:
    assert {"battery", "checkout", "codebook", "counter", "exam", "graded", "ledger", "qa_search"} <= set(REPLAYABLE)
