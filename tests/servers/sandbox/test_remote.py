"""`gymwire sandbox serve` and its client: the same sandbox, from another process."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from gymwire.servers.sandbox.jobs import Job, JobRefused, Limits, SandboxUnavailable, Verdict
from gymwire.servers.sandbox.remote import RemoteSandbox

from tests.servers.sandbox.programs import HELLO, program

pytestmark = pytest.mark.docker
TOKEN = "a-token-of-the-tests"


class Served:
    def __init__(self, process: asyncio.subprocess.Process, url: str, token_file: Path) -> None:
        self.process, self.url, self.token_file = process, url, token_file

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.terminate()
        await self.process.wait()


@pytest.fixture
async def served(image: str, tmp_path: Path) -> AsyncIterator[Served]:
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n")
    command = [sys.executable, "-m", "gymwire.servers.cli", "sandbox", "serve", "--token-file", str(token_file)]
    command += ["--port", "0", "--sandbox", "docker", "--sandbox-image", image, "--sandbox-slots", "2"]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    url = ""
    async with asyncio.timeout(30):
        while not url:
            line = (await process.stderr.readline()).decode()
            assert line, "the server did not start"
            if found := re.search(r"listening on (http://\S+)", line):
                url = found[1]
    made = Served(process, url, token_file)
    yield made
    await made.stop()


@pytest.fixture
async def remote(served: Served) -> AsyncIterator[RemoteSandbox]:
    made = RemoteSandbox(served.url, served.token_file)
    await made.open()
    yield made
    await made.close()


async def test_jobs_run_as_they_do_here(remote: RemoteSandbox) -> None:
    source = "import sys\nprint(input())\nopen('out', 'wb').write(b'\\xff')\nsys.exit(3)"
    job = program(source, stdin=b"word\n", files={"in": b"\0"})
    result = await remote.run(Job(job.argv, job.files, job.stdin, collect=True))
    assert (result.verdict, result.exit_code, result.stdout) == (Verdict.FAILED, 3, b"word\n")
    assert result.files["out"] == b"\xff" and result.files["in"] == b"\0"
    results = await asyncio.gather(*(remote.run(program("print(input())", stdin=b"%d" % n)) for n in range(40)))
    assert [int(result.stdout) for result in results] == list(range(40))


async def test_a_conversation_goes_over_the_wire(remote: RemoteSandbox) -> None:
    source = "import sys\nfor line in sys.stdin: print('heard', line.strip(), flush=True)\nprint('end')"
    async with remote.talk(program(source)) as talk:
        for word in (b"one", b"two"):
            await talk.send(word + b"\n")
            assert await talk.receive() == b"heard " + word + b"\n"
        assert (await talk.finish()).verdict is Verdict.COMPLETED
        assert await talk.receive() == b"end\n"
        assert await talk.receive() == b""
    async with remote.talk(program("raise SystemExit(3)")) as talk:
        assert await talk.receive() == b""
        assert (await talk.finish()).exit_code == 3


async def test_who_leaves_frees_the_slots(remote: RemoteSandbox) -> None:
    endless = program("print('here', flush=True)\nwhile True: pass", wall_s=30.0)
    leaving = [asyncio.create_task(remote.run(endless)) for _ in range(2)]
    await asyncio.sleep(0.5)
    for task in leaving:
        task.cancel()
    async with asyncio.timeout(10):
        assert (await remote.run(HELLO)).stdout == b"hello\n"
    for _ in range(3):
        async with remote.talk(endless) as talk:
            await talk.receive()
    async with asyncio.timeout(10):
        assert (await remote.run(HELLO)).stdout == b"hello\n"


async def test_what_is_refused_here_is_refused_there(remote: RemoteSandbox) -> None:
    with pytest.raises(JobRefused, match="wall_s"):
        await remote.run(Job(("true",), limits=Limits(wall_s=1e9)))
    with pytest.raises(JobRefused, match="wall_s"):
        async with remote.talk(Job(("true",), limits=Limits(wall_s=1e9))) as talk:
            await talk.receive()


async def test_nobody_runs_a_program_without_the_token(served: Served, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("another-token\n")
    for token_file in (None, other):
        with pytest.raises(SandboxUnavailable, match="token"):
            await RemoteSandbox(served.url, token_file).open()
    async with aiohttp.ClientSession() as http:
        for path in ("/sandbox", "/sandbox/talk"):
            assert (await http.get(served.url + path)).status == 401
        assert (await http.post(served.url + "/sandbox/run", data=b"{}")).status == 401
        assert (await http.get(served.url + "/health")).status == 200


async def test_a_server_that_ends_is_unavailable(served: Served, remote: RemoteSandbox) -> None:
    running = asyncio.create_task(remote.run(program("import time\ntime.sleep(20)", wall_s=25.0)))
    await asyncio.sleep(0.5)
    await served.stop()
    with pytest.raises(SandboxUnavailable):
        await running
    with pytest.raises(SandboxUnavailable):
        await remote.run(HELLO)
    with pytest.raises(SandboxUnavailable):
        async with remote.talk(HELLO) as talk:
            await talk.receive()
