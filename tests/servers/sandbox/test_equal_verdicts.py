"""What becomes of a program does not depend on the backend: verdict, exit status and output of three hundred."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from gymwire.servers.sandbox.jobs import Job, Result, Verdict

from tests.servers.sandbox.backends import pool_of
from tests.servers.sandbox.corpus import corpus


async def results(backend: str, jobs: Mapping[str, Job]) -> dict[str, Result]:
    async with pool_of(backend) as pool:
        return dict(zip(jobs, await asyncio.gather(*map(pool.run, jobs.values())), strict=True))


def seen(result: Result) -> dict[str, Any]:
    """What a program did; of a flood its amount is not known, of an ended program not what it had printed by then."""
    if result.verdict is Verdict.OUTPUT_LIMIT:
        return {"verdict": result.verdict, "truncated": result.truncated}
    return {"verdict": result.verdict, "exit": result.exit_code, "stdout": result.stdout, "cut": result.truncated}


@pytest.mark.docker
@pytest.mark.slow
async def test_docker_and_bubblewrap_say_the_same() -> None:
    jobs = corpus()
    assert len(jobs) >= 300
    docker, bubblewrap = [await results(backend, jobs) for backend in ("docker", "bubblewrap")]
    different = {
        name: (seen(docker[name]), seen(bubblewrap[name]), docker[name].stderr[-200:], bubblewrap[name].stderr[-200:])
        for name in jobs
        if seen(docker[name]) != seen(bubblewrap[name])
    }
    assert different == {}
    assert {result.verdict for result in docker.values()} == set(Verdict), "the corpus has every verdict"
