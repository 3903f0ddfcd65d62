"""What the pool counts, on the backend that needs no engine; and the service that shows it."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import aiohttp
import pytest
from gymwire.servers.process_figures import process_text
from gymwire.servers.sandbox.jobs import SandboxUnavailable
from gymwire.servers.sandbox.pool import Pool

from tests.servers.engine import until
from tests.servers.sandbox.backends import launcher, pool_of
from tests.servers.sandbox.programs import program
from tests.servers.scrape import Scrape, lint


class Since:
    """What was counted since this was made: the figures are the process's."""

    def __init__(self) -> None:
        self._before = Scrape.of(process_text())

    def get(self, name: str, **labels: str) -> float:
        text = process_text()
        assert lint(text) == []
        return Scrape.of(text).get(name, **labels) - self._before.get(name, **labels)


async def test_jobs_by_verdict_their_time_and_their_wait() -> None:
    async with pool_of("bubblewrap", slots=2) as pool:
        since = Since()
        await asyncio.gather(*(pool.run(program("print(1)")) for _ in range(3)))
        await pool.run(program("raise SystemExit(3)"))
        await pool.run(program("while True: pass", wall_s=0.2))
        assert since.get("gymwire_sandbox_jobs_total", verdict="completed") == 3
        assert since.get("gymwire_sandbox_jobs_total", verdict="failed") == 1
        assert since.get("gymwire_sandbox_jobs_total", verdict="timeout") == 1
        assert since.get("gymwire_sandbox_job_seconds_count") == since.get("gymwire_sandbox_queue_seconds_count") == 5
        assert since.get("gymwire_sandbox_job_seconds_sum") > 0.2


async def test_slots_by_state_and_who_waits() -> None:
    since = Since()
    async with pool_of("bubblewrap", slots=2) as pool:
        assert since.get("gymwire_sandbox_slots", state="ready") == 2
        async with pool.talk(program("input()")), pool.talk(program("input()")):
            waiting = asyncio.ensure_future(pool.run(program("print(1)")))
            await until(lambda: pool.waiting == 1)
            assert since.get("gymwire_sandbox_slots", state="busy") == 2
            assert since.get("gymwire_sandbox_slots", state="ready") == 0
            assert since.get("gymwire_sandbox_jobs_queued") == 1
        await waiting
        assert since.get("gymwire_sandbox_jobs_total", verdict="abandoned") == 2
    assert since.get("gymwire_sandbox_slots", state="ready") == 0


async def test_what_our_side_could_not_run() -> None:
    pool = Pool(launcher("bubblewrap"), 1, queue_timeout_s=0.05)
    await pool.open()
    try:
        since = Since()
        async with pool.talk(program("input()")):
            with pytest.raises(SandboxUnavailable):
                await pool.run(program("print(1)"))
        assert since.get("gymwire_sandbox_unavailable_total") == 1
        async with pool.talk(program("input()")) as talk:
            await next(iter(pool.lines)).kill()
            with pytest.raises(SandboxUnavailable):
                await talk.finish()
        assert since.get("gymwire_sandbox_slots_replaced_total", why="lost") == 1
    finally:
        await pool.close()


async def test_a_slot_that_served_for_long_is_replaced_as_recycled() -> None:
    pool = Pool(launcher("bubblewrap"), 1, recycle_jobs=1)
    await pool.open()
    try:
        since = Since()
        await pool.run(program("print(1)"))
        await until(lambda: since.get("gymwire_sandbox_slots_replaced_total", why="recycled") == 1)
        assert since.get("gymwire_sandbox_slots_replaced_total", why="lost") == 0
    finally:
        await pool.close()


async def test_the_service_shows_them_to_whoever_may_see_them(tmp_path: Path) -> None:
    launcher("bubblewrap")
    tokens = tmp_path / "tokens"
    tokens.write_text("watcher admin\nplayer play\n")
    command = [sys.executable, "-m", "gymwire.servers.cli", "sandbox", "serve", "--token-file", str(tokens)]
    command += ["--port", "0", "--sandbox", "bubblewrap", "--sandbox-slots", "2", "--log-format", "json"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        url = await _address(process)
        async with aiohttp.ClientSession() as http:
            asked = [await _asked(http, url, token) for token in ("watcher", "player", "nobody")]
        assert [status for status, _ in asked] == [200, 403, 401]
        text = asked[0][1]
        assert lint(text) == []
        read = Scrape.of(text)
        assert read.get("gymwire_sandbox_slots", state="ready") == 2
        assert read.get("gymwire_open_connections") == 1 and read.get("gymwire_build_info") == 1
    finally:
        process.terminate()
        await process.communicate()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while line := (await process.stderr.readline()).decode():
            if "listening on" in line:
                return line.partition("listening on ")[2].partition('"')[0]
    raise AssertionError("the service did not start")


async def _asked(http: aiohttp.ClientSession, url: str, token: str) -> tuple[int, bytes]:
    async with http.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}) as answer:
        return answer.status, await answer.read()
