"""Slots of bubblewrap: as root and as an ordinary user, broken ones, limits in time, what they leave on the host."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import wsgiref
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from gymwire.servers.sandbox import bubblewrap, check, worker
from gymwire.servers.sandbox.check import LATE_S
from gymwire.servers.sandbox.jobs import SandboxUnavailable, Verdict
from gymwire.servers.sandbox.line import Line
from gymwire.servers.sandbox.pool import Pool
from gymwire.servers.sandbox.select import Choice, launcher_of

from tests.servers.sandbox.backends import busy, launcher, pool_of
from tests.servers.sandbox.programs import HELLO, executed, program

#: What is needed to check a backend, without the rest of the package.
STANDALONE = Path(worker.__file__).parent
ORDINARY_USER = 54_321
CHECK = """
import asyncio, sys
from sandbox.bubblewrap import Bubblewrap
from sandbox.check import check
from sandbox.jobs import Limits

async def main():
    ceiling = Limits(memory_mb=256, processes=32)
    found = [finding async for finding in check(lambda: Bubblewrap(ceiling))]
    print(len(found), *(f"{finding.attack}: {finding.evidence}" for finding in found if not finding.held), sep="\\n")

asyncio.run(main())
"""


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[Pool]:
    async with pool_of("bubblewrap", slots=1) as made:
        yield made


def first_process(line: Line) -> int:
    """The host's number of a slot's PID 1: the child of bubblewrap."""
    outer = int(line.slot.name.rpartition("-")[2])
    return int(Path(f"/proc/{outer}/task/{outer}/children").read_text())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_an_ordinary_user_s_slots_hold_as_well(tmp_path: Path) -> None:
    """In a process of its own: this one is root, whose slots are made otherwise."""
    python = next((path for path in map(shutil.which, ("python3.13", "python3.12", "python3.11")) if path), None)
    launcher("bubblewrap")
    usual = "/usr/bin/python3"
    python = usual if Path(usual).exists() and _is_new(usual) else python
    if os.geteuid() != 0 or python is None or not _readable(python):
        pytest.skip("needs root, and a Python that every user may read")
    home = Path("/var/tmp", f"gymwire-{os.getpid()}")
    shutil.copytree(STANDALONE, home / "sandbox", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", home], check=True)
    try:
        done = subprocess.run(
            [python, "-B", "-c", CHECK],
            **{"cwd": home, "capture_output": True, "text": True, "timeout": 100},
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(home), "HOME": "/nonexistent", "TMPDIR": "/tmp"},
            **{"user": ORDINARY_USER, "group": ORDINARY_USER, "extra_groups": []},
        )
    finally:
        shutil.rmtree(home)
    assert done.stdout.splitlines() == [str(len(check.ATTACKS))], done.stdout + done.stderr


def _is_new(python: str) -> bool:
    return subprocess.run([python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]).returncode == 0


def _readable(python: str) -> bool:
    return all(os.stat(folder).st_mode & 0o005 == 0o005 for folder in Path(python).resolve().parents)


async def test_a_slot_that_is_killed_is_replaced_and_its_job_runs_again(pool: Pool) -> None:
    job = asyncio.create_task(pool.run(program("import time\ntime.sleep(0.5)\nprint('done')")))
    os.kill(first_process(await busy(pool)), signal.SIGKILL)
    assert (await job).stdout == b"done\n"


async def test_a_slot_that_is_stopped_is_killed_in_time_and_its_job_runs_again(pool: Pool) -> None:
    job = asyncio.create_task(pool.run(program("import time\ntime.sleep(0.3)\nprint('done')", wall_s=1.0)))
    pid = first_process(await busy(pool))
    os.kill(pid, signal.SIGSTOP)
    assert (await job).stdout == b"done\n"
    assert not alive(pid)


async def test_a_job_that_loses_two_slots_is_unavailable(pool: Pool) -> None:
    job = asyncio.create_task(pool.run(program("import time\ntime.sleep(60)", wall_s=20)))
    line = None
    for _ in range(2):
        line = await busy(pool, but=line)
        os.kill(first_process(line), signal.SIGKILL)
    with pytest.raises(SandboxUnavailable, match="twice"):
        await job
    assert (await pool.run(HELLO)).stdout == b"hello\n"


async def test_slots_that_cannot_be_started_again_are_unavailable(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bubblewrap, "PYTHON", Path("/nonexistent/python3"))
    job = asyncio.create_task(pool.run(program("import time\ntime.sleep(60)", wall_s=20)))
    os.kill(first_process(await busy(pool)), signal.SIGKILL)
    with pytest.raises(SandboxUnavailable, match="No such file"):
        await job


def test_the_package_is_hidden_where_a_slot_would_see_it() -> None:
    assert bubblewrap.hidden(Path(sys.base_prefix, "lib/python3/site-packages/gymwire")) != []
    assert bubblewrap.hidden(Path("/usr/lib/python3/dist-packages/gymwire")) != []
    assert bubblewrap.hidden(Path("/srv/gymwire")) == []


async def test_what_is_hidden_is_an_empty_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(Path(wsgiref.__file__).parent)
    monkeypatch.setattr(bubblewrap, "hidden", lambda package: [folder])
    async with pool_of("bubblewrap", slots=1) as pool:
        result = await pool.run(program(f"import os\nprint(os.listdir({folder!r}))\nopen({folder + '/x'!r}, 'w')"))
    assert result.stdout == b"[]\n" and b"Read-only file system" in result.stderr


async def test_bubblewrap_s_own_reason_for_not_starting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher("bubblewrap")
    monkeypatch.setattr(bubblewrap, "_rights", lambda uid: ["--unshare-everything"])
    with pytest.raises(SandboxUnavailable, match=r"cannot make a sandbox here: bwrap: Unknown option"):
        await Pool(made, 1).open()


async def test_a_worker_s_reason_for_not_starting_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made = launcher("bubblewrap")
    monkeypatch.setattr(bubblewrap, "SYSTEM", ())
    with pytest.raises(SandboxUnavailable, match=r"worker did not start: exit status 1: .*python3"):
        await Pool(made, 1).open()


DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0: os.setsid()
while True: time.sleep(1)
"""


@pytest.mark.parametrize("wall_s", [0.2, 1.0])
async def test_no_job_outlives_its_limit(pool: Pool, wall_s: float) -> None:
    for source in (DEAF, "while True: pass", "import os\nwhile True: os.fork()"):
        started = time.monotonic()
        result = await pool.run(program(source, wall_s=wall_s, processes=100))
        assert result.verdict is not Verdict.COMPLETED
        assert time.monotonic() - started < wall_s + LATE_S


async def test_a_slot_that_a_program_fills_is_the_program_s(pool: Pool) -> None:
    source = "for n in range(99_999):\n    with open(f'/tmp/{n}', 'wb') as file: file.write(b'x' * 65_536)"
    result = await pool.run(program(source, files_bytes=1 << 20))
    assert result.verdict in (Verdict.OUTPUT_LIMIT, Verdict.FAILED)
    assert (await pool.run(HELLO)).stdout == b"hello\n"


async def test_a_full_disk_of_the_host_s_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the backend that has its folders there."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path))
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this machine mounts nothing")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pool = Pool(launcher_of(Choice("subprocess", allow_unsafe=True)), 1)
    try:
        await pool.open()
        assert (await pool.run(HELLO)).stdout == b"hello\n"
        with pytest.raises(SandboxUnavailable, match="No space left"):
            await pool.run(program("", files={"large": bytes(100_000)}))
    finally:
        await pool.close()
        subprocess.run(["umount", str(tmp_path)], check=True)


async def test_signals_that_whoever_began_us_ignores_end_a_program(ignored: None) -> None:
    job = program("import os, sys\nos.kill(os.getpid(), int(sys.argv[1]))\nprint('alive')", str(int(signal.SIGHUP)))
    async with pool_of("bubblewrap", slots=1) as pool:
        for either in (job, executed(job)):
            result = await pool.run(either)
            assert (result.verdict, result.stdout) == (Verdict.CRASHED, b"")


@pytest.fixture
def ignored() -> Iterator[None]:
    """What `nohup` does."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


async def test_a_closed_pool_leaves_no_process() -> None:
    async with pool_of("bubblewrap") as pool:
        pids = [pid for line in pool.lines for pid in (first_process(line), int(line.slot.name.rpartition("-")[2]))]
        running = asyncio.create_task(pool.run(program("import os, time\nos.fork()\ntime.sleep(60)", wall_s=20)))
        await asyncio.sleep(0.2)
    assert not any(map(alive, pids))
    with pytest.raises(SandboxUnavailable):
        await running


async def test_a_start_that_is_abandoned_leaves_no_process() -> None:
    made = launcher("bubblewrap")
    for delay_s in (0.0, 0.001, 0.002, 0.004, 0.008):
        start = asyncio.create_task(made.start())
        await asyncio.sleep(delay_s)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        if not start.cancelled():
            await start.result().kill()
    assert _children_of(os.getpid()) == []


def _children_of(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    names = [Path(f"/proc/{child}/comm") for task in tasks for child in task.read_text().split()]
    return [name.read_text() for name in names if name.exists() and "bwrap" in name.read_text()]


@pytest.mark.slow
def test_slots_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    launcher("bubblewrap")
    source = (
        "import asyncio, sys, time\n"
        "from gymwire.servers.sandbox.select import Choice, sandbox_of\n"
        "from tests.servers.sandbox.test_bubblewrap import first_process\n"
        "async def main():\n"
        "    pool = sandbox_of(Choice('bubblewrap', slots=2))\n"
        "    await pool.open()\n"
        "    print(*map(first_process, pool.lines), flush=True)\n"
        "    time.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        pids = [int(word) for word in server.stdout.readline().split()]
        assert len(pids) == 2 and all(map(alive, pids))
        server.kill()
    end = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(alive, pids))
