"""Training's sessions on real servers: killed, restarted, cut off, hung, full; on every wire, with scripted token ids.

What must hold is that nothing is scored 0 for our side's sake, that a recovered session equals an undisturbed one,
that nobody waits for somebody else's failure, and that no slot leaks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters import connect
from gymwire.servers.types import Row
from gymwire.trainer.rollout import Trace
from gymwire.trainer.rows import Episode, RowBook, Source

from tests.faults.watching import watching
from tests.serving import Running, free_port, serving
from tests.trainer.relay import relaying
from tests.trainer.scripted import Played, call, codebook, player_on, playing, train_book
from tests.wires import WIRES

SLOTS = 64
Playing = asyncio.Future[list[Trace]]
BOOK = train_book(6)
EPISODES = [BOOK.episode(name, sample=sample, seed=3) for name in BOOK.names for sample in range(4)]


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("roomy") / "server.log"
    with serving(log, "codebook", "tests.worlds:Breaks", "--max-sessions", str(SLOTS)) as running:
        yield running


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("narrow") / "server.log"
    with serving(log, "codebook", "--max-sessions", "3") as running:
        yield running


async def undisturbed() -> list[Trace]:
    async with playing() as played:
        return await played.player.play_all(EPISODES)


def learned(traces: list[Trace]) -> list[tuple[Any, ...]]:
    """All that an update sees of sessions, and what they said."""
    return [
        (
            t.prompt_ids,
            t.completion_ids,
            t.sampled,
            t.logprobs,
            t.reward,
            t.outcome and t.outcome.components,
            t.messages,
        )
        for t in traces
    ]


@asynccontextmanager
async def begun(url: str, wire: str, *, pause_s: float = 0.0, **options: Any) -> AsyncIterator[tuple[Playing, Played]]:
    """All episodes, while they are being played."""
    async with connect(url, env="codebook", wire=wire) as connection:
        played = player_on(connection, slots=32, **options)
        played.policy.pause_s = pause_s
        playing_all = asyncio.ensure_future(played.player.play_all(EPISODES))
        yield playing_all, played
        await playing_all


async def in_the_middle(played: Played) -> None:
    """Wait until some episodes have made their first call and are thinking about the next."""
    while not any(turn == 1 for _, turn in played.policy.asked):
        await asyncio.sleep(0.01)


async def play_on(url: str, wire: str) -> tuple[list[Trace], Played]:
    async with begun(url, wire) as (playing_all, played):
        return await playing_all, played


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_every_wire_trains_on_the_same_tokens_and_rewards(roomy: Running, wire: str) -> None:
    traces, played = await play_on(roomy.url, wire)
    assert learned(traces) == learned(await undisturbed())
    assert {trace.reward for trace in traces} == {0.0, 1.0}
    assert played.failures == []
    async with watching(roomy) as watched:
        await watched.until_free(SLOTS)


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_rows_that_stay_on_the_server_are_the_same_rows(roomy: Running, wire: str) -> None:
    book = RowBook([Source(f"train.{index}", None, "train", index) for index in range(6)])
    async with connect(roomy.url, env="codebook", wire=wire) as connection:
        traces = await player_on(connection).player.play_all([book.episode(name, seed=3) for name in book.names])
    assert [trace.prompt for trace in traces] == [
        list(source.row.prompt) for source in BOOK.by_name.values() if source.row
    ]
    assert all(trace.failure is None for trace in traces)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_server_restarted_in_the_middle_of_a_step_disturbs_nothing(tmp_path: Path, wire: str) -> None:
    port = free_port()
    arguments = ("codebook", "--max-sessions", str(SLOTS))
    with ExitStack() as stack:
        first = stack.enter_context(serving(tmp_path / "first.log", *arguments, port=port))
        async with begun(first.url, wire, pause_s=0.3, recover=2, patience_s=60) as (playing_all, played):
            await in_the_middle(played)
            first.kill()
            restarting = serving(tmp_path / "second.log", *arguments, port=port)
            second = await asyncio.to_thread(stack.enter_context, restarting)
            traces = await playing_all
        async with watching(second) as watched:
            await watched.until_free(SLOTS)
    assert learned(traces) == learned(await undisturbed())
    assert sum(trace.recovered for trace in traces) > 0
    assert played.failures
    assert len(played.policy.asked) == sum(trace.turns for trace in traces)  # nothing was sampled twice


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_wire_that_is_cut_disturbs_nothing(roomy: Running, wire: str) -> None:
    cutting = {"pause_s": 0.2, "recover": 2}
    async with relaying(roomy.url) as relay, begun(relay.url, wire, **cutting) as (playing_all, played):
        await in_the_middle(played)
        assert relay.cut() > 0
        traces = await playing_all
    assert learned(traces) == learned(await undisturbed())
    async with watching(roomy) as watched:
        await watched.until_free(SLOTS)


@pytest.mark.slow
@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_server_that_stays_away_costs_votes_and_is_never_a_zero(tmp_path: Path, wire: str) -> None:
    with serving(tmp_path / "log", "codebook") as server:
        away = {"recover": 1, "max_retries": 1, "patience_s": 1.0}
        async with begun(server.url, wire, pause_s=0.3, **away) as (playing_all, played):
            await in_the_middle(played)
            server.kill()
            started = time.monotonic()
            traces = await playing_all
    assert time.monotonic() - started < 30
    clean = await undisturbed()
    for trace, wanted in zip(traces, clean, strict=True):
        assert trace.reward == wanted.reward if trace.failure is None else trace.reward is None
    failed = [trace for trace in traces if trace.failure is not None]
    assert failed
    assert {str(trace.episode.id).rsplit(":", 1)[0] for trace in failed} <= {
        name.rsplit(":", 1)[0] for name, _, _ in played.failures
    }


@pytest.mark.parametrize("wire", WIRES[1:])
async def test_a_full_server_is_waited_for(narrow: Running, wire: str) -> None:
    traces, played = await play_on(narrow.url, wire)
    assert learned(traces) == learned(await undisturbed())
    assert played.failures == []
    async with watching(narrow) as watched:
        await watched.until_free(3)


def acts(episode: Episode, turn: int, text: str) -> str:
    return call("crash") if turn == 0 else "Done."


@pytest.mark.parametrize("wire", WIRES)
async def test_a_hung_tool_delays_nobody_else(roomy: Running, wire: str) -> None:
    """`Breaks` gives a tool 0.1 s; a hung one costs its session three tries of that, and the others nothing."""
    rows = [
        Row.of("Act.", stage="call" if index == 0 else "", how="hang" if index == 0 else "raise") for index in range(4)
    ]
    rows = [Row(row.prompt, {**row.data, "kind": ""}) for row in rows]
    book = RowBook.of_rows(rows)
    target, options = ("tests.worlds:Breaks", {}) if wire == "local" else (roomy.url, {"env": "breaks", "wire": wire})
    ended: dict[str, float] = {}
    async with connect(target, **options) as connection:
        played = player_on(connection, acts, recover=1, max_retries=1)
        started = time.monotonic()

        async def timed(episode: Episode) -> Trace:
            trace = await played.player.play(episode)
            ended[str(episode.id)] = time.monotonic() - started
            return trace

        hung = book.episode(book.names[0])
        others = [book.episode(book.names[1], sample=sample) for sample in range(8)]
        traces = await asyncio.gather(timed(hung), *map(timed, others))
    assert traces[0].failure is not None
    assert traces[0].failure.kind == "breaks:tool_timeout"
    assert all(trace.reward == 1.0 for trace in traces[1:])
    assert ended[str(hung.id)] >= 0.4
    assert max(ended[str(episode.id)] for episode in others) < ended[str(hung.id)]


def test_the_script_plays_every_kind_of_episode() -> None:
    """Otherwise the tests above would show little."""
    lookups = {codebook(episode, 0, f"code of {'a'} and {'b'},")[:30] for episode in EPISODES}
    assert len(lookups) == 2
